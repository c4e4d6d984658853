import hashlib
import tomllib

import pytest

from analysis import PUBLISHED, TableError, judged_claims
from analysis.judged_claims import Claim
from analysis.study import Study
from tests.helpers.studies import curve_in_rounds

YES, NO, OPEN = "supported", "contradicted", "not decidable"
ENTRY = "[[claim]]\nid = 'a'\nreport = '000'\nplace = 'p'\ntext = 't'\nhypothesis = 'h'\n"


def test_the_published_numbers_are_those_that_the_verdicts_rest_on():
    stated = tomllib.loads(judged_claims.CLAIMS.read_text())["judged_from"]
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in PUBLISHED.glob("00*.csv")}
    assert stated == digests, (
        "judge the claims that rest on the changed file again, then give its SHA-256 in claims.toml"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[claim]]\nid = 'a'\n", "missing required field `report` - at `\\$.claim\\[0\\]`"),
        (f"{ENTRY}rule = 'guess'\nexperiment = 'overhead'\n", "a: rule 'guess' given, allowed: measured, averaging"),
        (f"{ENTRY}rule = 'measured'\nexperiment = 'overhead'\nscope = 'all'\n", "Invalid enum value 'all'"),
        (f"{ENTRY}rule = 'every'\n[rules]\nevery = 'each'\n", "a: needs either an experiment, or a verdict"),
        (f"{ENTRY}rule = 'measured'\nexperiment = 'overhead'\n" * 2, "duplicate id: a"),
        ("nothing", "not a readable list of claims"),
    ],
)  # fmt: skip
def test_a_list_that_cannot_be_used(tmp_path, text, message):
    path = tmp_path / "claims.toml"
    path.write_text(text)
    with pytest.raises(TableError, match=f"{path}: .*{message}"):
        judged_claims.read_claims(path)


@pytest.mark.slow
def test_a_claim_about_local_records_is_judged_by_the_interval_of_each_point(tmp_path):
    curve_in_rounds(tmp_path)  # the speedup is 1.57 (1.42 to 1.74), that of the control 1.9
    study = Study(tmp_path)

    def judged(ranks, **bounds):
        claim = Claim(
            id="x", report="kit", place="", text="", hypothesis="", rule="measured", experiment="weak_scaling",
            quantity="speedup_throughput", ranks=(ranks,), **bounds,
        )  # fmt: skip
        return judged_claims.judge([claim], study)[0]

    within, below, open_, unmeasured = (
        judged(2, more_than=1, less_than=2), judged(2, at_least=1.97), judged(2, at_least=1.58), judged(4, at_least=1),
    )  # fmt: skip
    assert [claim.verdict for claim in (within, below, open_, unmeasured)] == [YES, NO, OPEN, OPEN]
    assert within.evidence.startswith("claimed: more than 1 and less than 2. 1.569 (1.418")
    assert open_.these_runs.startswith("0 of 1 numbers as claimed: 1.56")
    assert unmeasured.evidence == "no speedup_throughput was measured on 4 ranks"
    assert unmeasured.these_runs == "no number decides it"
