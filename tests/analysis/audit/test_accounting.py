import pytest

from tests.helpers.findings import record_findings
from tests.helpers.own_records import make_record, make_rounds, settle
from train.record.record import CoreUse, Failure, Order, Usage


def in_rounds(rounds):
    """A launch in rounds of this precision; base, point and control a round."""
    run = settle(make_rounds(rounds))
    run.config["measure"] |= {"precision_fraction": 0.05}
    return run


EVEN = (0.5, 0.8, 0.55)


def test_a_rank_that_comes_late_to_a_common_barrier():
    run = make_record(nodes=2)
    run.order = Order(0, 0, 1)
    assert not record_findings("barriers_together", run)
    run.ranks[1].phases_s["build"] += 2.5
    (finding,) = record_findings("barriers_together", run)
    assert "2.50 s away from another rank" in finding.stated
    run.order = None  # by hand: its ranks did not begin together
    assert not record_findings("barriers_together", run)


def test_ranks_on_hosts_whose_clocks_differ_may_seem_further_apart():
    run = make_record(nodes=2)
    run.order = Order(0, 0, 1)
    run.ranks[1].phases_s["start"] += 1.3
    assert record_findings("barriers_together", run)
    run.ranks[1].host = "host1"
    assert not record_findings("barriers_together", run)


@pytest.mark.parametrize(("others", "alleged"), [(0.0, True), (0.45, False)])
def test_on_cores_that_others_took_ranks_leave_a_barrier_later(others, alleged):
    run = in_rounds([EVEN] * 6)
    run.order = Order(0, 0, 1)
    run.ranks[1].phases_s["build"] += 1.3
    for window in run.ranks[1].windows:
        window.cores = CoreUse(1.0, 1 - others, 1.0, 0.0)
    assert bool(record_findings("barriers_together", run)) is alleged


def test_a_gap_in_the_timed_phase():
    """12 rounds of 1.0, 1.6 and 1.1 s. Beside each window a barrier and an untimed step: 0.65, 0.9 and 0.6 s or so."""
    run = in_rounds([EVEN] * 12)
    assert not record_findings("timed_phase_filled", run)
    for rank in run.ranks:
        rank.phases_s["timed"] += 40
    (finding,) = record_findings("timed_phase_filled", run)
    assert finding.stated == "84.4 s in the timed phase"


@pytest.mark.parametrize(("in_turn", "alleged"), [(False, True), (True, False)])
def test_ranks_that_join_before_each_window_take_time_for_it(in_turn, alleged):
    """36 windows, each with half a second before it."""
    run = in_rounds([EVEN] * 12)
    run.config["join_in_turn"] = in_turn
    for rank in run.ranks:
        rank.phases_s["timed"] += 18
    assert bool(record_findings("timed_phase_filled", run)) is alleged


@pytest.mark.parametrize(("others", "alleged"), [(0.0, True), (0.45, False)])
def test_what_others_take_makes_untimed_steps_and_barriers_longer(others, alleged):
    """Steps of 0.41 and 0.45 s have no untimed step before them; alone they may take 0.23 and 0.25 s, and have one."""
    run = in_rounds([(0.41, 0.8, 0.45)] * 12)
    for rank in run.ranks:
        rank.phases_s["timed"] += 12 * (0.41 + 0.45)
        for window in rank.windows:
            window.cores = CoreUse(window.window_s, window.window_s * (1 - others), window.window_s, 0.0)
    assert bool(record_findings("timed_phase_filled", run)) is alleged


@pytest.mark.parametrize(
    ("end_s", "stated"),
    [
        (None, None),
        (59.8, "12 rounds, the last of which ended after 57.9 s"),
        (59.7, None),
        (56.1, None),
        (54.8, "round 12, begun after 53.0 s"),
    ],
)
def test_rounds_end_where_the_rule_of_the_launch_stops(end_s, stated):
    """12 rounds of 3.7 s from 13.5 s on: the last ends after 57.9 s, and half of a round more after 59.75 s.

    The round before ended after 54.2 s, half of a round before 56.05 s. What is between the windows of the last round
    may be 1.19 s more, so that less than 54.81 s are alleged.
    """
    run = in_rounds([EVEN] * 12)
    run.rounds_end_s = end_s
    assert [one.stated for one in record_findings("stopping_rule", run)] == ([stated] if stated else [])
    run.failure = Failure("interrupted by SIGINT")
    assert not record_findings("stopping_rule", run)


def test_one_round_is_made_whatever_the_end():
    run = in_rounds([EVEN])
    run.rounds_end_s = 1.0
    assert not record_findings("stopping_rule", run)


def sampled(at_s, cpu_s):
    """A rank of one core that was sampled so."""
    run = settle(make_record())
    run.ranks[0].usage = Usage(at_s, cpu_s, [2**20] * len(at_s), [None] * len(at_s), [None] * len(at_s))
    return run


def test_a_rank_is_sampled_until_it_ends():
    """It ends after 15.5 s; between samples of a second there may be 2.5 s."""
    every = [float(at_s) for at_s in range(4, 17)]
    assert not record_findings("sampled_throughout", sampled(every, every))
    assert not record_findings("sampled_throughout", sampled(every[:-3], every[:-3]))
    (finding,) = record_findings("sampled_throughout", sampled(every[:-4], every[:-4]))
    assert finding.stated == "rank 0: no sample of its usage for 3.5 s after 12.0 s"
    assert record_findings("sampled_throughout", sampled(every[:3] + every[7:], every[:3] + every[7:]))
    run = sampled(every[:-5], every[:-5])
    run.ranks[0].gpu = "NVIDIA A100"
    assert not record_findings("sampled_throughout", run)


@pytest.mark.parametrize(("factor", "alleged"), [(1.0, False), (0.995, False), (0.85, True)])
def test_a_core_gives_a_second_of_cpu_time_in_a_second(factor, alleged):
    every = [float(at_s) for at_s in range(4, 17)]
    run = sampled([4 + (at_s - 4) * factor for at_s in every], every)
    assert bool(record_findings("cpu_of_samples", run)) is alleged
    run.ranks[0].cores = [0, 1]
    assert not record_findings("cpu_of_samples", run)


@pytest.mark.parametrize(("factor", "alleged"), [(1.0, False), (1.05, False), (1.2, True)])
def test_windows_without_exchange_are_full_whatever_the_ranks(factor, alleged):
    run = in_rounds([EVEN] * 12)
    for rank in run.ranks:
        for window in rank.windows:
            window.cores = CoreUse(window.window_s * (factor if window.arm == 0 else 1), 0.9, 0, 0)
            window.cores.busy_s = window.window_s
    assert bool(record_findings("idle_cores", run)) is alleged


@pytest.mark.parametrize(("factor", "alleged"), [(1.0, False), (1.04, False), (0.8, False), (1.2, True)])
def test_a_step_takes_the_same_cpu_time_alone_and_among_others(factor, alleged):
    """Among others it may take longer: they share caches and memory."""
    run = in_rounds([EVEN] * 12)
    for rank in run.ranks:
        for window in rank.windows:
            own_s = 0.9 * (factor if window.arm == 0 else 1) * (1 + window.round % 3 / 100)
            window.cores = CoreUse(window.window_s, own_s, window.window_s, 0)
    assert bool(record_findings("cpu_of_steps", run)) is alleged
