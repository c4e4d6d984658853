import numpy as np
import pytest

from analysis.table.checks import contradictions, times
from tests.analysis.table.checks.edits import edited, messages
from tests.helpers import noisy_records
from tests.helpers.run_records import as_sweep, make_record, make_rounds, update_derived
from train.record.record import CoreUse, Epoch, Failure, NodeQuota, Resize

QUOTA = NodeQuota(0, 0.4, 0.1, 50, 20, 1.0, "cgroup")  # a throttled node pauses for up to 0.1 s
DELAYED = CoreUse(5.3, 4.8, 5.3, 0.0, delay_s=0.3)  # others kept the rank from running
RESUMED = "an earlier launch was interrupted: this one resumed after its epoch 1; ..."


def two_ranks():
    return update_derived(make_record(nodes=2, step_s=0.5, steps=10))


def sweep():
    return as_sweep(make_record(nodes=2), {1024: [[0.1] * 10, [0.1] * 10]})


def epochs():
    return update_derived(make_record(epochs=[Epoch(i, 10, 20.0, 1.0, 0.5) for i in (1, 2, 3)]))


def rounds(**more):
    return make_rounds([(0.5, 0.8, 0.55)] * 3, **more)


def plus(seconds):
    return lambda time_s: time_s + seconds


TIMED = ("rank 0: timed", "rank 1: timed", "the longest timed phase")
# A check, a record, changes that contradict nothing, changes that do, and the messages.
CASES = [
    (times.phases_and_job, two_ranks, {}, {"job_s": 1.0},
     [f"job_s 1 s, but the phases of rank {rank} add up to 19 s (-0.947)" for rank in (0, 1)]),
    (times.phases_and_job, two_ranks, {"ranks.1.phases_s.start": 1.2, "ranks.1.phases_s.exit": 0.0},
     {"ranks.1.phases_s.start": 1.6}, ["job_s 19 s, but the phases of rank 1 add up to 19.6 s (-0.0306)"]),
    (times.steps_and_window, two_ranks, {}, {"ranks.0.phases_s.timed": 2.5, "ranks.1.phases_s.timed": 2.5},
     [f"{name} 2.5 s, but its steps add up to 5 s (-0.5)" for name in TIMED]),
    # rank 0 waits for the slowest rank
    (times.steps_and_window, two_ranks, {"ranks.0.step_times_s": [0.4] * 10}, {"ranks.1.step_times_s": [0.4] * 10},
     ["the longest timed phase 5 s, but its steps add up to 4 s (+0.25)"]),
    # 20 ms of a cycle and 20 ms of a pause are allowed
    (times.steps_and_window, two_ranks, {"ranks.1.phases_s.timed": 5.06, "node_quotas": [QUOTA]},
     {"node_quotas": []}, ["timed 5.06 s on one rank, but 5 s on another, within the same barriers (+0.012)"]),
    (times.steps_and_window, two_ranks, {"ranks.1.phases_s.timed": 5.5, "cores_shared": True},
     {"cores_shared": False},
     ["the longest timed phase 5.5 s, but its steps add up to 5 s (+0.1)",
      "timed 5.5 s on one rank, but 5 s on another, within the same barriers (+0.1)"]),
    (times.steps_and_window, two_ranks, {"ranks.1.phases_s.timed": 5.25, "ranks.1.timed_cores": DELAYED},
     {"ranks.1.timed_cores": None},
     ["the longest timed phase 5.25 s, but its steps add up to 5 s (+0.05)",
      "timed 5.25 s on one rank, but 5 s on another, within the same barriers (+0.05)"]),
    (times.computing_and_step, two_ranks,
     {"ranks.1.compute_times_s": [0.4, 0.7], "ranks.1.timed_cores": DELAYED}, {"ranks.1.timed_cores": None},
     ["rank 1: a step of 0.5 s, but its gradients were ready after 0.7 s (-0.286)"]),
    (times.allreduces_of_ranks, sweep, {}, {"ranks.1.allreduces.0.times_s": [0.05] * 10},
     ["10 allreduces of 1024 bytes in 1 s on one rank, but 0.5 s on another (+1)"]),
    (times.steps_and_window, sweep, {}, {"ranks.0.phases_s.timed": 0.9, "ranks.1.phases_s.timed": 0.9},
     [f"{name} 0.9 s, but its steps add up to 1 s (-0.1)" for name in TIMED]),
    (times.warm_up_and_phase, two_ranks, {}, {"ranks.0.phases_s.warm_up": 0.9},
     ["rank 0: warm_up 0.9 s, but its steps add up to 1 s (-0.1)"]),
    # nine steps of 2 s, and 6 s of the first step
    (times.epochs_and_steps, epochs, {"epochs.0.duration_s": 23.0}, {"epochs.1.duration_s": 21.0},
     ["epoch 2: 21 s, but its steps add up to 20 s (+0.05)"]),
    (times.epochs_and_steps, epochs,
     {"notes": [RESUMED], "ranks.0.step_times_s": lambda steps: steps[:19], "epochs.0.duration_s": 1000.0},
     {"epochs.2.duration_s": 1000.0}, ["epoch 3: 1000 s, but its steps add up to 20 s (+49)"]),
    (times.summary, two_ranks, {}, {"summary.images_per_s": 64.0}, ["summary: images_per_s 64, but 32 (+1)"]),
    (times.counters_and_window, two_ranks, {"ranks.1.timed_cores": CoreUse(5.05, 4.9, 4.95, 0.0)},
     {"ranks.1.timed_cores.wall_s": 4.0},
     ["rank 1: timed 5 s, but the counters of its cores were read within 4 s (+0.25)"]),
    (times.counters_and_window, rounds, {}, {"ranks.0.windows.3.cores": CoreUse(0.9, 0.9, 0.9, 0.0)},
     ["rank 0, round 1, arm 0: window 1 s, but the counters of its cores were read within 0.9 s (+0.111)"]),
    (times.windows_and_rounds, rounds, {}, {"ranks.1.windows": lambda windows: windows[:-1]},
     ["round 2, arm 2: windows of 1 ranks, but 2 ranks (-0.5)"]),
    (times.windows_and_rounds, lambda: rounds(failure=Failure("killed")),
     {"ranks.1.windows": lambda windows: windows[:-1]}, {"status": "complete"},
     ["round 2, arm 2: windows of 1 ranks, but 2 ranks (-0.5)"]),
    (times.windows_and_rounds, rounds, {}, {"ranks.1.windows.0.arm": 0},
     ["rank 1 in round 0, arm 0, but no such part of it", "round 0, arm 0: windows of 2 ranks, but 1 ranks (+1)",
      "round 0, arm 1: windows of 1 ranks, but 2 ranks (-0.5)"]),
    (times.windows_and_rounds, rounds, {}, {"ranks.0.windows.4.round": 0},
     ["rank 0: 2 windows of round 0, arm 1, but one a round", "rank 0: rounds out of order, but time goes forward",
      "round 0, arm 1: windows of 3 ranks, but 2 ranks (+0.5)",
      "round 1, arm 1: windows of 1 ranks, but 2 ranks (-0.5)"]),
    (times.steps_of_windows, rounds, {}, {"ranks.0.windows.3.step_times_s": [0.5] * 3},
     ["round 1, arm 0: 2 compute_times_s, but 3 steps",
      "arm 0: 1 windows of 3 steps, but 2 windows of 2 steps (+0.5)"]),
    (times.steps_in_windows, rounds, {}, {"ranks.0.windows.0.window_s": 0.5},
     ["round 0, arm 0: window of 0.5 s, but its steps add up to 1 s (-0.5)"]),
    (times.steps_in_windows, rounds, {}, {"ranks.0.windows.0.window_s": 1.05},
     ["round 0, arm 0: window of 1.05 s, but its steps add up to 1 s (+0.05)"]),
    # four cycles of 20 ms, and 20 ms
    (times.steps_in_windows, rounds, {f"ranks.{rank}.windows.-2.window_s": plus(0.09) for rank in (0, 1)},
     {f"ranks.{rank}.windows.-2.window_s": plus(0.03) for rank in (0, 1)},
     ["round 2, arm 1: window of 1.72 s, but its steps add up to 1.6 s (+0.075)"]),
    (times.steps_in_windows, rounds,
     {"ranks.0.windows.-1.window_s": plus(0.25), "ranks.1.windows.-1.window_s": plus(0.25),
      "ranks.1.windows.-1.cores": DELAYED}, {"ranks.1.windows.-1.cores": None},
     ["round 2, arm 2: window of 1.35 s, but its steps add up to 1.1 s (+0.227)"]),
    (times.steps_in_windows, rounds, {}, {"ranks.1.windows.0.window_s": plus(0.05)},
     ["round 0, arm 1: window of 1.65 s on one rank, but 1.6 s on another (+0.0312)"]),
    # 3 x 2 x (0.5 + 0.8 + 0.55)
    (times.windows_and_timed, rounds, {}, {"ranks.0.phases_s.timed": 10.0},
     ["rank 0: timed 10 s, but its windows add up to 11.1 s (-0.0991)"]),
]  # fmt: skip


