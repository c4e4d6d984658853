import pytest

from analysis import TableError
from analysis.evaluation import Evaluation, StatedVerdict, StepResult, claim_rows, read_contents
from analysis.experiments.summary_points import SummaryPoint
from analysis.judged_claims import Claim, JudgedClaim
from tests.helpers import ROOT


def test_the_kits_own_claims_come_first():
    contents = read_contents()
    kit_claims = contents.claims[:4]
    assert [claim.report for claim in kit_claims] == ["kit"] * 4
    assert len(contents.claims) == 4 + 74
    assert {claim.quantity for claim in kit_claims} <= set(SummaryPoint.__struct_fields__)


def test_each_experiment_is_in_the_page_for_reviewers_under_its_number():
    page = (ROOT / "ARTIFACT.md").read_text()
    experiments = read_contents().experiments
    assert sorted(one.name for one in experiments) == sorted(
        path.stem for path in (ROOT / "conf/experiment").glob("*.yaml")
    )
    for number, one in enumerate(experiments, 1):
        assert f"| E{number} | `{one.command}` |" in page


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "evaluation.toml").write_text("step = 1\n")
    with pytest.raises(TableError, match=r"evaluation.toml: not readable .*: Expected `array`"):
        read_contents(tmp_path / "evaluation.toml")


def claim(experiment):
    return Claim(id="one", report="kit", place="", text="", hypothesis="it is so", rule="", experiment=experiment)


def judged(verdict):
    return JudgedClaim(
        id="one", report="kit", place="", text="", hypothesis="it is so", data="", rule="measured: ", scope="any run",
        verdict=verdict, evidence=f"numbers of {verdict}", these_runs="", remark="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stated", "local", "experiment", "measured", "outcome", "why"),
    [
        ("supported", judged("supported"), "", [], "reproduced", ""),
        ("contradicted", judged("supported"), "", [], "not reproduced", ""),
        ("not decidable", judged("not decidable"), "", [], "reproduced", ""),
        ("supported", judged("supported"), "weak", ["weak"], "reproduced", ""),
        ("supported", judged("not decidable"), "weak", [], "not run", "no record of weak here"),
        ("supported", judged("not decidable"), "weak", ["weak"], "not reproduced", "the numbers here do not decide it"),
        ("not decidable", judged("supported"), "weak", ["weak"], "not run", "the archive has no numbers"),
        ("", judged("supported"), "", [], "not run", "the archive does not state it"),
    ],
)
def test_the_outcome_follows_from_both_verdicts(stated, local, experiment, measured, outcome, why):
    archive = {"one": StatedVerdict("one", stated, "theirs")} if stated else {}
    (row,) = claim_rows(archive, [claim(experiment)], [local], measured)
    assert (row.label, row.outcome) == ("C1", outcome)
    assert row.why.startswith(why)
    assert row.numbers == f"numbers of {local.verdict}"
    assert row.allowed.startswith("measured: ")


def evaluation(steps, *outcomes):
    stated = {"one": StatedVerdict("one", "supported")}
    verdicts = [claim_rows(stated, [claim("")], [judged(outcome)], [])[0] for outcome in outcomes]
    return Evaluation("a.tar.gz", "2 cores", "0" * 40, steps, 3, [], verdicts, "")


def test_one_claim_or_step_that_is_not_reproduced_fails_it():
    good, bad = StepResult("make x", 1.0, "reproduced"), StepResult("make y", 1.0, "not reproduced", ("a line",))
    assert not evaluation([good], "supported", "supported").failed
    assert evaluation([good, bad], "supported").failed
    result = evaluation([good], "supported", "contradicted")
    assert result.failed
    assert result.counts() == "2 claims: 0 not run, 1 reproduced, 1 not reproduced"
