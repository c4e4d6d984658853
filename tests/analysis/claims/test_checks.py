"""Every rule over made-up reports, worked by hand: true, false and not decidable."""

import functools

import pytest

from analysis import claims
from analysis.claims import Claim
from analysis.claims.checks import CHECKS
from analysis.study import Study
from analysis.table import schema
from tests.helpers.own_studies import curve_in_rounds
from tests.helpers.tidy_rows import curve, row, table

NOTHING = Study().local  # no local records


def judged(check, *rows, scope="these runs", **arguments):
    """The verdict and the evidence of one check over made-up rows and what follows from them."""
    claim = Claim("id", "001", "p", "text", check, arguments, "hypothesis", scope)
    numbers = made_up(tuple(tuple(one.items()) for one in rows))
    (result,) = claims.judge_numbers([claim], numbers, NOTHING, Study().published)
    return result.verdict, result.evidence


@functools.cache
def made_up(rows):
    return table(*map(dict, rows))


def verdict(check, *rows, **arguments):
    return judged(check, *rows, **arguments)[0]


def rounded(rows, half):
    """The rows as if they were printed so: with half a unit of their last digit."""
    return [one | {"half_unit": half} for one in rows]


def repeats(*values, ranks=4):
    """The same configuration of another model, measured so often."""
    return [row("images_per_s", v, ranks, model="other", experiment=f"again{i}") for i, v in enumerate(values)]


def test_every_check_is_tested_here():
    tested = {name.removeprefix("test_").split("__")[0] for name in globals() if name.startswith("test_")}
    assert set(CHECKS) <= tested | {"averaging_loses"}  # tests/analysis/experiments/test_equivalence.py


RATES = rounded(curve("images_per_s", {1: 100, 2: 190, 4: 360}), 0.5)


@pytest.mark.slow
def test_predicted():
    # 100 images/s a rank up to 16 ranks, without a loss: 3200 on 32, with an interval of about 15 % down.
    rates = curve("images_per_s", {n: 100 * n for n in (1, 2, 4, 8, 16)})
    ask = {"numbers": {"quantity": "images_per_s"}, "at": 32}
    assert verdict("predicted", *rates, **ask, at_least=1000) == "supported"
    assert verdict("predicted", *rates, **ask, at_least=10000) == "contradicted"
    assert verdict("predicted", *rates, **ask, share=True, at_most=0.5) == "contradicted"
    output = judged("predicted", *rates, **ask, share=True, about=1)
    assert output[0] == "not decidable"  # consistent, but not shown: part of the interval is below 0.95
    assert "resnet50: consistent: for 32 ranks 3200 (" in output[1]
    output = judged("predicted", *rates[:2], **ask, at_least=1000)
    assert output[0] == "not decidable"
    assert "2 numbers of ranks measured, at least 3 are needed" in output[1]


@pytest.mark.slow
def test_predicted__of_times_and_of_nothing():
    # 1600 s of work shared out: 50 s on 32 ranks.
    times = curve("job_s", {n: 1600 / n for n in (1, 2, 4, 8, 16)})
    ask = {"numbers": {"quantity": "job_s"}, "at": 32}
    assert verdict("predicted", *times, **ask, at_least=30) == "supported"
    assert verdict("predicted", *times, **ask, at_most=30) == "contradicted"
    output = judged("predicted", *RATES, **ask, share=True, about=1)
    assert output[0] == "not decidable"
    assert "no numbers of ranks measured" in output[1]


class TestNotKnown:
    def test_a_number_that_is_not_known_decides_nothing(self):
        output = judged("every", *RATES, numbers={"quantity": "efficiency_throughput", "ranks": 8}, at_least=0.9)
        assert output == ("not decidable", "no number is known for quantity efficiency_throughput; ranks 8")

    def test_one_run_decides_nothing_about_any_run(self):
        numbers = {"quantity": "efficiency_throughput", "ranks": 2}
        two = RATES[:2]
        assert verdict("every", *two, numbers=numbers, at_least=0.9) == "supported"
        output = judged("every", *two, numbers=numbers, at_least=0.9, scope="any run")
        assert output[0] == "not decidable"
        assert "no repeat on this device at this scale" in output[1]


