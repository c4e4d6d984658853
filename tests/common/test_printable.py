import io
import subprocess
import sys
import unicodedata
from contextlib import nullcontext
from xml.etree import ElementTree

import pytest
from rich.live import Live
from rich.table import Table

from common.printable import Printable, escaped, os_error_text, printable_output
from tests.helpers import ROOT
from train.launch.screen import Terminal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("a\rb\x9bc\x7f", r"a\rb\x9bc\x7f"),
        ("a\u202eb\u061cc", r"a\u202eb\u061cc"),
        ("\ufffe", r"\ufffe"),
        ("é ± 3 %\tx\n", "é ± 3 %\tx\n"),
        ("\ud800", r"\ud800"),
    ],
)
def test_a_terminal_gets_no_control_character(text, expected):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8", newline="")
    print(text, end="", file=Printable(stream), flush=True)
    assert raw.getvalue().decode() == expected


@pytest.mark.slow
def test_no_character_that_a_terminal_obeys_or_xml_cannot_hold_is_left():
    """Unicode 15, PropList.txt: Bidi_Control. XML 1.0, production 2."""
    bidi = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
    unescaped = [code for code in range(sys.maxunicode + 1) if escaped(chr(code)) == chr(code)]
    controls = [code for code in unescaped if unicodedata.category(chr(code)) in ("Cc", "Cs")]
    assert controls == [ord("\t"), ord("\n")]
    assert not bidi & {*unescaped}
    ElementTree.fromstring("<a>" + "".join(chr(code) for code in unescaped if chr(code) not in "<&") + "</a>")
    assert len(unescaped) == sys.maxunicode + 1 - 2048 - 2 - len(bidi) - (32 - 2 + 33)


def test_an_error_without_a_file_names_none():
    assert os_error_text(OSError(28, "No space left on device")) == "No space left on device"
    assert os_error_text(OSError(28, "No space left on device", "/data/x")) == "/data/x: No space left on device"
    assert os_error_text(OSError("timed out")) == "timed out"


@pytest.mark.parametrize("live", [False, True])
def test_rich_writes_its_control_codes_and_no_control_character_of_a_text(monkeypatch, live):
    raw = io.StringIO()
    monkeypatch.setattr(sys, "stdout", raw)
    with printable_output():
        console = Terminal(force_terminal=True, color_system="standard", width=60)
        table = Table()
        table.add_column("\x1b[2Jname")
        table.add_row("a\x9bb")
        with Live(console=console, auto_refresh=False) if live else nullcontext():
            console.print(table)
            console.print("[red]error:[/red] killed \x1b]52;c;eA==\x9c", highlight=False)
            print("a line of a library \x1b[2J")
    output = raw.getvalue()
    assert "\x1b[31merror:" in output
    assert r"\x1b[31m" not in output
    assert r"killed \x1b]52;c;eA==\x9c" in output
    assert r"\x1b[2J" in output  # cut off, as a column as wide as one control character is
    assert r"a\x9bb" in output
    assert "a line of a library" in output
    assert "\x1b[2J" not in output
    assert ("\x1b[?25l" in output) == live  # it hides the cursor


COMMANDS = (
    *("train.launch", "train.launch.status", "train.launch.reproduce", "train.tracking"),
    *("train.tools.doctor", "train.tools.data_fetch", "train.tools.data_check", "train.tools.input_bench"),
)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_writes_a_control_character_of_what_it_names(tmp_path, command):
    nasty = f"{tmp_path}/\x1b]0;title\x07"
    arguments = {"train.tools.doctor": ["--ranks", nasty], "train.tools.data_fetch": [nasty, "folder"]}
    argv = [sys.executable, "-m", command, *arguments.get(command, [nasty])]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert r"\x1b]0;title\x07" in done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr
