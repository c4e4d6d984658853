import pytest

from analysis import TableError
from analysis import appendix as contents
from analysis.appendix import Evaluation, StepResult, claim_rows
from analysis.claims import Claim, Judged
from analysis.experiments.summary import SummaryPoint
from analysis.figures import Kind, diagnosis, registry, scaling, settings, training
from analysis.study import Study

DATA = contents.DATA.read_text()


def test_the_kits_own_claims_come_first_and_have_what_is_expected_of_them():
    appendix = contents.read()
    kit_claims = appendix.claims[:4]
    assert [claim.report for claim in kit_claims] == ["kit"] * 4
    assert len(appendix.claims) == 4 + 74
    assert appendix.claims_of("weak_scaling") == ["C1"]
    assert {claim.arguments["quantity"] for claim in kit_claims} <= set(SummaryPoint.__struct_fields__)
    by_id = {claim.id: claim for claim in appendix.claims}
    assert appendix.expected_verdict(by_id["weak-scaling-pays"]) == "supported"
    assert appendix.expected_verdict(by_id["004-averaging-loses-precision"]) == "contradicted"
    assert appendix.expected_verdict(by_id["000-vgg19-best"]) == ""


@pytest.mark.slow
def test_every_figure_that_is_named_can_be_drawn():
    """Figures of reports are named by their ids, figures of local records by their kinds."""
    modules = (diagnosis, scaling, settings, training)
    kinds = {kind.name for module in modules for kind in vars(module).values() if isinstance(kind, Kind)}
    figures = registry.figures(Study().local)
    for experiment in contents.read().experiments:
        prefix = f"own-{experiment.name.replace('_', '-')}"
        for figure in experiment.figures:
            kind = figure.removeprefix(prefix).removeprefix("-") if figure.startswith(prefix) else None
            assert figure in figures or kind in kinds, figure


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("analysis/speedups.py:curve", "analysis/speedups.py:curvee", "code analysis/speedups.py:curvee given"),
        ("analysis/explain/__init__.py:explain", "analysis/explain/none.py:explain", "code analysis/explain/none.py"),
        ('name = "fruit"', 'name = "vegetables"', "fruit, vegetables"),
        ("004-averaging-loses-precision", "000-vgg19-best", "000-vgg19-best is not a claim that its records decide"),
        ('quantity = "speedup_throughput"\nranks', 'nothing = "x"\nexperiment = 1\n[', "not a readable"),
    ],
)
def test_what_does_not_exist_is_named(tmp_path, old, new, problem):
    assert old in DATA
    (tmp_path / "appendix.toml").write_text(DATA.replace(old, new, 1))
    with pytest.raises(TableError, match=problem):
        contents.read(tmp_path / "appendix.toml")


def test_minutes_are_written_as_they_are_read(tmp_path):
    minutes = contents.read_minutes(contents.MINUTES)
    (tmp_path / "minutes.json").write_text(contents.minutes_text(minutes))
    assert contents.read_minutes(tmp_path / "minutes.json") == minutes
    assert (tmp_path / "minutes.json").read_text() == contents.MINUTES.read_text()


def judged(verdict, experiment=""):
    claim = Claim("one", "kit", "", "it is so", "measured", {"quantity": "images_per_s", "at_least": 1}, "", "any run",
                  experiment)  # fmt: skip
    return Judged(claim, verdict, f"numbers of {verdict}")


@pytest.mark.parametrize(
    ("stated", "local", "measured", "outcome", "why"),
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
def test_the_outcome_follows_from_both_verdicts(stated, local, measured, outcome, why):
    archive = {"one": {"verdict": stated, "evidence": "theirs"}} if stated else {}
    (row,) = claim_rows(archive, [local], measured)
    assert (row.label, row.outcome) == ("C1", outcome)
    assert row.why.startswith(why)
    assert row.numbers == f"numbers of {local.verdict}"
    assert row.allowed.startswith("measured: ")


def evaluation(steps, *outcomes):
    stated = {"one": {"verdict": "supported", "evidence": ""}}
    verdicts = [claim_rows(stated, [judged(outcome)], [])[0] for outcome in outcomes]
    return Evaluation("a.tar.gz", "2 cores", "0" * 40, steps, 3, [], verdicts, "")


def test_one_claim_or_step_that_is_not_reproduced_fails_it():
    good, bad = StepResult("make x", 1.0, "reproduced"), StepResult("make y", 1.0, "not reproduced", ("a line",))
    assert not evaluation([good], "supported", "supported").failed
    assert evaluation([good, bad], "supported").failed
    result = evaluation([good], "supported", "contradicted")
    assert result.failed
    assert result.counts() == "2 claims: 0 not run, 1 reproduced, 1 not reproduced"
