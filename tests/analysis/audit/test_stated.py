import pandas as pd
import pytest

from analysis.audit.stated import logged_throughput
from tests.helpers.rule_findings import check, row_findings
from tests.helpers.tidy_rows import curve, row

RATES = curve("images_per_s", {1: 44.4, 8: 312.17})
OTHER_BASE = row("images_per_s", 19.46, 1, experiment="ranks_threads")
SWEEP = [OTHER_BASE, *curve("images_per_s", {1: 19.4, 8: 136.51})]
OTHERS = [row("images_per_s", 44.4, 1, experiment="batch_sweep", place="figure 4"), RATES[1]]


def stated(quantity, value, ranks, **columns):
    return row(quantity, value, ranks, kind="stated", **columns)


def speedup(value, rates=RATES):
    return [*rates, stated("speedup_throughput", value, 8)]


def efficiency(value):
    return [*curve("images_per_s", {1: 100, 4: 380}), stated("efficiency_throughput", value, 4)]


def batches(ratios):
    """Batch 64 is 10 % faster at 1 rank, and scales 3.8x; batch 32 scales 3.7x: raw 1.13, of speedups 1.03."""
    cells = [stated("ratio_batch_64_to_32", value, ranks, half_unit=0.005) for ranks, value in ratios.items()]
    both = [*curve("images_per_s", {1: 110, 4: 418}, batch=64), *curve("images_per_s", {1: 100, 4: 370}, batch=32)]
    return [*both, *cells]


def medians(**values):
    """Ratios of each GPU on 1, 2 and 4 ranks, and their median."""
    ratio, blank = "ratio_resnet50_to_inceptionv3", {"model": "", "gpu": ""}
    cells = [
        stated(ratio, value, ranks, gpu=gpu, place=f"{gpu} {ranks}")
        for gpu, ratios in values.items()
        for ranks, value in zip((1, 2, 4), ratios, strict=True)
    ]
    return [*cells, stated(f"median_{ratio}", 1.6, None, batch=None, **blank)]


def percentage(value):
    """From 11 to 5 s is 54.5 % less; 75 % is from 20 s."""
    return [*curve("epoch_s", {1: 20, 2: 11, 4: 5}), stated("epoch_s_decrease_fraction", value, 4)]


def labelled(ranks):
    return [*curve("images_per_s", {1: 100, 4: 380}), stated("ranks_as_printed", ranks, 4, batch=None, model="")]


def copied(source, copy, **columns):
    source = curve("images_per_s", source, run="primary source", place="the page")
    return [*curve("images_per_s", copy, **columns), *source]


def size(model_bytes, half_unit):
    parameters = row("parameters", 138_357_544, None, None, kind="setup")
    return [parameters, row("model_bytes", model_bytes, None, None, half_unit=half_unit)]


PAGE, SOURCE = {1: 142, 4: 569}, {1: 30.5, 2: 57.8}
TWO_GROUPS = ("warning", None, "P100 (1.48 to 1.54) and K80 (1.66 to 1.70)")
CASES = {
    # 312.17 / 6.6 = 47.3, where 44.4 stands: 7.03x. That base may be of another run.
    "another base": ("stated_speedup", speedup(6.6, OTHERS), ("note", -0.061, "not decidable", "47.3 images/s; fig")),
    "its own base": ("stated_speedup", speedup(6.6), ("warning", -0.061, "base of 47.3 images/s")),
    **{f"rounded to {n}": ("stated_speedup", speedup(n), ()) for n in (7, 7.0, 7.03, 7.031)},
    "no base": ("stated_speedup", speedup(9, RATES[1:]), ()),
    "two bases": ("stated_speedup", speedup(7.037, SWEEP), ()),
    "an efficiency": ("stated_speedup", efficiency(0.95), ()),
    "another efficiency": ("stated_speedup", efficiency(0.98), ("warning", 0.032, "95.00%")),
    "speedups": ("normalised_ratio", batches({1: 1, 4: 1.03}), ("warning", -0.091, "2 of 2", "all follow", "1.10 to")),
    "of throughputs": ("normalised_ratio", batches({1: 1.10, 4: 1.13}), ()),
    "nothing": ("normalised_ratio", batches({1: 1.10, 4: 2.00}), ("serious", 0.770, "1 of 2 cells", "nor from speed")),
    "of two groups": ("median_of_two_groups", medians(P100=(1.48, 1.50, 1.54), K80=(1.66, 1.69, 1.70)), TWO_GROUPS),
    "amid": ("median_of_two_groups", medians(P100=(1.5, 1.55, 1.59), K80=(1.61, 1.65, 1.7)), ()),
    "75 %": ("percentage_base", percentage(0.75), ("serious", 0.375, "Its base", "falls from 20 to 5 s, over 1 rank")),
    "87 %": ("percentage_base", percentage(0.87), ("serious", 0.595, "No base gives it: 54.5% (the time falls")),
    **{f"{share} less": ("percentage_base", percentage(share), ()) for share in (0.55, 0.545)},
    # 3.8 / 3
    "a wrong label": ("label", labelled(3), ("warning", -0.25, "1 of 1 cells would be beyond ideal, by 27%")),
    "a right label": ("label", labelled(4), ()),
    "swapped": ("primary_source", copied(PAGE, PAGE | {4: 596}), ("serious", 0.047, "Two digits", "4.01x, not 4.20x")),
    "rounded": ("primary_source", copied(SOURCE, {1: 30, 2: 58}, half_unit=0.5), ("warning", -0.016, "2 cells were")),
    "copied": ("primary_source", copied(SOURCE, SOURCE), ()),
    "mebibytes": ("size_in_bytes", size(528e6, 5e5), ("note", -0.046, "right in MiB")),
    "megabytes": ("size_in_bytes", size(553.4e6, 5e4), ()),
}


@pytest.mark.parametrize(("rule", "rows", "expected"), CASES.values(), ids=CASES)
def test_what_reports_state_follows_from_their_numbers(rule, rows, expected):
    check(row_findings(rule, *rows), expected)


def test_a_logged_throughput_that_its_times_do_not_give():
    # 1000 samples in epochs of 10 s are 100 samples/s; a log in steps of 256 states 25,600.
    points = [row("images_per_s", 100, ranks) | {"quantity": "rate", "curve": "a", "place": ranks} for ranks in (8, 16)]
    right, wrong = ([*points, points[1] | {"kind": "stated", "value": value}] for value in (101.0, 25600.0))
    assert [*logged_throughput(pd.DataFrame(right))] == []
    [finding] = logged_throughput(pd.DataFrame(wrong))
    assert (finding.rule, finding.severity, finding.off) == ("logged_throughput", "note", 255)