def test_stated():
    rates = rounded(curve("images_per_s", {1: 19.4, 8: 136.51}), 0.05)

    def speedup(value, half):
        return row("speedup_throughput", value, 8, kind="stated") | {"half_unit": half}

    numbers = {"quantity": "speedup_throughput"}
    assert verdict("stated", *rates, speedup(7, 0.5), numbers=numbers) == "supported"  # 136.51 / 19.4 = 7.04
    assert verdict("stated", *rates, speedup(6.6, 0.05), numbers=numbers) == "contradicted"
    assert verdict("stated", speedup(7, 0.5), numbers=numbers) == "not decidable"  # no throughputs
    assert verdict("stated", *rates, numbers=numbers) == "not decidable"  # nothing is stated


def test_every():
    numbers = {"quantity": "efficiency_throughput", "ranks": [2, 4]}  # 0.95 and 0.9, each +- 0.6 %
    assert verdict("every", *RATES, numbers=numbers, at_least=0.89) == "supported"
    assert verdict("every", *RATES, numbers=numbers, at_least=0.94) == "contradicted"
    assert verdict("every", *RATES, numbers=numbers, at_least=0.9) == "not decidable"  # rounding


def test_every__says_what_it_is_not_so_for():
    numbers = {"quantity": "efficiency_throughput", "ranks": [2, 4]}
    output = judged("every", *curve("images_per_s", {1: 100, 2: 190, 4: 360}), numbers=numbers, at_least=0.92)[1]
    assert output.startswith("claimed: at least 0.92. 0.9 (resnet50, P100, 4 ranks); 0.95")
    assert output.endswith("2 numbers: 1 contradicted, 1 supported")


def test_every__superlinear_is_an_interval_above_one():
    numbers = {"quantity": "efficiency_throughput", "ranks": 4}
    faster = curve("images_per_s", {1: 100, 4: 412})
    # 3 %: two repeats 0.1 % apart have t(0.95, 1) = 6.3 and leave 0.6 %; 10 % apart they leave everything open
    quiet, loud = ([*repeats(100, 100 * by), *repeats(50, 50 * by, ranks=1)] for by in (1.001, 1.1))
    limits = {"numbers": numbers, "at_most": 1, "margin": 0.05, "scope": "any run"}
    assert verdict("every", *faster, *quiet, **limits) == "contradicted"
    assert verdict("every", *faster, *loud, **limits) == "not decidable"
    assert verdict("every", *curve("images_per_s", {1: 100, 4: 390}), *quiet, **limits) == "supported"


def test_formula():
    numbers = {"four": {"quantity": "images_per_s", "ranks": 4}, "one": {"quantity": "images_per_s", "ranks": 1}}

    def judge(**limits):
        return verdict("formula", *RATES, formula="four / one", numbers=numbers, **limits)  # 3.577 to 3.623

    assert judge(about=3.6, within=0.01) == "supported"
    assert judge(about=3.8, within=0.01) == "contradicted"
    assert judge(about=3.63, within=0.005) == "not decidable"
    output = judged("formula", *RATES, formula="four / one", numbers=numbers, unit="x", about=3.6)[1]
    assert output == ("claimed: within 5 % of 3.6. four / one = 3.6 (3.577 to 3.623) x, with four = 360, one = 100")


def test_formula__for_each_value():
    rows = [*RATES, *curve("images_per_s", {1: 100, 2: 190, 4: 260}, model="vgg16")]
    numbers = {"four": {"quantity": "images_per_s", "ranks": 4}, "one": {"quantity": "images_per_s", "ranks": 1}}
    ask = {"formula": "four / one", "numbers": numbers, "each": ["model"], "at_least": 3}
    assert verdict("formula", *rows, **ask) == "contradicted"
    assert verdict("formula", *rows[:4], **ask) == "supported"  # the other model has no fourth rank