@pytest.mark.parametrize(("check", "record", "clean", "change", "expected"), CASES, ids=[case[-1][0] for case in CASES])
def test_a_contradiction_is_found_and_none_is_alleged_before(check, record, clean, change, expected):
    run = edited(record(), clean)
    assert messages(check, run) == []
    assert messages(check, edited(run, change)) == expected


@pytest.mark.parametrize(
    ("change", "stated"),
    [
        ({"started_at": "yesterday"}, "started_at 'yesterday'"),
        ({"ranks.0.phases_s.build": -2.0}, "rank 0: phase build -2 s"),
        ({"ranks.0.step_times_s.1": 0.0}, "rank 0: step_times_s 0 s"),
        ({"ranks.0.usage.at_s.1": 1.0}, "rank 0: samples of usage at 1 s"),
        ({"ranks.0.usage.cpu_s.2": 0.5}, "rank 0: CPU time of samples 0.5 s"),
        ({"ranks.0.usage.at_s.2": 1e4}, "rank 0: samples of usage at 10000 s"),
        ({"epochs.1.epoch": 1}, "epochs numbered [1, 1, 3]"),
        ({"resizes": [Resize(at, 1, 1, 1, 1, "") for at in (5.0, 4.0)]}, "changes of the ranks at 4 s"),
    ],
)
def test_time_goes_forward(change, stated):
    run = epochs()
    assert not messages(times.clocks_forward, run)
    assert any(message.startswith(f"{stated}, but ") for message in messages(times.clocks_forward, edited(run, change)))


