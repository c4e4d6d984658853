import pytest

from analysis import TableError
from analysis.claims import checks, claims
from analysis.claims.checks import Unknown
from analysis.claims.claims import Claim
from analysis.table import loading
from tests.helpers.tidy_rows import curve, row, table

NOTHING = loading.local().table  # no local records


def verdict(check, *rows, **arguments):
    """The verdict and evidence of one check over made-up rows and what follows from them."""
    (judged,) = claims.judge([Claim("id", "001", "p", "text", check, arguments)], table(*rows), NOTHING)
    return judged.verdict, judged.evidence


RATES = curve("images_per_s", {1: 100, 2: 190, 4: 360})


def test_bound():
    of = {"quantity": "efficiency_throughput", "ranks": [2, 4]}
    assert verdict("bound", *RATES, of=of, at_least=0.9)[0] == "supported"
    told = verdict("bound", *RATES, of=of, at_least=0.92)
    assert told == (
        "contradicted",
        "1 of 2 values are at least 0.92 (0.9 to 0.95); not so: 0.9 (resnet50, P100, 4 ranks)",
    )
    assert verdict("bound", *RATES, of=of, any=True, less_than=0.91)[0] == "supported"
    assert verdict("bound", *RATES, of=of, any=True, less_than=0.5)[0] == "contradicted"


def test_a_number_that_is_not_known_decides_nothing():
    told = verdict("bound", *RATES, of={"quantity": "efficiency_throughput", "ranks": 8}, at_least=0.9)
    assert told == ("not decidable", "no number is known for quantity efficiency_throughput, ranks 8")


def test_formula():
    of = {"four": {"quantity": "images_per_s", "ranks": 4}, "one": {"quantity": "images_per_s", "ranks": 1}}
    told = verdict("formula", *RATES, formula="four / one", of=of, unit="x", about=3.6, within=0.05)
    assert told == ("supported", "four / one = 3.6 x, with four = 360, one = 100; claimed: 3.6 within 0.05")
    assert verdict("formula", *RATES, formula="four / one", of=of, about=3.7, within=0.05)[0] == "contradicted"
    assert verdict("formula", *RATES, formula="a * 2", of={"a": 16}, about=64)[0] == "contradicted"


def test_a_primary_source_is_read_only_where_asked_for():
    rows = [row("images_per_s", 596, 4), row("images_per_s", 569, 4, run="primary source", place="the page")]
    of = {"sheet": {"quantity": "images_per_s"}, "page": {"quantity": "images_per_s", "run": "primary source"}}
    assert "sheet = 596, page = 569" in verdict("formula", *rows, formula="sheet / page", of=of, about=1)[1]


def test_spread():
    rows = [row("validation_accuracy", value, ranks) for ranks, value in ((2, 0.6888), (4, 0.676), (8, 0.6719))]
    of = {"quantity": "validation_accuracy"}
    assert verdict("spread", *rows, of=of, at_most=0.015)[0] == "contradicted"
    assert verdict("spread", *rows, of=of, at_most=0.017)[0] == "supported"


def test_order_must_hold_at_every_point():
    rows = [
        *curve("images_per_s", {1: 66, 8: 509}),
        *curve("images_per_s", {1: 64, 8: 671}, model="vgg16"),
    ]
    of = {"quantity": "images_per_s"}
    assert verdict("order", *rows, of=of, among="model", highest="vgg16")[0] == "contradicted"
    assert verdict("order", *rows, of=of | {"ranks": 8}, among="model", highest="vgg16")[0] == "supported"
    assert verdict("order", *rows, of=of | {"ranks": 1}, among="model", lowest="vgg16")[0] == "supported"
    assert verdict("order", *rows, of=of | {"model": "vgg16"}, among="model", highest="vgg16")[0] == "not decidable"


