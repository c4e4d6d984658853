import pytest

from tests.helpers.findings import record_findings
from tests.helpers.own_records import make_record, make_rounds, settle
from train.record.record import CoreUse, MatrixProduct, Work


@pytest.mark.parametrize(("rows", "alleged"), [(1000, False), (100, True)])
def test_no_rate_beyond_what_the_processors_multiply(rows, alleged):
    """16 images/s of 10^8 operations. A product of 1000 x 1000 in 0.1 s: 2 x 10^10 a second, 200 images/s."""
    run = make_record(batch_per_rank=8, step_s=0.5)
    run.work = Work(10**8, 4)
    run.ranks[0].matrix_products = [MatrixProduct(rows, [0.1])]
    assert bool(record_findings("beyond_limits", run)) is alleged


def test_the_limit_of_the_links_counts_too():
    run = make_record(nodes=2)
    run.work = Work(None, 10**6)
    from train.record.record import Transfer

    for rank in run.ranks:
        rank.transfers = [Transfer("tcp_ring", "x", 1000, 1.0)]
    (finding,) = record_findings("beyond_limits", run)
    assert "as its links carry" in finding.follows


def test_no_control_above_ideal():
    """With the batch kept, two ranks take 0.5 s as one does, or less: 0.4 s are an efficiency of 1.25."""
    scatter = [1 + i % 3 / 1000 for i in range(12)]

    def rounds(base, point, control):
        return settle(make_rounds([(base * s, point, control) for s in scatter]))

    assert not record_findings("above_ideal", rounds(0.5, 0.5, 0.5))
    (finding,) = record_findings("above_ideal", rounds(0.5, 0.8, 0.4))
    assert "efficiency 1.25" in finding.stated
    assert not record_findings("above_ideal", rounds(0.5, 0.4, 0.5))  # the point: `beyond_ideal` names it


@pytest.mark.parametrize(("joules", "alleged"), [(None, False), (0.0, False), (600, False), (9000, True), (-5, True)])
def test_no_power_that_processors_cannot_take(joules, alleged):
    run = make_record()
    run.ranks[0].timed_cores = CoreUse(2.0, 1.9, 1.9, 0.0, energy_j=joules)
    assert bool(record_findings("impossible_power", run)) is alleged