def test_by_hand_only_rank_0_knows_the_time_of_the_job():
    run = noisy_records.launch(np.random.default_rng(0), by_hand=True)
    assert "exit" not in run.ranks[0].phases_s
    assert not messages(times.phases_and_job, edited(run, {"ranks.1.phases_s.start": plus(2.0)}))
    assert messages(times.phases_and_job, edited(run, {"ranks.0.phases_s.start": plus(0.1)}))


@pytest.mark.parametrize(
    ("counters", "cores", "expected"),
    [
        (CoreUse(2.0, 1.99, 2.01, 0.02), 1, []),
        (CoreUse(2.0, 2.5, 2.0, 0.0), 1, ["2.5 s of core time for this rank, but 1 cores in 2 s have 2 s"]),
        (CoreUse(2.0, 2.5, 2.6, 0.0), 2, []),
        (CoreUse(2.0, 0.5, 0.5, 2.5), 1, ["2.5 s of core time for a hypervisor, but 1 cores in 2 s have 2 s"]),
        # three counters, each rounded down to whole ticks: 88 ms on a busy machine with several priorities
        (CoreUse(0.0876, 0.0238, 0.11, 0.0), 1, []),
        (CoreUse(0.0876, 0.0238, 0.13, 0.0), 1,
         ["0.13 s of core time for all processes, but 1 cores in 0.0876 s have 0.0876 s"]),
        (CoreUse(2.0, 1.5, 1.5035, 0.0), 1, ["busy_s 1.5035 s, but ticks of 0.01 s are counted"]),
        (CoreUse(2.0, 1.5035, 0.1 + 0.2 + 1.2, 0.0), 1, []),  # 1.5 but for the 16th digit
    ],
)  # fmt: skip
def test_cores_work_no_longer_than_they_are_there_in_whole_ticks(counters, cores, expected):
    run = edited(update_derived(make_record()), {"ranks.0.cores": [*range(cores)], "ranks.0.timed_cores": counters})
    rules = ("counters_and_cores", "whole_ticks")
    texts = [str(result) for result in contradictions(run) if result.rule in rules]
    assert texts == [f"rank 0: {text}" for text in expected]


def test_counters_of_a_noisy_machine_give_no_finding():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        for run in (noisy_records.launch(rng), noisy_records.rounds(rng)):
            assert contradictions(noisy_records.with_counters(rng, run, other_processes=0.05, stolen=0.04)) == ()