def test_formula__of_another_run_is_distinguished_from_the_noise():
    numbers = {
        "four": {"quantity": "images_per_s", "model": "resnet50", "ranks": 4},
        "six": {"quantity": "images_per_s", "model": "vgg16", "ranks": 4},
    }
    rows = [*curve("images_per_s", {4: 105}), *curve("images_per_s", {4: 100}, model="vgg16")]
    ask = {"formula": "four / six", "numbers": numbers, "more_than": 1, "scope": "any run"}
    assert verdict("formula", *rows, *repeats(100, 100.1, 100.2), **ask) == "supported"
    assert verdict("formula", *rows, *repeats(100, 104, 108), **ask) == "not decidable"
    assert verdict("formula", *rows, **ask) == "not decidable"
    assert verdict("formula", *rows, *repeats(100, 100.1, 100.2), **ask | {"more_than": 1.2}) == "contradicted"


def test_formula__numbers_are_not_mixed():
    with pytest.raises(Exception, match="3 numbers for quantity images_per_s"):
        judged("formula", *RATES, formula="a", numbers={"a": {"quantity": "images_per_s"}}, at_least=1)


def test_spread():
    rows = [row("validation_accuracy", v, n) | {"half_unit": 5e-5} for n, v in ((2, 0.6888), (4, 0.676), (8, 0.6719))]
    numbers = {"quantity": "validation_accuracy"}  # 0.0169 +- 0.0001
    assert verdict("spread", *rows, numbers=numbers, at_most=0.0175) == "supported"
    assert verdict("spread", *rows, numbers=numbers, at_most=0.015) == "contradicted"
    assert verdict("spread", *rows, numbers=numbers, at_most=0.0169) == "not decidable"


def test_order():
    rows = rounded(
        [*curve("images_per_s", {1: 66, 8: 509}), *curve("images_per_s", {1: 64, 8: 671}, model="vgg16")], 0.5
    )
    ask = {"among": "model", "highest": "vgg16", "at": ["ranks"]}
    numbers = {"quantity": "images_per_s"}
    assert verdict("order", *rows, numbers=numbers | {"ranks": 8}, **ask) == "supported"
    assert verdict("order", *rows, numbers=numbers, **ask) == "contradicted"  # at 1
    assert verdict("order", *rows, numbers=numbers, **ask, need=1) == "supported"
    assert verdict("order", *rounded(rows, 5), numbers=numbers, **ask) == "not decidable"
    assert verdict("order", *rows, numbers=numbers | {"model": "vgg16"}, **ask) == "not decidable"
    assert verdict("order", *rows, numbers=numbers | {"ranks": 8}, **ask, scope="any run") == "not decidable"
    assert (
        verdict("order", *rows, numbers=numbers | {"ranks": 1}, among="model", lowest="vgg16", at=["ranks"])
        == "supported"
    )


def test_flat_from():
    def batches(**rates):
        return [row("images_per_s", rate, 1, batch=int(name[1:])) for name, rate in rates.items()]

    ask = {"numbers": {"quantity": "images_per_s"}, "along": "global_batch", "at": 8, "each": ["model"], "margin": 0.05}
    assert verdict("flat_from", *batches(b4=80, b8=100, b16=102, b32=99), **ask) == "supported"
    assert verdict("flat_from", *batches(b4=80, b8=100, b16=130), **ask) == "contradicted"  # it still rises
    assert verdict("flat_from", *batches(b4=99, b8=100, b16=101), **ask) == "contradicted"  # it was flat before
    assert verdict("flat_from", *batches(b8=100, b16=101), **ask) == "not decidable"


def efficiencies(**shares):
    return [
        one for model, share in shares.items() for one in curve("images_per_s", {1: 10, 8: 80 * share}, model=model)
    ]


