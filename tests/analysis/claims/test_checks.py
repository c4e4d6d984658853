"""Every rule over made-up reports, worked by hand: true, false and not decidable."""

import functools

import pytest

from analysis import claims
from analysis.claims import Claim
from analysis.claims.checks import CHECKS
from analysis.study import Study
from tests.helpers.studies import curve_in_rounds
from tests.helpers.tidy_rows import curve, row, table

RATE = {"numbers": {"quantity": "images_per_s"}}
EFFICIENCY = {"numbers": {"quantity": "efficiency_throughput"}}
YES, NO, OPEN = "supported", "contradicted", "not decidable"


def judged(check, *rows, scope="these runs", **arguments):
    """Judge one check over made-up rows and the numbers that follow from them."""
    claim = Claim("id", "001", "p", "text", check, arguments, "hypothesis", scope)
    numbers = cached_table(tuple(tuple(columns.items()) for columns in rows))
    (result,) = claims.judge_numbers([claim], numbers, Study().local, Study().published)
    return result


@functools.cache
def cached_table(rows):
    return table(*map(dict, rows))


def verdict(check, *rows, **arguments):
    return judged(check, *rows, **arguments).verdict


def rates(by_ranks, half=None, **columns):
    """Throughputs by ranks; half: half a unit of their last printed digit."""
    return curve("images_per_s", by_ranks, **columns, **({"half_unit": half} if half else {}))


def repeats(*values, ranks=4):
    """Repeats of one configuration of another model, with these throughputs."""
    return [row("images_per_s", v, ranks, model="other", experiment=f"again{i}") for i, v in enumerate(values)]


def at(ranks, name="efficiency_throughput", **columns):
    return {"quantity": name, "ranks": ranks, **columns}


RATES = rates({1: 100, 2: 190, 4: 360}, 0.5)


def test_every_check_is_tested_here():
    tested = {name.removeprefix("test_").split("__")[0] for name in globals() if name.startswith("test_")}
    assert set(CHECKS) <= tested | {"averaging_loses"}  # tests/analysis/experiments/test_equivalence.py


@pytest.mark.slow
def test_predicted():
    # 100 images/s a rank up to 16 ranks, without a loss: 3200 on 32, with an interval of about 15 % down.
    ideal = rates({n: 100 * n for n in (1, 2, 4, 8, 16)})
    assert verdict("predicted", *ideal, **RATE, at=32, at_least=1000) == YES
    assert verdict("predicted", *ideal, **RATE, at=32, at_least=10000) == NO
    assert verdict("predicted", *ideal, **RATE, at=32, share=True, at_most=0.5) == NO
    result = judged("predicted", *ideal, **RATE, at=32, share=True, about=1)
    assert result.verdict == OPEN  # consistent, but not shown: part of the interval is below 0.95
    assert "resnet50: consistent: for 32 ranks 3200 (" in result.evidence
    result = judged("predicted", *ideal[:2], **RATE, at=32, at_least=1000)
    assert result.verdict == OPEN
    assert "2 numbers of ranks measured, at least 3 are needed" in result.evidence


@pytest.mark.slow
def test_predicted__of_times_and_of_nothing():
    # 1600 s of work shared out: 50 s on 32 ranks.
    times = curve("job_s", {n: 1600 / n for n in (1, 2, 4, 8, 16)})
    arguments = {"numbers": {"quantity": "job_s"}, "at": 32}
    assert verdict("predicted", *times, **arguments, at_least=30) == YES
    assert verdict("predicted", *times, **arguments, at_most=30) == NO
    result = judged("predicted", *RATES, **arguments, share=True, about=1)
    assert result.verdict == OPEN
    assert "no numbers of ranks measured" in result.evidence


def test_a_number_that_is_not_known_decides_nothing():
    result = judged("every", *RATES, numbers=at(8), at_least=0.9)
    assert (result.verdict, result.evidence) == (OPEN, "no number is known for quantity efficiency_throughput; ranks 8")


