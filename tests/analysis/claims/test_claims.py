import pytest

from analysis import TableError, claims
from analysis.claims import Claim
from analysis.figures import select
from analysis.study import Study
from tests.helpers.drawn_figures import make_study
from tests.helpers.published_claims import judged_claims as judged_claims
from tests.helpers.tidy_rows import curve, table


@pytest.fixture(scope="module")
def judged():
    return {item.claim.id: item for item in judged_claims()}


@pytest.mark.slow
def test_every_report_has_claims_which_say_what_they_come_to_and_how_they_are_decided(judged):
    assert len(judged) == 74
    assert {item.claim.report for item in judged.values()} == {"000", "001", "002", "003", "004"}
    for item in judged.values():
        assert all((item.claim.hypothesis, item.claim.data, item.claim.rule, item.evidence)), item.claim.id


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("000-efficiency-above-0.94", "not decidable"),  # 189.5 / 202.5 = 0.936 to 190.5 / 201.5 = 0.945
        ("000-efficiency-below-0.4", "supported"),  # vgg_19 at 32: 193.45 / 19.2 / 32 = 0.315
        ("000-vgg19-best", "not decidable"),  # 1 % apart, one run each
        ("001-vgg16-bytes", "supported"),  # 4 x 138,357,544 / 2^20 = 527.8
        ("001-complex-is-hard-to-parallelise", "contradicted"),  # 7.2, the best of three, on CPUs
        ("001-vgg16-slowest-on-cpu", "supported"),  # half as fast, where repeats differ by 3 %
        ("001-weak-cpu-resnet50", "supported"),  # 156.33 / 22.84 = 6.8446
        ("001-weak-gpu-inceptionv3", "not decidable"),  # the base of the curve is not printed
        ("001-vgg16-best-on-gpu", "not decidable"),  # one run each
        ("001-effective-batch", "contradicted"),  # 2 x 16 = 32, not 64
        ("001-weak-cpu-linear", "not decidable"),  # 0.880, 0.856, 0.939: 0.79 to 1.004
        ("002-almost-linear-to-256", "not decidable"),  # no numbers of ranks are printed
        ("003-parameter-server", "supported"),  # 64 of 64
        ("003-over-90", "supported"),  # the least: 358.5 / 49.35 / 8 = 0.908 or more
        ("003-superlinear-largest", "contradicted"),  # 569 in the source
        ("003-real-or-synthetic", "not decidable"),  # 1.05 on eight P100, and 5 % is the margin
        ("003-synthetic-estimates-real", "contradicted"),  # AlexNet on 4 P100: 10509 / 7105 = 1.48
        ("003-batch-64-or-32", "contradicted"),  # 142 / 128 = 1.11
        ("004-model-1-faster", "supported"),  # 662 / 319 = 2.08
        ("004-87-per-cent", "contradicted"),  # 114 / 319 = 0.357
        ("004-75-per-cent", "contradicted"),  # 6 / 11 = 0.545
        ("004-half-is-50-minutes", "supported"),  # 5910 / 2 s = 49.25 min
        ("004-209-seconds", "contradicted"),  # 6270 of 5910 s: 6 % more
        ("004-8-v100-quickest", "supported"),  # 25 / 30 x 1387 = 1156 s
        ("004-5-every-doubling", "not decidable"),  # 4 and 5: 4.5 (-1.9 to 10.9)
        ("004-within-1-per-cent-validation", "contradicted"),  # 0.6888 - 0.6719 = 0.0169
        ("004-within-1-per-cent-training", "supported"),  # 0.8713 - 0.8610 = 0.0103
        ("004-distributed-optimizer", "contradicted"),  # 0 in the lines that are printed
        ("004-prediction-job", "not decidable"),  # from two numbers of ranks
        ("004-prediction-epoch", "not decidable"),
        ("004-prediction-own-trend", "contradicted"),  # 1387 x 1387 / 2502 = 769 s
        ("004-number-alone", "contradicted"),  # 2 T4, 8 V100
        ("003-p100-k80-alone", "contradicted"),  # dgx-1 and gce
    ],
)
def test_the_verdict_worked_by_hand(judged, name, expected):
    assert judged[name].verdict == expected


