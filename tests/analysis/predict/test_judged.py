import pytest

from analysis.predict import reading, reports
from analysis.predict.judged import judge, word
from analysis.stats.verdict import Bounds
from analysis.study import Study
from analysis.table import loading
from tests.helpers.scaling_curves import LEARNED, curve


def ideal(n):
    return 0.01  # 100 images/s a rank


@pytest.mark.parametrize(
    ("ranks", "claimed", "outcome", "said"),
    [
        (64, Bounds(0, 1e6), "inside", "consistent"),
        (64, Bounds(low=6000), "undecided", "consistent"),  # the interval reaches below
        (64, Bounds(0, 6000), "undecided", "consistent"),
        (64, Bounds(low=8000), "outside", "not consistent"),
        (64, Bounds(0, 1000), "outside", "not consistent"),
        (64, Bounds(6300, 6500), "undecided", "consistent"),
        (512, Bounds(low=1), "undecided", "not decidable"),
    ],
)
def test_a_claim_is_held_against_the_interval(ranks, claimed, outcome, said):
    verdict, reason = judge(curve(ideal), ranks, claimed, LEARNED)
    assert (verdict.outcome, word(verdict)) == (outcome, said)
    assert f"for {ranks} ranks" in reason


def test_the_reason_has_the_numbers():
    _, reason = judge(curve(ideal), 32, Bounds(4000, 5000), LEARNED)
    assert reason.startswith("for 32 ranks 3200 (")
    assert reason.endswith("is predicted from 5 points up to 16 ranks; claimed: at least 4000, at most 5000")


def test_what_the_reports_predict_is_not_decidable_and_why():
    """Report 004: 22 s an epoch on 16 V100, of which 4 and 8 were measured. Report 002: almost linear to 256."""
    table = loading.published()
    taught = reports.learned(Study().published).in_general
    v100 = table[table["report"].eq("004") & table["gpu"].eq("V100") & table["kind"].eq("measured")]
    epochs = reading.timed(v100[v100["quantity"].eq("epoch_s")])
    assert epochs.ranks.tolist() == [4, 8]
    verdict, reason = judge(epochs, 16, Bounds(0, 1 / 22), taught)
    assert verdict.why == "no interval"
    assert reason == "no prediction for 16 ranks: 2 numbers of ranks measured, at least 3 are needed"
    none = reading.timed(table[table["report"].eq("002")].iloc[:0])
    verdict, reason = judge(none, 256, Bounds(low=0.9), taught)
    assert word(verdict) == "not decidable"
    assert reason.endswith("no numbers of ranks measured, at least 3 are needed")