def test_one_run_decides_nothing_about_any_run_and_its_own_verdict_is_reported():
    assert verdict("every", *RATES[:2], numbers=at(2), at_least=0.9) == YES
    result = judged("every", *RATES[:2], numbers=at(2), at_least=0.9, scope="any run")
    assert (result.verdict, result.these_runs) == (OPEN, "as claimed: 0.95 (n = 1)")
    assert "no repeat on this device at this scale" in result.evidence


def test_stated():
    measured = rates({1: 19.4, 8: 136.51}, 0.05)  # 136.51 / 19.4 = 7.04

    def speedup(value, half):
        return row("speedup_throughput", value, 8, kind="stated", half_unit=half)

    arguments = {"numbers": {"quantity": "speedup_throughput"}}
    assert verdict("stated", *measured, speedup(7, 0.5), **arguments) == YES
    assert verdict("stated", *measured, speedup(6.6, 0.05), **arguments) == NO
    assert verdict("stated", speedup(7, 0.5), **arguments) == OPEN  # no throughputs
    assert verdict("stated", *measured, **arguments) == OPEN  # nothing is stated


def test_every():
    numbers = at([2, 4])  # 0.95 and 0.9, each +- 0.6 %
    assert verdict("every", *RATES, numbers=numbers, at_least=0.89) == YES
    assert verdict("every", *RATES, numbers=numbers, at_least=0.94) == NO
    assert verdict("every", *RATES, numbers=numbers, at_least=0.9) == OPEN  # rounding
    evidence = judged("every", *rates({1: 100, 2: 190, 4: 360}), numbers=numbers, at_least=0.92).evidence
    assert evidence.startswith("claimed: at least 0.92. 0.9 (resnet50, P100, 4 ranks); 0.95")
    assert evidence.endswith("2 numbers: 1 contradicted, 1 supported")


def test_every__superlinear_is_an_interval_above_one():
    # 3 %: two repeats 0.1 % apart have t(0.95, 1) = 6.3 and leave 0.6 %; 10 % apart they leave everything open
    quiet, loud = ([*repeats(100, 100 * by), *repeats(50, 50 * by, ranks=1)] for by in (1.001, 1.1))
    arguments = {"numbers": at(4), "at_most": 1, "margin": 0.05, "scope": "any run"}
    assert verdict("every", *rates({1: 100, 4: 412}), *quiet, **arguments) == NO
    assert verdict("every", *rates({1: 100, 4: 412}), *loud, **arguments) == OPEN
    assert verdict("every", *rates({1: 100, 4: 390}), *quiet, **arguments) == YES


FOUR_OVER_ONE = {"formula": "four / one", "numbers": {"four": at(4, "images_per_s"), "one": at(1, "images_per_s")}}


def test_formula():
    # 3.577 to 3.623
    assert verdict("formula", *RATES, **FOUR_OVER_ONE, about=3.6, within=0.01) == YES
    assert verdict("formula", *RATES, **FOUR_OVER_ONE, about=3.8, within=0.01) == NO
    assert verdict("formula", *RATES, **FOUR_OVER_ONE, about=3.63, within=0.005) == OPEN
    evidence = judged("formula", *RATES, **FOUR_OVER_ONE, unit="x", about=3.6).evidence
    assert evidence == "claimed: within 5 % of 3.6. four / one = 3.6 (3.577 to 3.623) x, with four = 360, one = 100"


def test_formula__for_each_value():
    rows = [*RATES, *rates({1: 100, 2: 190, 4: 260}, model="vgg16")]
    assert verdict("formula", *rows, **FOUR_OVER_ONE, each=["model"], at_least=3) == NO
    # the other model was not measured on 4 ranks
    assert verdict("formula", *rows[:4], **FOUR_OVER_ONE, each=["model"], at_least=3) == YES


