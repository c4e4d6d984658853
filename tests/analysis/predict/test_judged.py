import math

import pytest

from analysis.predict import reading, reports
from analysis.predict.judged import Claim, judge
from analysis.study import Study
from analysis.table import loading
from tests.helpers.scaling_curves import LEARNED, curve


def ideal(n):
    return 0.01  # 100 images/s a rank


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (Claim(64, low=6000), "consistent"),
        (Claim(64, high=6000), "consistent"),
        (Claim(64, low=8000), "not consistent"),
        (Claim(64, high=1000), "not consistent"),
        (Claim(64, 6300, 6500), "consistent"),
        (Claim(512, low=1), "not decidable"),
    ],
)
def test_a_claim_is_held_against_the_interval(claim, verdict):
    found = judge(curve(ideal), claim, LEARNED)
    assert found.verdict == verdict
    assert f"for {claim.ranks} ranks" in found.why


def test_a_claim_is_shown_where_all_that_is_predicted_is_as_claimed():
    assert judge(curve(ideal), Claim(64, high=1e6), LEARNED).shown
    assert not judge(curve(ideal), Claim(64, low=6000), LEARNED).shown  # its interval reaches below


def test_the_reason_has_the_numbers():
    found = judge(curve(ideal), Claim(32, low=4000, high=5000), LEARNED)
    assert found.why.startswith("for 32 ranks 3200 (")
    assert found.why.endswith("is predicted from 5 points up to 16 ranks; claimed: at least 4000, at most 5000")


def test_what_the_reports_predict_is_not_decidable_and_why():
    """Report 004: 22 s an epoch on 16 V100, of which 4 and 8 were measured. Report 002: almost linear to 256."""
    table = loading.published()
    taught = reports.learned(Study().published).in_general
    v100 = table[table["report"].eq("004") & table["gpu"].eq("V100") & table["kind"].eq("measured")]
    epochs = reading.timed(v100[v100["quantity"].eq("epoch_s")])
    assert epochs.ranks.tolist() == [4, 8]
    found = judge(epochs, Claim(16, high=1 / 22), taught)
    assert found.verdict == "not decidable"
    assert found.why == "no prediction for 16 ranks: 2 numbers of ranks measured, at least 3 are needed"
    none = reading.timed(table[table["report"].eq("002")].iloc[:0])
    found = judge(none, Claim(256, low=0.9, high=math.inf), taught)
    assert found.verdict == "not decidable"
    assert found.why.endswith("no numbers of ranks measured, at least 3 are needed")