def test_mean():
    ask = {"numbers": {"quantity": "efficiency_throughput", "ranks": 8}, "unit": ["model"], "about": 1}
    assert verdict("mean", *efficiencies(a=0.98, b=0.99, c=0.985), **ask) == "supported"
    assert verdict("mean", *efficiencies(a=0.84, b=0.85, c=0.86), **ask) == "contradicted"
    # ln: mean -0.1158, deviation 0.0478 of 3: t(0.975, 2) = 4.303 leaves 0.791 to 1.003
    output = judged("mean", *efficiencies(a=0.8796, b=0.8556, c=0.9389), **ask)
    assert output[0] == "not decidable"
    assert "0.8907 (0.7912 to 1.003)" in output[1]
    assert verdict("mean", *efficiencies(a=0.99), **ask) == "not decidable"  # one model


def test_mean_ratio():
    def stated(**values):
        return [
            row("speedup_throughput", value, 8, kind="stated", model=name[0], device=name[1:], half_unit=0.005)
            for name, value in values.items()
        ]

    numbers = {name: {"quantity": "speedup_throughput", "device": name, "kind": "stated"} for name in ("gpu", "cpu")}
    ask = {"formula": "gpu / cpu", "numbers": numbers, "each": ["model"], "about": 1}
    assert verdict("mean_ratio", *stated(acpu=7, agpu=7.05, bcpu=6, bgpu=6, ccpu=7, cgpu=6.98), **ask) == "supported"
    assert verdict("mean_ratio", *stated(acpu=7, agpu=8.4, bcpu=6, bgpu=7.2, ccpu=7, cgpu=8.5), **ask) == "contradicted"
    assert verdict("mean_ratio", *stated(acpu=7, agpu=6.6, bcpu=7, bgpu=8, ccpu=7, cgpu=9), **ask) == "not decidable"
    assert verdict("mean_ratio", *stated(acpu=7, bgpu=8), **ask) == "not decidable"


def test_trend():
    ask = {"numbers": {"quantity": "efficiency_throughput"}}
    falling = curve("images_per_s", {1: 100, 2: 190, 4: 360})  # 1, 0.95, 0.9
    assert verdict("trend", *falling, **ask, direction="falling") == "supported"
    assert verdict("trend", *falling, **ask, direction="rising") == "contradicted"
    both = [*falling, *curve("images_per_s", {1: 100, 2: 210, 4: 440}, model="vgg16")]
    assert verdict("trend", *both, **ask, direction="falling") == "not decidable"
    two = curve("images_per_s", {1: 100, 2: 150})  # one slope without an error
    assert verdict("trend", *two, **ask, direction="falling") == "not decidable"
    assert verdict("trend", falling[0], **ask, direction="falling") == "not decidable"


def test_trend__none_needs_a_margin():
    ask = {"numbers": {"quantity": "efficiency_throughput"}, "direction": "none"}
    assert verdict("trend", *curve("images_per_s", {1: 100, 2: 199, 4: 399, 8: 798}), **ask) == "supported"
    assert verdict("trend", *curve("images_per_s", {1: 100, 2: 170, 4: 289, 8: 491}), **ask) == "contradicted"
    assert verdict("trend", *curve("images_per_s", {1: 100, 2: 180, 4: 410, 8: 750}), **ask) == "not decidable"


def test_trend__quantities_are_not_mixed():
    rows = [*curve("images_per_s", {1: 100, 2: 190, 4: 361}), *curve("job_s", {1: 100, 2: 45, 4: 20})]
    numbers = {"quantity": ["efficiency_throughput", "efficiency_job_time"]}
    output = judged("trend", *rows, numbers=numbers, direction="falling")  # one falls, the other rises
    assert output[0] == "contradicted"
    assert output[1].count("from 3 points of 1 curves") == 2


