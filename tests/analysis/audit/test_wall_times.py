import pytest

from tests.helpers.rule_findings import check, row_findings
from tests.helpers.tidy_rows import curve, row

STEPS = {2: 320, 4: 160, 8: 80, 16: 40, 32: 20}
WALLS = {n: 4 + 0.1 * steps for n, steps in STEPS.items()}
SPEEDS = dict.fromkeys(STEPS, 640)


def fixed_work(walls=WALLS, speeds=SPEEDS):
    """At 640 images/s a step of 64 takes 0.1 s."""
    return [
        *curve("wall_s", walls, experiment="fixed_work"),
        *curve("steps_per_rank_planned", STEPS, kind="planned", experiment="fixed_work"),
        *curve("images_per_s_per_rank", speeds, experiment="fixed_work"),
    ]


def runs(wall_s):
    """100 steps of 64 images: at 640 images/s they take 10 s."""
    return [row("steps_per_rank", 100, 4), row("images_per_s_per_rank", 640, 4), row("wall_s", wall_s, 4)]


SPLIT = {
    "a point that fits": ("wall_time_misfit", fixed_work(), ()),
    "a point that does not": ("wall_time_misfit", fixed_work(WALLS | {8: 15}), ("serious", 0.25, "8 ranks")),
    # By speed 16x from 2 to 32 ranks, by wall time 36 / 6 = 6x.
    "a fixed cost": ("fixed_cost", fixed_work(), ("serious", 16 / 6 - 1, "4 s (3.89 to 4.11) of each run are beyond")),
    "no fixed cost": ("fixed_cost", fixed_work({n: 0.1 * steps for n, steps in STEPS.items()}), ()),
    "no speeds": ("fixed_cost", fixed_work(speeds={}), ()),
}
ONE_FAST, WHOLE_JOB = fixed_work(speeds=SPEEDS | {32: 6400}), fixed_work(speeds={n: 640 * n / 2 for n in STEPS})
CONTRADICTIONS = {
    "6 s": ("too_short", runs(6), ("serious", -0.4, "10 s or more: 6400 images a rank at 640 images/s")),
    "12 s": ("too_short", runs(12), ()),
    "one fast": ("speed_times_off", ONE_FAST, ("serious", 9, "32 ranks", "'6400 images/s a rank'", "'640 images/s, w")),
    "as its wall time allows": ("speed_times_off", fixed_work(), ()),
    "of the job": ("speed_of_the_job", WHOLE_JOB, ("serious", 15, "1.024e+04 images/s on 32", "32 ranks")),
}


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "rows", "expected"), SPLIT.values(), ids=SPLIT)
def test_a_fixed_cost_and_a_cost_per_step_explain_wall_times(rule, rows, expected):
    check(row_findings(rule, *rows), expected)


@pytest.mark.parametrize(("rule", "rows", "expected"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_wall_times_and_speeds_agree(rule, rows, expected):
    check(row_findings(rule, *rows), expected)
