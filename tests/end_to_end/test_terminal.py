"""The screen that a person sees: on terminals of several widths, and without colours. After Ctrl-C: test_epochs.py."""

import re
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.helpers import kit
from tests.helpers.kit import make_command, needs_setup, wait_for
from tests.helpers.patched_ranks import Hold
from tests.helpers.pseudo_terminal import ESCAPE, Terminal
from tests.helpers.targets import launch_command

pytestmark = pytest.mark.end_to_end


UNCONFIRMED = 2  # the status if the running times, which these tests decide, do not confirm the number


def program(folder: Path) -> list[str]:
    """Return the command that measures a program on one and two nodes, once each.

    It ends when there is a file for its number of nodes, and prints what would clear the screen.
    """
    seen, output = f"{folder}/seen{{ranks}}", r"\033[2Jsamples/s: {ranks}0\n"
    command = f"""COMMAND=sh -c "until [ -e '{seen}' ]; do sleep 0.1; done; printf '{output}'" """
    rate, args = r"RATE=samples/s: (\d+)", "ARGS=measure.budget_s=1 program.scaling=weak tracking=none"
    return launch_command("scaling", ["NODES=2", command, rate, "REPEATS=1", args, f"RESULTS={folder / 'results'}"])


def progress(screen: list[str]) -> list[str]:
    """Return the lines of a screen that show the progress of a run."""
    return [line for line in screen if re.search(r"r\d+: (starting|import|warm up|timed|round)", line)]


def screens(terminal: Terminal, folder: Path) -> list[list[str]]:
    """Return the screens of the program, which ends on each size when its progress is on a screen, and the last one."""
    shown: list[list[str]] = []

    def is_seen(nodes: int) -> bool:
        shown.append(terminal.lines())
        return any(f"nodes{nodes} r0" in line for line in progress(shown[-1])) or terminal.process.poll() is not None

    for nodes in (1, 2):
        wait_for(partial(is_seen, nodes))
        (folder / f"seen{nodes}").touch()
    terminal.wait(kit.TIMEOUT_S)
    return [*shown, terminal.lines()]


@pytest.mark.parametrize(("columns", "variables"), [(40, {}), (160, {"NO_COLOR": "1"})])
def test_a_line_at_the_bottom_shows_the_progress_and_is_gone_at_the_end(tmp_path, columns, variables):
    terminal = Terminal(*program(tmp_path), columns=columns, variables=variables)
    *during, last = screens(terminal, tmp_path)
    assert terminal.process.returncode in (0, UNCONFIRMED), "\n".join(last)
    shown = [line for screen in during for line in progress(screen)]
    assert any("nodes2 r0" in line for line in shown)
    assert all(re.search(r"\d/\d+ \d+ s of \d+ (s|min)", line) for line in shown if columns > 40)
    assert max(len(progress(screen)) for screen in during) == 1
    assert progress(last) == []
    assert not ESCAPE.search("\n".join(last)), "\n".join(last)
    assert bool(re.search(r"\x1b\[[\d;]*3\dm", terminal.output)) == (not variables)  # colours
    log = next((tmp_path / "results").rglob("rank-0.log")).read_text()
    assert "\x1b[2J" in log  # the program did print it


def test_a_dumb_terminal_gets_lines_as_a_log(tmp_path):
    for name in ("seen1", "seen2"):
        (tmp_path / name).touch()
    dumb = Terminal(*program(tmp_path), columns=80, variables={"TERM": "dumb"})
    assert dumb.wait(kit.TIMEOUT_S) in (0, UNCONFIRMED)
    lines = dumb.lines()
    assert "\x1b" not in dumb.output
    assert any(line.startswith("[1/2] ") for line in lines), lines
    assert lines[-1]


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_help_fits_a_terminal_of_80_columns(variables):
    terminal = Terminal("make", "help", "ALL=1", columns=80, variables=variables)
    assert terminal.wait(kit.TIMEOUT_S) == 0
    assert "  weak-scaling       Weak scaling: throughput over nodes, constant batch per" in terminal.lines()
    assert ("\x1b" in terminal.output) == (not variables)


@needs_setup
def test_doctor_shows_each_check_as_it_ends(tmp_path):
    hold = Hold(tmp_path / "patch", "train.rank.counters.why_no_energy", after=0, ranks=[0])
    terminal = Terminal(*make_command(tmp_path / "kit", "doctor", "NODES=2"), columns=80, variables=hold.variables)
    wait_for(lambda: any(line.startswith("cores ") for line in terminal.lines()))
    assert not any(line.startswith("energy ") for line in terminal.lines())
    hold.off()
    status, last = terminal.wait(kit.TIMEOUT_S), terminal.lines()
    assert status in (0, 2), "\n".join(last)  # make: a check failed, on this machine
    assert any(line.startswith("energy ") for line in last)
    assert not ESCAPE.search("\n".join(last)), "\n".join(last)


def test_a_question_about_a_table_is_answered_by_a_number_and_the_answer_is_used_from_then_on(tmp_path):
    """Of a rank: 1 x 100, 2 x 95 and 4 x 92 images/s."""
    path = tmp_path / "x.csv"
    path.write_text("GPUs,img/s,time (s),batch per GPU,steps\n1,100,12,10,100\n2,95,13,10,100\n4,92,14,10,100\n")
    terminal = Terminal(*make_command(tmp_path / "kit", "table", f"FILE={path}"), columns=160)
    wait_for(lambda: "number of the answer:" in "\n".join(terminal.lines()))
    (number,) = re.findall(r'(\d) +COLUMNS="img/s=images_per_s_per_rank"', "\n".join(terminal.lines()))
    terminal.press(f"{number}\n")
    assert terminal.wait(kit.TIMEOUT_S) == 0, terminal.lines()
    reading = "'img/s' -> images_per_s_per_rank, of one rank, img/s"
    assert any(line.startswith(reading) for line in terminal.lines())
    answers = yaml.safe_load((tmp_path / "x.csv.columns.yaml").read_text())
    assert answers["columns"] == {"img/s": "images_per_s_per_rank"}
    for command in (("audit", "--file"), ("explain",), ("predict", "--file")):
        assert reading in kit.analyse(*command, str(path)), command
    assert "368" in kit.analyse("compare", f"A={path}", f"B={path}")  # images/s of the job on four ranks: 4 x 92
