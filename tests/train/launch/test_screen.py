import time
from unittest.mock import Mock

import pytest
from rich.console import Console

from record import protocol
from record.parts import PartWriter
from tests.helpers.launch_plans import plan_points
from train.config.compose import load
from train.config.identity import values
from train.launch import screen


def test_progress_is_reported_and_read_each_at_its_interval(tmp_path, monkeypatch):
    output, clock = [], Mock(return_value=100.0)
    monkeypatch.setattr(time, "monotonic", clock)
    report = screen.progress_reporter(tmp_path, values(load([])), output.append, 1.0, results=True)
    for clock.return_value in (100.0, 101.5, 101.5):
        report()
    assert output == ["starting for 2 s"]
    PartWriter(protocol.part_path(tmp_path, 0, "n1", 7), began_at=time.time()).add(phase="build")
    for clock.return_value in (103.0, 108.0):
        report()
    assert output[1:] == ["starting for 3 s", "build"]  # nothing is read twice within seconds
    monkeypatch.setattr(screen.progress, "run_progress", Mock(side_effect=OSError("stale file handle")))
    clock.return_value = 113.0
    report()
    assert output[3:] == ["build"]  # a folder that is away for a while does not end the run


@pytest.mark.parametrize(("columns", "all_s", "times"), [(60, None, "0 s"), (140, 720.0, "0 s of 12 min")])
def test_on_any_terminal_progress_is_one_line_that_is_cut_off_before_the_times(columns, all_s, times):
    console = Console(width=columns)
    progress = screen.ProgressLine(console, 3)
    bar = progress.add_task("", total=3, all_s=all_s)
    progress.update(bar, description="nodes2 r0: " + "epoch 5 of 40, " * 6)
    with console.capture() as output:
        console.print(progress.get_renderable())
    [line] = output.get().rstrip("\n").splitlines()
    assert len(line) <= columns - len("^C")
    assert line.startswith("nodes2 r0: epoch 5 of 40")
    assert line.rstrip().endswith(f"0/3 {times}")


@pytest.mark.parametrize(("columns", "left_out"), [(40, ["cores", "threads"]), (80, [])])
def test_the_table_of_points_is_as_wide_as_the_terminal_and_folds_names(columns, left_out):
    points = plan_points("experiment=weak_scaling", "model=tiny", "nodes=2", "distribution.cycle_time_ms=1,5")
    console = Console(width=columns)
    with console.capture() as output:
        screen.show_points(points, console)
    table = output.get().partition("4 points")[0]
    assert max(map(len, table.splitlines())) <= columns
    assert "…" not in table
    words = ["ranks", "cores", "threads", "batch", "global", "steps"]
    assert [word for word in words if word not in table] == left_out
    assert "tiny-nodes2-cycle_time_ms1" in "".join(line[:12].strip() for line in table.splitlines()) + table


@pytest.mark.parametrize(
    ("command", "name", "batches"),
    [("mpirun ls {ranks}", "ls", ""), ("ls {ranks} {global_batch}", "other", "batch a rank global batch")],
)
def test_the_plan_of_a_program_has_its_name_and_no_steps(command, name, batches):
    overrides = (f"program.command='{command}'", "program.scaling=weak", f"program.name={name}")
    console = Console(width=160)
    with console.capture() as output:
        screen.show_points(plan_points("experiment=scaling", *overrides), console)
    heads = {*output.get().splitlines()[0].split()}
    assert heads == {*f"point ranks cores a node threads a rank {batches}".split()}
    assert ("ls: the program's name in tables and figures; ARGS=program.name=" in output.get()) == (name == "ls")
