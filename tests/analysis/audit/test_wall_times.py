import pytest

from analysis.audit import wall_times as rules
from tests.helpers.tidy_rows import curve, table


def found(rule, *rows):
    return list(rule(table(*rows)))


def fixed_work(walls, steps, speed):
    return [
        *curve("wall_s", walls, experiment="fixed_work"),
        *curve("steps_per_rank_planned", steps, kind="planned", experiment="fixed_work"),
        *curve("images_per_s_per_rank", dict.fromkeys(walls, speed), experiment="fixed_work"),
    ]


STEPS = {2: 320, 4: 160, 8: 80, 16: 40, 32: 20}


def test_a_wall_time_that_the_others_do_not_predict():
    walls = {n: 4 + 0.1 * steps for n, steps in STEPS.items()}
    assert not found(rules.wall_time_misfit, *fixed_work(walls, STEPS, 640))
    (finding,) = found(rules.wall_time_misfit, *fixed_work(walls | {8: 15}, STEPS, 640))
    assert "8 ranks" in finding.place
    assert finding.off == pytest.approx(15 / 12 - 1)


def test_a_fixed_cost_makes_the_two_speedups_differ():
    # At 640 images/s a step of 64 takes 0.1 s: by speed 16x from 2 to 32 ranks, by wall time 36 / 6 = 6x.
    walls = {n: 4 + 0.1 * steps for n, steps in STEPS.items()}
    (finding,) = found(rules.fixed_cost, *fixed_work(walls, STEPS, 640))
    assert finding.off == pytest.approx(6 / 16 - 1)
    assert finding.severity == "serious"
    assert "pays 4 s" in finding.meaning
    assert not found(rules.fixed_cost, *fixed_work({n: 0.1 * steps for n, steps in STEPS.items()}, STEPS, 640))