def test_formula__of_another_run_is_distinguished_from_the_noise():
    models = {"a": "resnet50", "b": "vgg16"}
    numbers = {name: at(4, "images_per_s", model=model) for name, model in models.items()}
    rows = [*rates({4: 105}), *rates({4: 100}, model="vgg16")]
    arguments = {"formula": "a / b", "numbers": numbers, "scope": "any run"}
    assert verdict("formula", *rows, *repeats(100, 100.1, 100.2), **arguments, more_than=1) == YES
    assert verdict("formula", *rows, *repeats(100, 104, 108), **arguments, more_than=1) == OPEN
    assert verdict("formula", *rows, **arguments, more_than=1) == OPEN
    assert verdict("formula", *rows, *repeats(100, 100.1, 100.2), **arguments, more_than=1.2) == NO


def test_formula__numbers_are_not_mixed():
    with pytest.raises(Exception, match="3 numbers for quantity images_per_s"):
        judged("formula", *RATES, formula="a", numbers={"a": {"quantity": "images_per_s"}}, at_least=1)


def test_formula__a_primary_source_is_read_only_where_asked_for():
    rows = [row("images_per_s", 596, 4), row("images_per_s", 569, 4, run="primary source", place="the page")]
    numbers = {"sheet": {"quantity": "images_per_s"}, "page": {"quantity": "images_per_s", "run": "primary source"}}
    evidence = judged("formula", *rows, formula="sheet / page", numbers=numbers, about=1).evidence
    assert "sheet = 596, page = 569" in evidence


def test_spread():
    accuracies = curve("validation_accuracy", {2: 0.6888, 4: 0.676, 8: 0.6719}, half_unit=5e-5)  # 0.0169 +- 0.0001
    arguments = {"numbers": {"quantity": "validation_accuracy"}}
    assert verdict("spread", *accuracies, **arguments, at_most=0.0175) == YES
    assert verdict("spread", *accuracies, **arguments, at_most=0.015) == NO
    assert verdict("spread", *accuracies, **arguments, at_most=0.0169) == OPEN


def test_order():
    def rows(half):
        return [*rates({1: 66, 8: 509}, half), *rates({1: 64, 8: 671}, half, model="vgg16")]

    on_8, on_1 = at(8, "images_per_s"), at(1, "images_per_s")
    arguments = {"among": "model", "at": ["ranks"]}
    assert verdict("order", *rows(0.5), numbers=on_8, **arguments, highest="vgg16") == YES
    assert verdict("order", *rows(0.5), **RATE, **arguments, highest="vgg16") == NO  # at 1
    assert verdict("order", *rows(0.5), **RATE, **arguments, highest="vgg16", need=1) == YES
    assert verdict("order", *rows(5), **RATE, **arguments, highest="vgg16") == OPEN
    assert verdict("order", *rows(0.5)[2:], **RATE, **arguments, highest="vgg16") == OPEN
    assert verdict("order", *rows(0.5), numbers=on_8, **arguments, highest="vgg16", scope="any run") == OPEN
    assert verdict("order", *rows(0.5), numbers=on_1, **arguments, lowest="vgg16") == YES


def test_flat_from():
    arguments = {**RATE, "along": "global_batch", "at": 8, "each": ["model"], "margin": 0.05}

    def judge(**by_batch):
        return verdict("flat_from", *(row("images_per_s", v, 1, int(b[1:])) for b, v in by_batch.items()), **arguments)

    assert judge(b4=80, b8=100, b16=102, b32=99) == YES
    assert judge(b4=80, b8=100, b16=130) == NO  # it still rises
    assert judge(b4=99, b8=100, b16=101) == NO  # it was flat before
    assert judge(b8=100, b16=101) == OPEN


def test_mean():
    def judge(*efficiencies):
        rows = [point for nth, e in enumerate(efficiencies) for point in rates({1: 10, 8: 80 * e}, model=f"m{nth}")]
        return judged("mean", *rows, numbers=at(8), unit=["model"], about=1)

    assert judge(0.98, 0.99, 0.985).verdict == YES
    assert judge(0.84, 0.85, 0.86).verdict == NO
    # ln: mean -0.1158, deviation 0.0478 of 3: t(0.975, 2) = 4.303 leaves 0.791 to 1.003
    result = judge(0.8796, 0.8556, 0.9389)
    assert result.verdict == OPEN
    assert "0.8907 (0.7912 to 1.003)" in result.evidence
    assert judge(0.99).verdict == OPEN  # one model