def verdict_on(name, published):
    """Return the verdict on one claim of the reports, given other published numbers."""
    (claim,) = (claim for claim in claims.read() if claim.id == name)
    return claims.judge([claim], make_study(Study().local, published))[0].verdict


@pytest.mark.slow
# With other numbers each rule gives another verdict.
@pytest.mark.parametrize(
    ("name", "quantity", "value", "where", "expected"),
    [
        ("000-efficiency-above-0.94", "images_per_s_per_rank", 90, {"model": "vgg19", "ranks": 8}, "contradicted"),
        ("000-efficiency-below-0.4", "wall_s", 9, {"ranks": 32}, "contradicted"),
        ("001-vgg16-bytes", "parameters", 130e6, {"report": "001"}, "contradicted"),
        ("004-prediction-own-trend", "job_s", 1330, {"run": "model 6"}, "supported"),
        ("001-effective-batch", "effective_batch", 32, {}, "contradicted"),  # 64 on one
        ("004-distributed-optimizer", "distributed_optimizer_lines", 1, {"run": "lab10.py"}, "supported"),
        ("004-87-per-cent", "job_s", 41, {"run": "model 2"}, "supported"),
        ("004-model-2-worse", "validation_accuracy", 0.99, {"run": "model 2"}, "contradicted"),
        ("004-overfitting", "validation_accuracy", 0.85, {"run": "model 3"}, "contradicted"),
    ],
)
def test_other_numbers_lead_to_another_verdict(name, quantity, value, where, expected):
    published = Study().published
    rows = select(published, {"quantity": quantity, **where}).index
    assert len(rows)
    values = published["value"].mask(published.index.isin(rows), value)
    assert verdict_on(name, published.assign(value=values)) == expected


@pytest.mark.slow
def test_a_copied_number_that_was_measured_in_another_way_contradicts_the_head_of_the_sheet():
    published = Study().published
    rows = select(published, {"run": "primary source", "model": "resnet50", "ranks": 8}).index
    note = published["note"].mask(published.index.isin(rows), "variable update: replicated(nccl)")
    assert verdict_on("003-parameter-server", published.assign(note=note)) == "contradicted"
    assert verdict_on("003-parameter-server", published.drop(rows)) == "not decidable"


def test_no_verdict_is_typed_in():
    """Except where a reader compared lines of the report, which the claim quotes."""
    typed = [claim for claim in claims.read() if {"finding", "verdict"} & set(claim.arguments)]
    assert {claim.check for claim in typed} == {"reviewed"}
    assert all("'" in claim.arguments["evidence"] for claim in typed)  # quotes the report
    assert "unknown" not in claims.CHECKS


REQUIRED = "report = '000'\nplace = 'p'\ntext = 't'\nhypothesis = 'h'\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[claim]]\nid = 'a'\n", "claim 1 .a.: no report, place, text, hypothesis, check"),
        (f"[[claim]]\nid = 'a'\n{REQUIRED}check = 'guess'\n", "'guess' given, allowed"),
        (f"[[claim]]\nid = 'a'\n{REQUIRED}check = 'every'\nscope = 'all'\n", "scope 'all' given, allowed: these runs,"),
        (f"[[claim]]\nid = 'a'\n{REQUIRED}check = 'every'\n" * 2, "duplicate id: a"),
        ("nothing", "not a readable list of claims"),
    ],
)  # fmt: skip
def test_a_list_that_cannot_be_used(tmp_path, text, message):
    path = tmp_path / "claims.toml"
    path.write_text(text)
    with pytest.raises(TableError, match=f"{path}: .*{message}"):
        claims.read(path)


def test_wrong_arguments_name_the_claim():
    wrong = Claim("a", "001", "p", "t", "every", {"numbers": {"quantiy": "images_per_s"}}, "h")
    with pytest.raises(TableError, match=r"claim a: every: .*no column quantiy"):
        claims.judge([wrong], make_study(Study().local, table(*curve("images_per_s", {1: 100, 2: 190}))))
