import pytest

from analysis.appendix.evaluation import Evaluation, StepResult, rows
from analysis.claims import Claim, Judged


def judged(verdict, experiment=""):
    claim = Claim("one", "kit", "", "it is so", "measured", {"quantity": "images_per_s", "at_least": 1}, "", "any run",
                  experiment)  # fmt: skip
    return Judged(claim, verdict, f"numbers of {verdict}")


@pytest.mark.parametrize(
    ("stated", "here", "measured", "outcome", "why"),
    [
        ("supported", judged("supported"), [], "reproduced", ""),
        ("contradicted", judged("supported"), [], "not reproduced", ""),
        ("not decidable", judged("not decidable"), [], "reproduced", ""),
        ("supported", judged("supported", "weak"), ["weak"], "reproduced", ""),
        ("supported", judged("not decidable", "weak"), [], "not run", "no record of weak here"),
        ("supported", judged("not decidable", "weak"), ["weak"], "not reproduced", "the numbers here do not decide it"),
        ("not decidable", judged("supported", "weak"), ["weak"], "not run", "the archive has no numbers"),
        ("", judged("supported"), [], "not run", "the archive does not state it"),
    ],
)
def test_the_outcome_follows_from_both_verdicts(stated, here, measured, outcome, why):
    archive = {"one": {"verdict": stated, "evidence": "theirs"}} if stated else {}
    (row,) = rows(archive, [here], measured)
    assert (row.label, row.outcome) == ("C1", outcome)
    assert row.why.startswith(why)
    assert row.numbers == f"numbers of {here.verdict}"
    assert row.allowed.startswith("measured: ")


def evaluation(steps, *outcomes):
    stated = {"one": {"verdict": "supported", "evidence": ""}}
    verdicts = [rows(stated, [judged("supported" if good else "contradicted")], [])[0] for good in outcomes]
    return Evaluation("a.tar.gz", "2 cores", "0" * 40, steps, 3, [], verdicts, "")


def test_one_claim_or_step_that_is_not_reproduced_fails_it():
    good, bad = StepResult("make x", 1.0, "reproduced"), StepResult("make y", 1.0, "not reproduced", ("a line",))
    assert not evaluation([good], True, True).failed
    assert evaluation([good], True, False).failed
    assert evaluation([good, bad], True).failed
    assert evaluation([good], True, False).counts() == "2 claims: 0 not run, 1 reproduced, 1 not reproduced"