def test_mean_ratio():
    numbers = {name: {"quantity": "speedup_throughput", "device": name, "kind": "stated"} for name in ("gpu", "cpu")}
    arguments = {"formula": "gpu / cpu", "numbers": numbers, "each": ["model"], "about": 1}

    def judge(**values):
        columns = {"kind": "stated", "half_unit": 0.005}
        rows = [row("speedup_throughput", v, 8, **columns, model=n[0], device=n[1:]) for n, v in values.items()]
        return verdict("mean_ratio", *rows, **arguments)

    assert judge(acpu=7, agpu=7.05, bcpu=6, bgpu=6, ccpu=7, cgpu=6.98) == YES
    assert judge(acpu=7, agpu=8.4, bcpu=6, bgpu=7.2, ccpu=7, cgpu=8.5) == NO
    assert judge(acpu=7, agpu=6.6, bcpu=7, bgpu=8, ccpu=7, cgpu=9) == OPEN
    assert judge(acpu=7, bgpu=8) == OPEN


def test_trend():
    falling = rates({1: 100, 2: 190, 4: 360})  # 1, 0.95, 0.9
    assert verdict("trend", *falling, **EFFICIENCY, direction="falling") == YES
    assert verdict("trend", *falling, **EFFICIENCY, direction="rising") == NO
    rising = rates({1: 100, 2: 210, 4: 440}, model="vgg16")
    assert verdict("trend", *falling, *rising, **EFFICIENCY, direction="falling") == OPEN
    # one slope without an error
    assert verdict("trend", *falling[:2], **EFFICIENCY, direction="falling") == OPEN
    assert verdict("trend", falling[0], **EFFICIENCY, direction="falling") == OPEN


@pytest.mark.parametrize(
    ("by_ranks", "expected"),
    [
        ({1: 100, 2: 199, 4: 399, 8: 798}, YES),
        ({1: 100, 2: 170, 4: 289, 8: 491}, NO),
        ({1: 100, 2: 180, 4: 410, 8: 750}, OPEN),
    ],
)
def test_trend__none_needs_a_margin(by_ranks, expected):
    assert verdict("trend", *rates(by_ranks), **EFFICIENCY, direction="none") == expected


def test_trend__quantities_are_not_mixed():
    rows = [*rates({1: 100, 2: 190, 4: 361}), *curve("job_s", {1: 100, 2: 45, 4: 20})]
    numbers = {"quantity": ["efficiency_throughput", "efficiency_job_time"]}
    result = judged("trend", *rows, numbers=numbers, direction="falling")  # one falls, the other rises
    assert result.verdict == NO
    assert result.evidence.count("from 3 points of 1 curves") == 2


def test_same_trend():
    arguments = {**EFFICIENCY, "among": "model", "one": "c"}
    points = {1: 100.0, 2: 195.0, 4: 382.0, 8: 745.0}
    others = [*rates(points, model="a"), *rates({n: v * 2 for n, v in points.items()}, model="b")]

    def c(last):
        return rates({1: 50, 2: 50 * 2 * last, 4: 50 * 4 * last**2, 8: 50 * 8 * last**3.1}, model="c")

    assert verdict("same_trend", *others, *c(0.97), **arguments) == YES
    assert verdict("same_trend", *others, *c(0.7), **arguments) == NO
    assert verdict("same_trend", *others, *c(0.97)[:2], **arguments) == OPEN  # two points: a slope without an error