def test_trend():
    of = {"quantity": "efficiency_throughput"}
    assert verdict("trend", *RATES, of=of, direction="falling")[0] == "supported"
    assert verdict("trend", *RATES, of=of, direction="rising")[0] == "contradicted"
    assert verdict("trend", *RATES, of=of, direction="none")[0] == "contradicted"
    both = [*RATES, *curve("images_per_s", {1: 100, 2: 210}, model="vgg16")]
    assert verdict("trend", *both, of=of, direction="none")[0] == "supported"
    assert verdict("trend", RATES[0], of={"quantity": "images_per_s"}, direction="falling")[0] == "not decidable"


def test_a_difference_within_the_noise_decides_nothing():
    # The same configuration at 50 and 52: 4 %
    noise = [row("images_per_s", 50, 1, model="vgg16"), row("images_per_s", 52, 1, model="vgg16", experiment="fruit")]
    one, two = {"quantity": "images_per_s", "ranks": 2}, {"quantity": "images_per_s", "ranks": 4}
    assert verdict("difference", *curve("images_per_s", {2: 103, 4: 100}), *noise, larger=one, smaller=two) == (
        "not decidable",
        "103 against 100: +3.0%, within the noise of the report, 4.0%",
    )
    far = curve("images_per_s", {2: 105, 4: 100})
    assert verdict("difference", *far, *noise, larger=one, smaller=two)[0] == "supported"
    assert verdict("difference", *far, *noise, larger=two, smaller=one)[0] == "contradicted"


def test_a_stated_number_against_the_noise():
    noise = [row("images_per_s", 50, 1, model="vgg16"), row("images_per_s", 52, 1, model="vgg16", experiment="fruit")]
    of = {
        "a": {"quantity": "images_per_s", "ranks": 4},
        "b": {"quantity": "images_per_s", "ranks": 1, "model": "resnet50"},
    }
    assert verdict("within_noise", *RATES, *noise, formula="a / b", of=of, stated=3.7)[0] == "supported"
    assert verdict("within_noise", *RATES, *noise, formula="a / b", of=of, stated=3.8)[0] == "contradicted"


def batches(*ratios):
    """Cells of batch 64 and 32, whose throughputs have these ratios, on as many models; and one printed cell."""
    rows = [row("ratio_batch_64_to_32", 1, 1, kind="stated", place="the block")]
    for number, ratio in enumerate(ratios):
        rows += [row("images_per_s", 100, 1, batch=32, model=f"m{number}")]
        rows += [row("images_per_s", 100 * ratio, 1, batch=64, model=f"m{number}")]
    return rows


def test_no_effect():
    told = verdict("no_effect", *batches(1.10, 1.11, 1.12, 1.13), ratio="ratio_batch_64_to_32", by=["gpu", "ranks"])
    assert told[0] == "contradicted"
    assert "gpu P100, ranks 1: 1.115" in told[1]
    scattered = batches(0.98, 1.03, 0.99, 1.01)
    assert verdict("no_effect", *scattered, ratio="ratio_batch_64_to_32", by=["gpu", "ranks"])[0] == "supported"


def test_median():
    cells = batches(1.10, 1.11, 1.13)
    of = {"ratio": "ratio_batch_64_to_32", "by": "gpu"}
    assert verdict("median", *cells, **of, about=1.11, within=0.005)[0] == "supported"
    assert verdict("median", *cells, **of, about=1.12, within=0.005)[0] == "contradicted"


def test_two_metrics_that_a_fixed_cost_reconciles():
    steps = {2: 320, 4: 160, 8: 80, 16: 40, 32: 20}
    rows = [
        *curve("wall_s", {n: 4 + 0.1 * s for n, s in steps.items()}),
        *curve("steps_per_rank_planned", steps, kind="planned"),
    ]
    right, wrong = (curve("images_per_s_per_rank", dict.fromkeys(steps, speed)) for speed in (640, 900))
    assert verdict("irreconcilable", *rows, *right, within=0.05)[0] == "contradicted"
    assert verdict("irreconcilable", *rows, *wrong, within=0.05)[0] == "supported"


