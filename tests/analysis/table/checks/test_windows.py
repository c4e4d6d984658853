from analysis.table.checks import times
from tests.helpers.own_records import make_rounds
from train.record.record import CoreUse, Failure


def printed(check, run):
    return [(one.stated, one.follows) for one in check(run)]


def rounds(**more):
    return make_rounds([(0.5, 0.8, 0.55)] * 3, **more)


def test_every_round_has_every_arm_on_its_ranks():
    run = rounds()
    assert not printed(times.windows_and_rounds, run)
    run.ranks[1].windows.pop()
    assert printed(times.windows_and_rounds, run) == [("round 2, arm 2: windows of 1 ranks", "2 ranks")]
    run = rounds()
    run.ranks[1].windows[0].arm = 0  # an arm of one rank
    assert ("rank 1 in round 0, arm 0", "no such part of it") in printed(times.windows_and_rounds, run)
    run = rounds()
    run.ranks[0].windows[4].round = 0
    assert ("rank 0: 2 windows of round 0, arm 1", "one a round") in printed(times.windows_and_rounds, run)
    assert ("rank 0: rounds out of order", "time goes forward") in printed(times.windows_and_rounds, run)


def test_a_launch_that_failed_may_lack_windows_of_its_last_round():
    run = rounds(failure=Failure("killed"))
    run.ranks[1].windows.pop()
    assert not printed(times.windows_and_rounds, run)


def test_the_windows_of_an_arm_have_the_same_steps():
    run = rounds()
    run.ranks[0].windows[3].step_times_s.append(0.5)
    assert printed(times.steps_of_windows, run) == [
        ("round 1, arm 0: 2 compute_times_s", "3 steps"),
        ("arm 0: 1 windows of 3 steps", "2 windows of 2 steps"),
    ]


def test_a_window_is_its_steps_and_a_barrier():
    run = rounds()
    run.ranks[0].windows[0].window_s = 0.5  # half of the two steps of 0.5 s
    assert printed(times.steps_in_windows, run) == [("round 0, arm 0: window of 0.5 s", "its steps add up to 1 s")]
    run = rounds()
    run.ranks[0].windows[0].window_s = 1.05  # one rank has no barrier to wait for
    assert printed(times.steps_in_windows, run) == [("round 0, arm 0: window of 1.05 s", "its steps add up to 1 s")]
    run = rounds()
    for rank in run.ranks:
        rank.windows[-2].window_s += 0.09  # four cycles of 20 ms, and 20 ms
    assert not printed(times.steps_in_windows, run)
    for rank in run.ranks:
        rank.windows[-2].window_s += 0.02
    assert printed(times.steps_in_windows, run) == [("round 2, arm 1: window of 1.71 s", "its steps add up to 1.6 s")]


def test_a_rank_that_others_kept_from_running_may_come_late_to_the_barrier():
    run = rounds()
    for rank in run.ranks:
        rank.windows[-1].window_s += 0.25  # four cycles of 20 ms and a pause of 20 ms are 0.1 s
    assert printed(times.steps_in_windows, run)
    run.ranks[1].windows[-1].cores = CoreUse(1.5, 0.3, 1.5, 0.0, delay_s=0.2)
    assert not printed(times.steps_in_windows, run)


def test_ranks_time_a_window_alike():
    run = rounds()
    run.ranks[1].windows[0].window_s += 0.05
    assert printed(times.steps_in_windows, run) == [
        ("round 0, arm 1: window of 1.65 s on one rank", "1.6 s on another")
    ]


def test_windows_lie_in_the_timed_phase():
    run = rounds()
    run.ranks[0].phases_s["timed"] = 10.0
    assert printed(times.windows_and_timed, run) == [
        ("rank 0: timed 10 s", "its windows add up to 11.1 s")  # 3 x 2 x (0.5 + 0.8 + 0.55)
    ]