def test_same():
    arguments = {"ratio": "ratio_batch_64_to_32", "by": ["gpu", "ranks"]}
    stated = row("ratio_batch_64_to_32", 1, 1, kind="stated", place="the block")

    def judge(*ratios):
        """Cells of batch 64 and 32, whose throughputs have these ratios, on as many models; and one printed cell."""
        cells = [(batch, rate, f"m{nth}") for nth, r in enumerate(ratios) for batch, rate in ((32, 100), (64, 100 * r))]
        rows = [row("images_per_s", rate, 1, batch, model=model) for batch, rate, model in cells]
        return judged("same", stated, *rows, **arguments)

    result = judge(1.10, 1.11, 1.12, 1.13)
    assert result.verdict == NO
    assert "P100, 1 rank: 1.115" in result.evidence
    assert judge(0.98, 1.01, 0.99, 1.01).verdict == YES
    assert judge(0.92, 1.08, 1.02, 0.98).verdict == OPEN  # nothing is rejected
    assert verdict("same", *RATES, **arguments) == OPEN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speed", "other_walls", "expected"),
    [
        (640, {}, NO),
        (900, {}, YES),
        (640, {2: 30.0}, OPEN),  # a verdict that depends on the smallest point is none
    ],
)
def test_irreconcilable(speed, other_walls, expected):
    # 4 s once, and 64 images in 0.1 s: 640 images/s
    steps = {2: 320, 4: 160, 8: 80, 16: 40, 32: 20}
    rows = [
        *curve("wall_s", {n: 4 + 0.1 * s for n, s in steps.items()} | other_walls),
        *curve("steps_per_rank_planned", steps, kind="planned"),
        *curve("images_per_s_per_rank", dict.fromkeys(steps, speed)),
    ]
    assert verdict("irreconcilable", *rows, numbers={"quantity": "wall_s"}) == expected


def test_noted():
    sheet = rates({1: 100, 2: 190})
    one, two = (a | {"run": "primary source", "note": "update: a"} for a in sheet)
    b = two | {"note": "update: b"}
    result = judged("noted", *sheet, one, two, **RATE, says="update: a")
    assert (result.verdict, result.evidence) == (YES, "2 of 2 numbers: update: a")
    assert verdict("noted", *sheet, one, two, **RATE, says="update: b") == NO
    result = judged("noted", *sheet, one, b, **RATE, says="update: a")
    assert result.verdict == NO
    assert result.evidence == "1 of 2 numbers: update: a; resnet50, P100, 2 ranks, imagenet, batch 64: update: b"
    assert verdict("noted", *sheet, one, **RATE, says="update: a") == OPEN
    # The page has the number twice, measured in both ways: which of them was copied is not known.
    assert verdict("noted", *sheet, one, two, b | {"place": "figure 2"}, **RATE, says="update: a") == OPEN


def test_varies_alone():
    arguments = {**RATE, "factor": "gpu", "others": ["machine"]}
    p100, k80 = (row("images_per_s", v, 1, gpu=gpu, machine=gpu + "s") for v, gpu in ((100, "P100"), (30, "K80")))
    result = judged("varies_alone", p100, k80, **arguments)
    assert result.verdict == NO
    assert result.evidence.endswith("; machine changes with gpu")
    assert "gpu: " in result.evidence
    assert verdict("varies_alone", p100, k80 | {"machine": "P100s"}, **arguments) == YES
    # Both on one machine, and each on another too: which of them the numbers are about is open.
    both = k80 | {"machine": "P100s", "model": "other"}
    assert verdict("varies_alone", p100, k80, both, **arguments) == OPEN
    assert verdict("varies_alone", p100, **arguments) == OPEN


def test_reviewed():
    result = judged("reviewed", *RATES, finding=NO, evidence="line 3 says a, line 5 says b")
    assert (result.verdict, result.evidence) == (NO, "line 3 says a, line 5 says b")


@pytest.mark.slow
def test_measured(tmp_path):
    curve_in_rounds(tmp_path)  # the speedup is 1.58 (1.27 to 1.96), that of the control 1.9
    study = Study(tmp_path)

    def judge(ranks, **bounds):
        claimed = {"quantity": "speedup_throughput", "ranks": [ranks], **bounds}
        (result,) = claims.judge([Claim("x", "kit", "", "", "measured", claimed, experiment="weak_scaling")], study)
        return result.verdict, result.evidence

    assert judge(2, more_than=1, less_than=2)[0] == YES
    assert judge(2, at_least=1.97)[0] == NO
    assert judge(2, at_least=1.58)[0] == OPEN
    assert judge(4, at_least=1) == (OPEN, "no speedup_throughput was measured on 4 ranks")