def test_what_nothing_decides():
    assert verdict("unknown", *RATES, needs="a repeat") == ("not decidable", "it would take a repeat")
    with pytest.raises(Unknown):
        checks.unknown(table(*RATES), "a repeat")


@pytest.fixture(scope="module")
def judged():
    return {item.claim.id: item for item in claims.judge(claims.read(), loading.published(), NOTHING)}


class TestList:
    """The claims of the five reports."""

    def test_every_report_has_claims(self, judged):
        assert {item.claim.report for item in judged.values()} == {"000", "001", "002", "003", "004"}

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("000-efficiency-above-0.94", "supported"),  # 190 / 202 = 0.9406
            ("000-vgg19-best", "contradicted"),  # inception_v4: 98.67 / 100.64 = 0.980 at 4, vgg_19 165.11 / 170.24
            ("000-efficiency-below-0.4", "supported"),  # vgg_19 at 32: 193.45 / 19.2 x 480 / 500 / 32 = 0.302
            ("000-contradictory-metrics", "contradicted"),
            ("001-weak-gpu-inceptionv3", "contradicted"),  # 312.17 / 44.4 = 7.03, not 6.6
            ("001-vgg16-best-on-gpu", "contradicted"),  # 63.88 against 66.11 on one GPU
            ("001-strong-cpu-resnet50-best", "supported"),
            ("001-effective-batch", "contradicted"),  # 2 x 16 = 32, not 64
            ("002-almost-linear-to-256", "not decidable"),
            ("003-over-90", "supported"),  # the least: 359 / 49.3 / 8 = 0.9102
            ("003-superlinear-largest", "contradicted"),  # 569 in the source
            ("003-superlinear-others", "supported"),  # 520 / 4 = 130, as one GPU with real data
            ("003-batch-64-or-32", "contradicted"),  # 142 / 128 = 1.11
            ("003-p100-k80", "supported"),
            ("004-87-per-cent", "contradicted"),  # 114 / 319 = 0.357
            ("004-75-per-cent", "contradicted"),  # 6 / 11 = 0.545
            ("004-half-is-50-minutes", "supported"),  # 5910 / 2 s = 49.25 min
            ("004-209-seconds", "contradicted"),  # 6270 of 5910 s
            ("004-8-v100-quickest", "supported"),  # 25 / 30 x 1387 = 1156 s
            ("004-within-1-per-cent-validation", "contradicted"),  # 0.6888 - 0.6719 = 0.0169
            ("004-averaging-loses-precision", "not decidable"),
        ],
    )
    def test_the_verdict_worked_by_hand(self, judged, name, expected):
        assert judged[name].verdict == expected

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("[[claim]]\nid = 'a'\n", "claim 1 .a.: no report, place, text, check"),
            (
                "[[claim]]\nid = 'a'\nreport = '000'\nplace = 'p'\ntext = 't'\ncheck = 'guess'\n",
                "'guess' given, allowed",
            ),
            (
                "[[claim]]\nid = 'a'\nreport = '000'\nplace = 'p'\ntext = 't'\ncheck = 'unknown'\n" * 2,
                "duplicate id: a",
            ),
            ("nothing", "not a readable list of claims"),
        ],
    )
    def test_a_list_that_cannot_be_used(self, tmp_path, text, says):
        path = tmp_path / "claims.toml"
        path.write_text(text)
        with pytest.raises(TableError, match=says) as error:
            claims.read(path)
        assert str(path) in str(error.value)

    def test_wrong_arguments_name_the_claim(self):
        wrong = Claim("a", "001", "p", "t", "bound", {"of": {"quantiy": "images_per_s"}})
        with pytest.raises(TableError, match=r"claim a: bound: .*no column quantiy"):
            claims.judge([wrong], table(*RATES), NOTHING)
