import sys
from pathlib import Path

import psutil
import pytest

from benchmarks import launches
from benchmarks.nested import Launch, Turn, compare, rates_of_arms, rates_of_point
from tests.helpers.kit import wait_for
from tests.helpers.run_records import make_record, make_rounds
from train.launch.launchers.base import Machine
from train.record import files, record
from train.record.parts import RankPart
from train.record.record import Failure


def test_a_step_that_was_frozen_counts_in_no_turn():
    run = make_record(nodes=2, batch_per_rank=8)
    for rank in run.ranks:  # the fifth step was frozen for 5 s, and the last one
        rank.step_times_s = [0.5, 0.5, 0.5, 0.5, 5.5, 0.4, 0.4, 0.4, 0.4, 9.0]
    timed_at = 1000 + 12.5 + 1.0  # the phases before, and two steps of the warm-up
    spans = [(-3, 2.2), (7.2, 9.3), (18, 20)]  # in the last all steps were made
    turns = [Turn(timed_at + begun_s, timed_at + ended_s, 0) for begun_s, ended_s in spans]
    assert rates_of_point(1000, turns, run) == pytest.approx([16 / 0.5, 16 / 0.4])


def test_a_turn_of_a_curve_has_the_rates_of_its_round():
    run = make_rounds([(1.0, 1.25, 1.1), (0.8, 1.0, 0.9), (1.6, 2.0, 1.7)])
    result = rates_of_arms([Turn(0, 1, 0), Turn(2, 3, 2)], run)
    assert result == [{1: pytest.approx(8), 2: pytest.approx(12.8)}, {1: pytest.approx(5), 2: pytest.approx(8)}]


def test_rates_and_speedups_are_compared_turn_by_turn():
    # One node is as fast in rounds as alone; two nodes have 0.8, then 0.9 of their speed. The machine slows by half.
    nested, alone = [{1: 8.0, 2: 12.0}, {1: 4.0, 2: 6.3}], {2: [15.0, 7.0], 1: [8.0, 4.0, 2.0]}
    assert list(compare(nested, alone)) == [
        "nodes=1: rate in rounds / alone 1.000, 1.000, n=2 turns",
        "nodes=2: rate in rounds / alone 0.800, 0.900, n=2 turns",
        "nodes=2: speedup over nodes=1 in rounds / alone 0.800, 0.900, n=2 turns",
    ]
    [_, output, _] = compare(nested, {1: [8.0], 2: []})
    assert "raise --steps" in output


@pytest.mark.slow
def test_the_processes_of_a_launch_stand_still_while_others_run(tmp_path):
    ticks = tmp_path / "ticks"
    child = f"while True: open({str(ticks)!r}, 'a').write('.')"
    # Like the launcher, it ends its child when it gets SIGTERM.
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit())"
    parent = f"import signal, subprocess, sys; {handler}; subprocess.run([sys.executable, '-c', {child!r}])"

    def ticking():
        return next(process for process in psutil.Process().children(recursive=True) if child in process.cmdline())

    launch = Launch("curve", tmp_path, [sys.executable, "-c", parent])
    try:
        wait_for(ticks.exists)
        launch.freeze()
        wait_for(lambda: ticking().status() == psutil.STATUS_STOPPED)  # a signal takes a moment to arrive
        size = ticks.stat().st_size
        launch.thaw()
        wait_for(lambda: ticks.stat().st_size > size)
    finally:
        launch.end()


@pytest.mark.slow
def test_a_launch_that_fails_in_its_turn_says_why(tmp_path, monkeypatch):
    run = make_rounds([(1.0, 1.25, 1.1)])
    run.status, run.failure = "failed", Failure("rank 1 was killed", rank=1)
    folder = tmp_path / "weak_scaling/tiny-rounds/0a1b2c3d/r0"
    folder.mkdir(parents=True)
    files.write_once(folder / record.RECORD_NAME, record.dumps(run))
    monkeypatch.setattr(Launch, "part", RankPart())
    launch = Launch("tiny-rounds", tmp_path, [sys.executable, "-c", "import time; time.sleep(0.5); exit(1)"])
    with pytest.raises(SystemExit, match="tiny-rounds: the launch failed: rank 1 was killed"):
        launch.take_turn(1)


def test_a_curve_and_its_points_are_distinguished_from_each_other_and_from_controls_of_emulated_nodes(monkeypatch):
    monkeypatch.setattr(launches, "this_machine", lambda: Machine(2, None))
    arguments = ["experiment=weak_scaling", "model=tiny", "nodes=4", "launcher=emulated"]
    assert launches.curve_of(launches.overrides(Path("unused"), arguments)) == "tiny-rounds"
    overrides = launches.overrides(Path("unused"), arguments, design="launches")
    assert launches.points_of(overrides) == ["tiny-nodes1", "tiny-nodes2", "tiny-nodes4"]
