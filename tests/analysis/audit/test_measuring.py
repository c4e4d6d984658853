import pytest

from tests.helpers.rule_findings import check, row_findings
from tests.helpers.tidy_rows import curve, row


def steps(values):
    return curve("steps_per_rank_planned", values, kind="planned")


def epochs(epoch_s, job_s):
    return [row("epoch_s", epoch_s, 2), row("job_s", job_s, 2), row("epochs_planned", 30, 2, kind="setup")]


def devices(*rows):
    """One row a device: its name, its machine, its images/s on one rank."""
    return [row("images_per_s", rate, 1, gpu=gpu, machine=machine) for gpu, machine, rate in rows]


SWEEP = row("images_per_s", 8.57, 4, experiment="ranks_threads", place="figure 2")
PLANNED = [row("wall_s", 21.11, 16), row("steps_per_rank_planned", 12, 16, kind="planned")]
PARTS = [row("init_s", 32, 1), row("wall_s", 193.45, 1)]
T4, V100 = (row("epoch_s", time_s, 4, gpu=gpu) for gpu, time_s in (("T4", 81), ("V100", 80)))
WALLS = ((1, 2058.21), (2, 1046.33), (4, 540.12))
RATES = {1: 101.23, 2: 190.77, 4: 377.19}
CASES = {
    "the same configuration": ("measured_twice", [SWEEP, row("images_per_s", 8.82, 4)], ("warning", 0.029)),
    "another batch": ("measured_twice", [SWEEP, row("images_per_s", 8.82, 4, batch=32)], ()),
    "repeats": ("measured_twice", [row("images_per_s", 50 + 2 * i, 1, repeat=i) for i in (0, 1)], ()),
    # 12 x 64 / 21.11
    "zero": ("zero_speed", [row("images_per_s_per_rank", 0, 16), *PLANNED], ("serious", None, "36.4 images/s or")),
    "more than zero": ("zero_speed", [row("images_per_s_per_rank", 98.0, 16), *PLANNED], ()),
    "15": ("few_steps", steps({8: 62, 16: 29, 32: 15}), ("warning", None, "'15 steps'", "32 ranks, and 1 more")),
    "30": ("few_steps", steps({8: 62, 16: 30}), ()),
    "whole seconds": ("coarse_clock", curve("epoch_s", {1: 20, 2: 11, 4: 5}), ("warning", 0.1)),  # 0.5 of 5 s
    "half a second": ("coarse_clock", curve("epoch_s", {1: 20.5, 2: 11, 4: 5}), ()),
    "many seconds": ("coarse_clock", curve("epoch_s", {1: 209, 2: 81}), ()),
    "a sum": ("parts_and_total", [*PARTS, row("job_s", 225.45, 1)], ()),
    "no sum": ("parts_and_total", [*PARTS, row("job_s", 235.45, 1)], ("warning", 0.044)),
    # 30 epochs are 6270 s, 600 s, 2430 s
    "longer than the job": ("epochs_and_job", epochs(209, 5910), ("serious", 0.061)),
    "part of the job": ("epochs_and_job", epochs(20, 1986), ("warning", -0.698, "30% of the job; 1386 s went")),
    "most of the job": ("epochs_and_job", epochs(81, 2594), ()),
    # 30 epochs of 87 s are 2610 s, 10 too many, but each may be 0.5 s shorter than printed.
    "rounded up": ("epochs_and_job", epochs(87, 2600), ()),
    # 15.7 / 8.1 of peak arithmetic, 2.8 of bandwidth; a P100 over a K80 10.6 / 4.37 and 3.05
    "a V100 as a T4": ("faster_device", [T4, V100], ("serious", -0.478, "1.01x (81 and 80 s)", "1.9x")),
    "a faster V100": ("faster_device", [T4, V100 | {"value": 41.0}], ()),
    "in another machine": ("faster_device", devices(("K80", "gce", 52), ("P100", "dgx-1", 219)), ()),
    "as a K80": ("faster_device", devices(("K80", "gce", 52), ("P100", "dgx-1", 55)), ("serious", -0.564, "K80")),
    "Tesla": ("faster_device", devices(("Tesla T4", "", 60), ("Tesla V100-16GB", "", 62)), ("serious", -0.467, "1.03")),
    "copy": ("copied_values", curve("images_per_s", RATES | {4: 190.77}), ("serious", None, "190.77 im", "2 ranks")),
    "four digits": ("copied_values", curve("images_per_s", {1: 101.23, 2: 190.7, 4: 190.7}), ()),
    "other digits": ("copied_values", curve("images_per_s", RATES | {4: 190.78}), ()),
}


@pytest.mark.parametrize(("rule", "rows", "expected"), CASES.values(), ids=CASES)
def test_how_numbers_were_measured(rule, rows, expected):
    check(row_findings(rule, *rows), expected)


@pytest.mark.parametrize(
    ("extra", "length"),
    [
        (("images_per_s_per_rank", 32), "They took about 40 s. "),  # 20 steps of 64 images
        (("images_per_s", 128), "They took about 40 s. "),
        (("wall_s", 54.2), "They took at most 54.2 s, the wall time. "),
        (("init_s", 3), ""),
    ],
)
def test_few_steps_may_take_long(extra, length):
    (finding,) = row_findings("few_steps", row("steps_per_rank", 20, 4), row(*extra, 4))
    assert finding.meaning == f"{length}The mean over so few steps still includes the first, slower ones."


def test_two_curves_that_agree_in_all_digits_under_two_names():
    def findings(rates, **columns):
        rows = curve("images_per_s", RATES) + curve("images_per_s", rates, **columns)
        return row_findings("copied_curves", *rows)

    texts = ("images_per_s 101.23 images/s, and 1 more", "resnet50", "vgg16")
    check(findings(RATES | {4: 370.02}, model="vgg16"), ("serious", None, *texts))
    assert not findings({1: 101.23, 2: 180.41}, model="vgg16")
    # 173 x 512 and 187 x 128 have five digits; 173 and 187, which a table gives per rank, have three.
    few_digits = curve("images_per_s", {128: 187 * 128, 512: 173 * 512})
    assert not row_findings("copied_curves", *few_digits, *(line | {"model": "vgg16"} for line in few_digits))
    # The same numbers in two tables of one report are the same measurement.
    assert not findings(RATES, experiment="strong_scaling")


def test_two_rates_of_one_line_share_its_time():
    def lines(model, last):
        return [
            row("wall_s", time_s, n, model=model, place=f"t.csv, line {n + last}, '{model}'") for n, time_s in WALLS
        ]

    assert not row_findings("copied_curves", *lines("hook", 1), *lines("pure", 1))
    assert len(row_findings("copied_curves", *lines("hook", 1), *lines("pure", 9))) == 1
