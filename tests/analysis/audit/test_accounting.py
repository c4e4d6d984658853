import pytest

from tests.helpers.findings import record_findings
from tests.helpers.own_records import make_record, make_rounds, settle
from train.record.record import CoreUse, Order


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


def test_a_gap_in_the_timed_phase():
    """12 rounds of 1.0, 1.6 and 1.1 s. Beside each window a barrier and an untimed step: 0.65, 0.9 and 0.6 s or so."""
    run = in_rounds([EVEN] * 12)
    assert not record_findings("timed_phase_filled", run)
    for rank in run.ranks:
        rank.phases_s["timed"] += 40
    (finding,) = record_findings("timed_phase_filled", run)
    assert finding.stated == "84.4 s in the timed phase"


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
