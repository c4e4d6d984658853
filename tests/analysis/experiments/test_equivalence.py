import pytest

from analysis import judged_claims
from analysis.experiments import equivalence
from analysis.figures import registry
from tests.helpers.drawn_figures import make_study

CURVE, LARGER_BATCH = [2.0, 1.0, 0.5], [2.0, 1.5, 1.0]
SAME_STEPS = {"arm": "same-steps", "derived": ["batch_per_rank"]}
SAME_BATCH_PER_RANK = {"arm": "batch-per-rank-kept", "derived": ["global_batch"]}


def sgd(rate, scaling="none"):
    return {"name": "sgd", "learning_rate": rate, "learning_rate_scaling": scaling}


def add(results, ranks, losses, batch, **more):
    results.add(
        experiment="equivalence", model="digits_plain", nodes=ranks, batch_per_rank=batch, losses=losses,
        warm_up_steps=0, dataset={"name": "digits"}, swept={"nodes": ranks},
        arm_keys=["batch_per_rank", "global_batch"], **more,
    )  # fmt: skip


@pytest.fixture
def local_table(results):
    """Return a function that saves one rank of 64, two of 32 with the same global batch and two of 64."""

    def fill(same, other=LARGER_BATCH):
        add(results, 1, CURVE, 64, **SAME_STEPS)
        add(results, 2, same, 32, **SAME_STEPS)
        add(results, 2, other, 64, **SAME_BATCH_PER_RANK)
        return results.table()

    return fill


def test_the_largest_relative_difference_worked_by_hand(local_table):
    # 2.0 and 2.0, 1.0 and 1.01, 0.5 and 0.52: 0, 1 % and 4 %, at the fourth step of the run (one is before the timed).
    same, other = equivalence.pairs(local_table([2.0, 1.01, 0.52]))
    assert (same.run["ranks"], same.run["global_batch"], same.same_steps, same.agree) == (2, 64, True, False)
    assert same.off.tolist() == pytest.approx([0, 0.01, 0.04])
    assert same.off.idxmax() == 4
    # Its global batch is 128; it is compared with the one rank that has as many images a rank.
    assert (other.run["global_batch"], other.one["global_batch"], other.same_steps) == (128, 64, False)
    assert other.off.tolist() == pytest.approx([0, 0.5, 1.0])


@pytest.mark.parametrize(
    ("same", "other", "loses"),
    [
        ([2.0, 1.0, 0.5 * (1 + 0.9e-4)], LARGER_BATCH, False),  # within 1e-4, and the larger batch differs
        ([2.0, 1.0, 0.5 * (1 + 1.1e-4)], LARGER_BATCH, True),
        (CURVE, CURVE, None),  # a test that finds no difference at all decides nothing
    ],
)
def test_the_verdict(local_table, same, other, loses):
    assert equivalence.verdict(equivalence.pairs(local_table(same, other)))[0] is loses


def test_other_learning_rates_and_other_seeds_are_not_the_same_steps(results):
    add(results, 1, CURVE, 64)
    add(results, 2, CURVE, 32, seed=1)
    add(results, 2, CURVE, 64, optimizer=sgd(0.02))
    assert equivalence.pairs(results.table()) == []
    for ranks in (1, 2):
        add(results, ranks, CURVE, 32, optimizer=sgd(0.01, "linear"))
    (pair,) = equivalence.pairs(results.table())
    assert (pair.run["learning_rate"], pair.one["learning_rate"], pair.same_steps) == (0.02, 0.01, False)


@pytest.mark.slow
def test_the_figure_has_a_line_for_each_rank_in_each_panel(local_table):
    table = local_table(CURVE)
    entry = registry.figures(table)["own-equivalence"]
    same, same_batch, as_report, off = entry.draw(entry.points(make_study(table))).axes
    assert [line.get_label() for line in same.lines] == ["1 rank", "2 ranks"]
    steps = pytest.approx([0.256, 0.384, 0.512])  # 2, 3, 4 of 128 images
    assert same_batch.lines[1].get_xdata().tolist() == steps
    assert len(as_report.lines) == 0
    assert off.lines[1].get_ydata().tolist() == pytest.approx([0.5, 1.0])  # a logarithmic axis has no 0


@pytest.mark.slow
def test_the_claim_of_report_004_is_judged_by_local_records_with_two_sides(results):
    (claim,) = [claim for claim in judged_claims.read_claims() if claim.id == "004-averaging-loses-precision"]

    def judged():
        return judged_claims.judge([claim], make_study(results.table()))[0]

    assert "make equivalence" in judged().evidence
    for ranks, batch in ((1, 64), (2, 32)):
        assert judged().verdict == "not decidable"
        add(results, ranks, CURVE, batch, **SAME_STEPS)
    assert judged().verdict == "not decidable"
    assert "it would take records of" in equivalence.summary(equivalence.pairs(results.table()))
    add(results, 2, LARGER_BATCH, 64, **SAME_BATCH_PER_RANK)
    assert judged().verdict == "contradicted"
    for text in ("2 ranks 0 (relative; tolerance 0.0001)", "the global batch grows with the ranks: 2 ranks 1"):
        assert text in judged().evidence