def test_same_trend():
    def models(last):
        points = {1: 100.0, 2: 195.0, 4: 382.0, 8: 745.0}
        return [
            *curve("images_per_s", points, model="a"),
            *curve("images_per_s", {n: v * 2 for n, v in points.items()}, model="b"),
            *curve("images_per_s", {1: 50, 2: 50 * 2 * last, 4: 50 * 4 * last**2, 8: 50 * 8 * last**3.1}, model="c"),
        ]

    ask = {"numbers": {"quantity": "efficiency_throughput"}, "among": "model", "one": "c"}
    assert verdict("same_trend", *models(0.97), **ask) == "supported"
    assert verdict("same_trend", *models(0.7), **ask) == "contradicted"
    short = [one for one in models(0.97) if one["model"] != "c" or one["ranks"] < 4]
    assert verdict("same_trend", *short, **ask) == "not decidable"  # two points: a slope without an error


def batches(*ratios):
    """Cells of batch 64 and 32, whose throughputs have these ratios, on as many models; and one printed cell."""
    rows = [row("ratio_batch_64_to_32", 1, 1, kind="stated", place="the block")]
    for number, ratio in enumerate(ratios):
        rows += [row("images_per_s", 100, 1, batch=32, model=f"m{number}")]
        rows += [row("images_per_s", 100 * ratio, 1, batch=64, model=f"m{number}")]
    return rows


def test_same():
    ask = {"ratio": "ratio_batch_64_to_32", "by": ["gpu", "ranks"]}
    output = judged("same", *batches(1.10, 1.11, 1.12, 1.13), **ask)
    assert output[0] == "contradicted"
    assert "P100, 1 rank: 1.115" in output[1]
    assert verdict("same", *batches(0.98, 1.01, 0.99, 1.01), **ask) == "supported"
    assert verdict("same", *batches(0.92, 1.08, 1.02, 0.98), **ask) == "not decidable"  # nothing is rejected
    assert verdict("same", *RATES, **ask) == "not decidable"


@pytest.mark.slow
@pytest.mark.parametrize(("speed", "expected"), [(640, "contradicted"), (900, "supported")])
def test_irreconcilable(speed, expected):
    # 4 s once, and 64 images in 0.1 s: 640 images/s
    steps = {2: 320, 4: 160, 8: 80, 16: 40, 32: 20}
    rows = [
        *curve("wall_s", {n: 4 + 0.1 * s for n, s in steps.items()}),
        *curve("steps_per_rank_planned", steps, kind="planned"),
    ]
    measured = curve("images_per_s_per_rank", dict.fromkeys(steps, speed))
    assert verdict("irreconcilable", *rows, *measured, numbers={"quantity": "wall_s"}) == expected


@pytest.mark.slow
def test_irreconcilable__a_verdict_that_depends_on_the_smallest_point_is_none():
    steps = {2: 320, 4: 160, 8: 80, 16: 40, 32: 20}
    walls = {n: 4 + 0.1 * s for n, s in steps.items()} | {2: 30.0}
    rows = [*curve("wall_s", walls), *curve("steps_per_rank_planned", steps, kind="planned")]
    measured = curve("images_per_s_per_rank", dict.fromkeys(steps, 640))
    assert verdict("irreconcilable", *rows, *measured, numbers={"quantity": "wall_s"}) == "not decidable"


def test_a_primary_source_is_read_only_where_asked_for():
    rows = [row("images_per_s", 596, 4), row("images_per_s", 569, 4, run="primary source", place="the page")]
    numbers = {"sheet": {"quantity": "images_per_s"}, "page": {"quantity": "images_per_s", "run": "primary source"}}
    assert "sheet = 596, page = 569" in judged("formula", *rows, formula="sheet / page", numbers=numbers, about=1)[1]


def test_half_units_are_those_of_the_csv():
    published = Study().published
    rows = published["report"].eq("000") & published["model"].eq("resnet101v2") & published["ranks"].eq(1)
    speed = published[rows & published["quantity"].eq("images_per_s_per_rank")]
    assert (speed["value"].item(), speed["half_unit"].item()) == (202, 0.5)
    assert "half_unit" in [column.name for column in schema.COLUMNS]


