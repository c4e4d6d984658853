"""The progress of a run, from parts written by hand: launched at 1000 s, the first line of its rank at 1002 s."""

import os

import pytest

from record import progress, protocol
from record.parts import PartWriter
from record.progress import Follower, RunProgress, progress_line, run_progress
from record.recorded_config import RankGroup
from record.schema import AllreduceTimes, Epoch, Window
from tests.helpers.configs import arm, with_values
from train.config.compose import load
from train.config.identity import values
from train.config.measure_config import LaunchPlan

ARMS = [
    arm(1, "nodes1", batch_per_rank=4, role="base"),
    arm(2, "nodes2", batch_per_rank=4),
    arm(2, "nodes2-without-allreduce", batch_per_rank=4, allreduce=False, role="control"),
]


def configured(*overrides: str, **changes):
    config = load(["model=tiny", "nodes=2", "batch_per_rank=4", *overrides])
    return values(with_values(config, {"launch": LaunchPlan(**changes)}))


def writer(folder, rank=0, pid=7, **fields):
    return PartWriter(protocol.part_path(folder, rank, "n1", pid), rank=rank, began_at=1002.0, **fields)


def in_timed(part, at: float, **phases_s: float):
    """Let the rank of this part begin its timed steps at this time."""
    spent = 2.0 + sum(phases_s.values())
    part.add(phase="timed", phases_s={"start": 2.0, "import": at - 1000 - spent, **phases_s})


def line(folder, config, now: float) -> str:
    return progress_line(run_progress(Follower(folder), config), now)


def test_without_other_numbers_the_phase_is_reported_and_in_the_timed_one_the_time(tmp_path):
    assert run_progress(Follower(tmp_path), configured()) is None  # no rank has begun
    writer(tmp_path).add(phase="first_step", phases_s={"start": 2.0, "import": 3.0})
    assert line(tmp_path, configured(), 1010.0) == "first step"
    assert line(tmp_path, configured(rounds_end_s=5, rounds=ARMS), 1010.0) == "first step"
    assert progress_line(RunProgress("timed", 1000.0), 1005.0) == "timed for 5 s"


def test_timed_steps_are_expected_to_take_as_long_as_those_of_the_warm_up(tmp_path):
    part = writer(tmp_path)
    part.add(warm_up_step_times_s=[0.4, 0.5, 9.0])  # the median: 8 images in 0.5 s
    in_timed(part, 1020.0)
    config = configured("measure.timed_steps=100")
    assert line(tmp_path, config, 1030.0) == "step about 20 of 100, about 40 s left, 16 images/s"
    assert line(tmp_path, config, -2600.0).startswith("step about 0 of 100, ")  # the clock was set back
    assert line(tmp_path, config, 1090.0) == "step about 100 of 100, longer than expected, 16 images/s"


EPOCHS = ("experiment=accuracy_digits", "measure.epochs=8", "batch_per_rank=null", "global_batch=64", "nodes=2")


def test_speed_loss_and_time_of_an_epoch_follow_from_the_last_ones(tmp_path):
    part = writer(tmp_path)
    config = configured(*EPOCHS)
    assert line(tmp_path, config, 1003.0) == "epoch 1 of 8, start"
    part.add(epochs=[Epoch(1, 22, 4.0, 2.0, 0.25), Epoch(2, 22, 2.0, 1.5, 0.5)])
    in_timed(part, 1020.0, timed=6.0, evaluate=2.0, checkpoint=1.0)  # an epoch takes 1.5 times its timed part
    # 22 steps x 64 images in 2 s; 11 steps in the second since; 6 epochs of 3 s x 1.5 left, but for that second
    expected = "epoch 3 of 8, step about 55 of 176, about 26 s left, 704 images/s, loss 1.5"
    assert line(tmp_path, config, 1021.0) == expected
    part.add(phase="evaluate", phases_s={"timed": 8.0})
    assert line(tmp_path, config, 1022.0).startswith("epoch 3 of 8, evaluate, step 44 of 176, about")
    part.add(epochs=[Epoch(number, 22, 80.0 - 10 * number, 1.5, 0.5) for number in range(3, 8)])  # of a resumed launch
    # the last three took 20 s each, and an epoch now takes 1.375 times its timed part: 27.5 s, half a second ago
    expected = "epoch 8 of 8, evaluate, step 154 of 176, about 27 s left, 141 images/s, loss 1.5"
    assert line(tmp_path, config, 1022.5) == expected


def test_the_speedup_of_the_rounds_so_far_is_reported(tmp_path):
    config, part = configured(rounds_end_s=100, rounds=ARMS), writer(tmp_path)
    in_timed(part, 1010.0)
    # Two steps: 8 images of one rank in 2 s, 16 images of both, the largest batch, in 2.5 s.
    windows = [
        Window(number, arm, window_s, [1.0, 1.0]) for number in range(6) for arm, window_s in enumerate((2.0, 2.5))
    ]
    part.add(windows=windows[:6])
    assert line(tmp_path, config, 1020.0) == "round 4, at most 80 s left, 6.4 images/s, nodes2 1.6x so far"
    state = run_progress(Follower(tmp_path), config)
    assert progress_line(state, 1020.0, results=False) == "round 4, at most 80 s left"
    part.add(windows=windows[6:])
    assert line(tmp_path, config, 1101.0).startswith("round 7, ends with this round, 6.4")


def test_the_first_rank_of_each_rank_group_is_read(tmp_path):
    arms = [arm(1, "without", batch_per_rank=4, role="base"), arm(1, "with", batch_per_rank=4, rank_group=1)]
    groups = (RankGroup({"distribution.backend": "none"}, 0, 1), RankGroup({}, 1, 1))
    for rank, window_s in ((0, 2.0), (1, 2.5)):
        part = writer(tmp_path, rank)
        in_timed(part, 1010.0)
        part.add(windows=[Window(number, rank, window_s, [1.0, 1.0]) for number in range(6)])
    config = configured(rounds_end_s=100, rounds=arms, rank_groups=groups)
    assert "with 0.8x so far" in line(tmp_path, config, 1020.0)


def test_the_round_of_a_sweep_is_reported(tmp_path):
    config = load(["experiment=allreduce_bench", "nodes=2"])
    part = writer(tmp_path)
    part.add(
        phase="warm_up",
        allreduces=[AllreduceTimes(size, [0.1], round=number) for number, size in ((0, 32), (0, 64), (1, 32))],
    )
    expected = f"round 2 of {config.allreduce_sweep.rounds}, 3 sizes timed"
    assert line(tmp_path, values(config), 1020.0).startswith(expected)


def test_the_newer_process_of_a_rank_that_was_started_again_is_read_and_its_new_lines_alone(tmp_path):
    for pid, gpu in ((7, "old"), (8, "new")):
        writer(tmp_path, pid=pid, gpu=gpu)
    os.utime(protocol.part_path(tmp_path, 0, "n1", 7), (1.0, 1.0))
    follower = Follower(tmp_path)
    assert [part.gpu for part in (follower.part(0), *follower.parts())] == ["new", "new"]
    assert follower.part(0) is follower.part(0)  # nothing new: nothing read


@pytest.mark.parametrize(
    ("seconds", "text"), [(9.4, "9 s"), (99.0, "99 s"), (120.0, "2 min"), (5900.0, "98 min"), (12000.0, "3 h 20 min")]
)
def test_the_unit_of_a_time_follows_from_its_length(seconds, text):
    assert progress.duration(seconds) == text
