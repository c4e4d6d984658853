import pytest

from tests.helpers.rule_findings import check, row_findings
from tests.helpers.tidy_rows import curve, row


def rates(values, **columns):
    return curve("images_per_s", values, **columns)


def planned(steps, **columns):
    return curve("steps_per_rank_planned", steps, kind="planned", **columns)


def repeated(values):
    """The values of each number of ranks are repeats."""
    return [row("images_per_s", x, n, repeat=i) for n, repeats in values.items() for i, x in enumerate(repeats)]


def twice(ranks, **columns):
    """Another model, measured twice: two runs differ by 4 %."""
    return [
        row("images_per_s", v * ranks, ranks, model="vgg16", experiment=e, **columns) for v, e in ((50, "a"), (52, "b"))
    ]


ONE_FAST = {1: 100.0, 2: 196.2, 4: 440.0, 8: 754.5, 16: 1478.0, 32: 2900.0}
ONE_NOISY = {1: [100, 101, 99], 2: [220, 221, 219], 4: [380, 300, 460]}
EPOCHS = [row("epochs_planned", 30, n, kind="setup") for n in (1, 2)]
# Four ranks a node: the ideal of 8 nodes over 1 node is 8, not 32.
STATED = row("speedup_throughput", 10, 32, kind="stated", nodes=8, ranks_per_node=4)


SCATTERED, SMALL = ONE_FAST | {2: 180.0, 8: 790.0, 16: 1400.0}, rates({1: 100, 2: 203})
WALLS, FASTER = curve("wall_s", {16: 18.32, 32: 19.2}), curve("wall_s", {16: 18.32, 32: 18.2})
WEAK = row("speedup_throughput", 6.84, 8, kind="stated")
STRONG = row("speedup_throughput", 7.2, 8, batch=8, kind="stated", experiment="strong_scaling")
BASE = row("images_per_s", 100, 1)  # of 64 images: the base of both, in batch per rank and in global batch
CASES = {
    "1.19 once": ("beyond_ideal", rates({1: 100, 2: 190, 4: 476}), ("note", 0.19, "4 ranks", "no repeat on this dev")),
    "1.21 once": ("beyond_ideal", rates({1: 100, 2: 242}), ("warning", 0.21, "noise of 5% would explain 20% at most")),
    "1.3 once": ("beyond_ideal", rates({1: 100, 2: 260}), ("serious", 0.3)),
    # The scatter of points that were measured once shows their noise; a faulty first point is left out of it.
    "scatter of 0.1 %": ("beyond_ideal", rates(ONE_FAST), ("serious", 0.1, "4 ranks", "interval lies above 1")),
    "scatter of 10 %": ("beyond_ideal", rates(SCATTERED), ("note", 0.1, "4 ranks")),
    "repeats within 1 %": ("beyond_ideal", repeated({1: [100, 101, 99], 2: [220, 221, 219]}), ("serious", 0.1)),
    "repeats within 0.2 %": ("beyond_ideal", repeated({1: [100, 100.2, 99.8], 2: [210, 211, 209]}), ("warning", 0.05)),
    "repeats within 20 %": ("beyond_ideal", repeated({1: [100, 115, 85], 2: [220, 240, 200]}), ()),
    "a noisy point hides no other": ("beyond_ideal", repeated(ONE_NOISY), ("serious", 0.1, "2 ranks")),
    "noise of the report at this scale": ("beyond_ideal", [*SMALL, *twice(1), *twice(2)], ()),
    "noise at another scale": ("beyond_ideal", [*SMALL, *twice(1), *twice(4)], ("note", 0.015)),
    "noise of a K80": ("beyond_ideal", [*SMALL, *twice(1, gpu="K80"), *twice(2, gpu="K80")], ("note", 0.015)),
    "a stated speedup without its curve": ("beyond_ideal", [STATED], ("warning", 0.25)),
    "a stated speedup below ideal": ("beyond_ideal", [STATED | {"value": 7.9}], ()),
    "times of unknown epochs": ("beyond_ideal", curve("epoch_s", {1: 100, 2: 40}), ()),
    "times of the same epochs": ("beyond_ideal", [*curve("epoch_s", {1: 100, 2: 40}), *EPOCHS], ("warning", 0.25)),
    "slower within 1 %": ("more_ranks_no_faster", repeated({1: [100, 101, 99], 2: [90, 91, 89]}), ("warning", -0.1)),
    "slower within 20 %": ("more_ranks_no_faster", repeated({1: [100, 120, 80], 2: [95, 110, 80]}), ()),
    "a longer time for the same work": ("more_ranks_no_faster", [*WALLS, *planned({16: 31, 32: 15})], ("note", 0.048)),
    "a shorter time": ("more_ranks_no_faster", [*FASTER, *planned({16: 31, 32: 15})], ()),
    "more work in a longer time": ("more_ranks_no_faster", [*WALLS, *planned({16: 31, 32: 31})], ()),
    "fewer images": ("more_ranks_no_faster", rates({1: 100, 2: 70}), ("warning", -0.3)),  # at most a warning
    "more images": ("more_ranks_no_faster", rates({1: 100, 2: 101}), ()),
    # 500 steps on 1 rank, 62 on 8: 62 x 8 = 496, 0.8 % less
    "steps rounded down": ("unequal_work", planned({1: 500, 8: 62}, experiment="fixed_work"), ("note", -0.008)),
    "steps divided": ("unequal_work", planned({1: 500, 4: 125}, experiment="fixed_work"), ()),
    "steps kept, as in weak scaling": ("unequal_work", curve("steps_per_rank", {1: 100, 8: 100}), ()),
    "fewer steps": ("unequal_work", curve("steps_per_rank", {1: 100, 8: 50}), ("serious", -0.5)),
    "strong over weak scaling": ("strong_beats_weak", [BASE, WEAK, STRONG], ("note", 0.053)),
    "strong below weak scaling": ("strong_beats_weak", [BASE, WEAK, STRONG | {"value": 6.8}], ()),
    "strong scaling of another model": ("strong_beats_weak", [BASE, WEAK, STRONG | {"model": "vgg16"}], ()),
}


@pytest.mark.parametrize(("rule", "rows", "expected"), CASES.values(), ids=CASES)
def test_points_of_a_curve(rule, rows, expected):
    check(row_findings(rule, *rows), expected)


@pytest.mark.parametrize(
    ("walls", "factor", "severity"),
    [
        ({1: 300, 2: 303, 4: 298}, 1.0, "note"),
        ({1: 300, 2: 303, 4: 298}, 1.2, "serious"),  # the speeds are not those of the steps
        ({1: 300, 2: 150, 4: 75}, 1.0, "serious"),  # not the same time
    ],
)
def test_runs_of_about_the_same_time_did_unequal_work_on_purpose(walls, factor, severity):
    speeds = {1: 100.0, 2: 190.0, 4: 340.0}
    steps = {n: speeds[n] * walls[n] / (64 * n) for n in walls}  # 469, 450, 396: 16 % fewer
    rows = [*curve("wall_s", walls), *curve("steps_per_rank", steps)]
    (finding,) = row_findings("unequal_work", *rows, *rates(speeds | {4: speeds[4] * factor}))
    assert (finding.severity, "4 ranks" in finding.place) == (severity, True)
    (finding,) = row_findings("unequal_work", *rows)
    assert finding.severity == "serious"  # no speeds are stated
