import ast

import pytest

from analysis import TableError
from analysis import appendix as contents
from analysis.appendix import Evaluation, StatedVerdict, StepResult, claim_rows
from analysis.claims import Claim, JudgedClaim
from analysis.experiments.summary import SummaryPoint
from analysis.figures import Kind, diagnosis, registry, scaling, settings, training
from analysis.study import Study
from tests.helpers import ROOT


def test_the_kits_own_claims_come_first_and_have_what_is_expected_of_them():
    appendix = contents.read()
    kit_claims = appendix.claims[:4]
    assert [claim.report for claim in kit_claims] == ["kit"] * 4
    assert len(appendix.claims) == 4 + 74
    assert appendix.claims_of("weak_scaling") == ["C1"]
    assert {claim.quantity for claim in kit_claims} <= set(SummaryPoint.__struct_fields__)


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


def test_every_name_in_the_appendix_exists():
    appendix = contents.read()
    files = sorted(path.stem for path in (ROOT / "conf/experiment").glob("*.yaml"))
    assert sorted(experiment.name for experiment in appendix.experiments) == files
    for experiment in appendix.experiments:
        for location in experiment.code:
            file, _, name = location.partition(":")
            defined = [getattr(node, "name", "") for node in ast.parse((ROOT / file).read_text()).body]
            assert name in defined, location
        decided = {claim.id for claim in appendix.claims if claim.experiment == experiment.name}
        assert set(experiment.verdicts) <= decided


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "appendix.toml").write_text("step = 1\n")
    with pytest.raises(TableError, match=r"appendix.toml: not a readable appendix: Expected `array`"):
        contents.read(tmp_path / "appendix.toml")


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
    return Evaluation("a.tar.gz", "2 cores", "0" * 40, steps, 3, [], verdicts, "", {})


def test_one_claim_or_step_that_is_not_reproduced_fails_it():
    good, bad = StepResult("make x", 1.0, "reproduced"), StepResult("make y", 1.0, "not reproduced", ("a line",))
    assert not evaluation([good], "supported", "supported").failed
    assert evaluation([good, bad], "supported").failed
    result = evaluation([good], "supported", "contradicted")
    assert result.failed
    assert result.counts() == "2 claims: 0 not run, 1 reproduced, 1 not reproduced"