def test_noted():
    sheet = curve("images_per_s", {1: 100, 2: 190})
    page = [one | {"run": "primary source", "note": "update: a"} for one in sheet]
    ask = {"numbers": {"quantity": "images_per_s"}}
    assert judged("noted", *sheet, *page, **ask, says="update: a") == ("supported", "2 of 2 numbers: update: a")
    assert verdict("noted", *sheet, *page, **ask, says="update: b") == "contradicted"
    output = judged("noted", *sheet, page[0], page[1] | {"note": "update: b"}, **ask, says="update: a")
    assert output[0] == "contradicted"
    assert output[1] == "1 of 2 numbers: update: a; resnet50, P100, 2 ranks, imagenet, batch 64: update: b"
    assert verdict("noted", *sheet, page[0], **ask, says="update: a") == "not decidable"
    # The page has it twice, measured in both ways: which of them was copied is not known.
    both = page[1] | {"note": "update: b", "place": "figure 2"}
    assert verdict("noted", *sheet, *page, both, **ask, says="update: a") == "not decidable"


def test_varies_alone():
    ask = {"numbers": {"quantity": "images_per_s"}, "factor": "gpu", "others": ["machine"]}
    p100, k80 = (row("images_per_s", v, 1, gpu=gpu, machine=gpu + "s") for v, gpu in ((100, "P100"), (30, "K80")))
    output = judged("varies_alone", p100, k80, **ask)
    assert output == ("contradicted", "gpu: K80, P100; machine: K80s, P100s; machine changes with gpu") or output == (
        "contradicted", "gpu: P100, K80; machine: P100s, K80s; machine changes with gpu",
    )  # fmt: skip
    assert verdict("varies_alone", p100, k80 | {"machine": "P100s"}, **ask) == "supported"
    # Both on one machine, and each on another too: which of them the numbers are about is open.
    both = k80 | {"machine": "P100s", "model": "other"}
    assert verdict("varies_alone", p100, k80, both, **ask) == "not decidable"
    assert verdict("varies_alone", p100, **ask) == "not decidable"


def test_reviewed():
    ask = {"finding": "contradicted", "evidence": "line 3 says a, line 5 says b"}
    assert judged("reviewed", *RATES, **ask) == ("contradicted", "line 3 says a, line 5 says b")


def test_beside_what_cannot_be_decided_stands_what_these_runs_say():
    numbers = {"one": {"quantity": "images_per_s", "ranks": 1}, "two": {"quantity": "images_per_s", "ranks": 2}}
    arguments = {"formula": "two / one", "numbers": numbers, "more_than": 1}
    claim = Claim("id", "001", "p", "text", "formula", arguments, "hypothesis", "any run")
    (result,) = claims.judge_numbers([claim], table(*RATES[:2]), NOTHING, Study().published)
    assert (result.verdict, result.these_runs) == ("not decidable", "as claimed: 1.9 (n = 1)")


@pytest.mark.slow
def test_measured(tmp_path):
    curve_in_rounds(tmp_path)  # the speedup is 1.58 (1.27 to 1.96), that of the control 1.9
    study = Study(tmp_path)

    def judge(ranks, **bounds):
        claimed = {"quantity": "speedup_throughput", "ranks": [ranks], **bounds}
        (result,) = claims.judge([Claim("x", "kit", "", "", "measured", claimed, experiment="weak_scaling")], study)
        return result.verdict, result.evidence

    assert judge(2, more_than=1, less_than=2)[0] == "supported"
    assert judge(2, at_least=1.97)[0] == "contradicted"
    assert judge(2, at_least=1.58)[0] == "not decidable"
    assert judge(4, at_least=1) == ("not decidable", "no speedup_throughput was measured on 4 ranks")
