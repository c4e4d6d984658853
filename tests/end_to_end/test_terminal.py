"""The screen that a person sees: on terminals of several widths, and without colours. After Ctrl-C: test_epochs.py."""

import re
import sys
from pathlib import Path

import pytest

from tests.helpers import GOLDEN, kit
from tests.helpers.kit import make_command, needs_setup, wait_for
from tests.helpers.targets import launch_command
from tests.helpers.terminal import ESCAPE, Terminal

pytestmark = pytest.mark.end_to_end

# Prints a rate after five refreshes of the progress line, and what would clear the screen.
PROGRAM = r"""sh -c "sleep 5; printf '\033[2Jsamples/s: {ranks}0\n'" """


def program(folder: Path) -> list[str]:
    """Return the command that measures the program on one and two nodes, once each."""
    rate, args = r"RATE=samples/s: (\d+)", "ARGS=measure.budget_s=1 program.scaling=weak tracking=none"
    results = f"RESULTS={folder / 'results'}"
    return launch_command("scaling", ["NODES=2", f"COMMAND={PROGRAM}", rate, "REPEATS=1", args, results])


def progress(screen: list[str]) -> list[str]:
    """Return the lines of a screen that show the progress of a run."""
    return [line for line in screen if re.search(r"r\d+: (starting|import|warm up|timed|round)", line)]


def screens(terminal: Terminal) -> list[list[str]]:
    """Return the screens of a command while it runs, and the last one."""
    shown = [terminal.lines()]

    def ended() -> bool:
        if (screen := terminal.lines()) != shown[-1]:
            shown.append(screen)
        return terminal.process.poll() is not None

    wait_for(ended)
    terminal.wait(kit.TIMEOUT_S)
    return [*shown, terminal.lines()]


@pytest.mark.parametrize("columns", [40, 160])
def test_a_line_at_the_bottom_shows_the_progress_and_is_gone_at_the_end(tmp_path, columns):
    terminal = Terminal(*program(tmp_path), columns=columns)
    *during, last = screens(terminal)
    assert terminal.process.returncode == 0, "\n".join(last)
    shown = [line for screen in during for line in progress(screen)]
    assert any("nodes2 r0" in line for line in shown)
    assert all(re.search(r"\d/\d+ \d+ s of \d+ (s|min)", line) for line in shown if columns > 40)
    assert max(len(progress(screen)) for screen in during) == 1
    assert progress(last) == []
    assert not ESCAPE.search("\n".join(last)), "\n".join(last)
    assert "\x1b[3" in terminal.output  # colours
    log = next((tmp_path / "results").rglob("rank-0.log")).read_text()
    assert "\x1b[2J" in log  # the program did print it


def test_no_color_is_respected_and_a_dumb_terminal_gets_lines_as_a_log(tmp_path):
    without = Terminal(*program(tmp_path / "colour"), columns=80, variables={"NO_COLOR": "1"})
    dumb = Terminal(*program(tmp_path / "dumb"), columns=80, variables={"TERM": "dumb"})
    during = screens(without)
    assert [line for screen in during for line in progress(screen)]
    assert not re.search(r"\x1b\[[\d;]*3\dm", without.output)
    lines = screens(dumb)[-1]
    assert "\x1b" not in dumb.output
    assert any(line.startswith("[1/2] ") for line in lines), lines
    assert lines[-1]


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_help_fits_a_terminal_of_80_columns(variables):
    terminal = Terminal("make", "help", "ALL=1", columns=80, variables=variables)
    assert terminal.wait(kit.TIMEOUT_S) == 0
    assert "  weak-scaling       Weak scaling: throughput over nodes, constant batch per" in terminal.lines()
    assert ("\x1b" in terminal.output) == (not variables)


@pytest.mark.parametrize("columns", [40, 160])
def test_status_and_summary_of_recorded_results_are_as_wide_as_the_terminal(columns):
    results = str(GOLDEN / "results/rounds")
    status = Terminal(sys.executable, "-m", "train.launch.status", results, columns=columns)
    assert status.wait(kit.TIMEOUT_S) == 0
    assert re.search(r"^all .* \d+ done", "\n".join(status.lines()), re.MULTILINE)
    command = (sys.executable, "-m", "analysis", "summary", "weak_scaling", "--results", results)
    summary = Terminal(*command, columns=columns)
    assert summary.wait(kit.TIMEOUT_S) == 0
    lines = summary.lines()
    heads = [line for line in lines if line.startswith("model")]
    assert len(heads) >= {40: 9, 160: 2}[columns]
    assert all(re.search(r"^ResNet50 +\d", line) for line in lines if line.startswith("ResNet50"))


@needs_setup
def test_doctor_shows_each_check_as_it_ends(tmp_path):
    terminal = Terminal(*make_command(tmp_path, "doctor", "NODES=2"), columns=80)
    *during, last = screens(terminal)
    assert terminal.process.returncode in (0, 1), "\n".join(last)
    first = next(screen for screen in during if any(line.startswith("cores ") for line in screen))
    assert len(first) < len(last)
    assert not ESCAPE.search("\n".join(last)), "\n".join(last)
