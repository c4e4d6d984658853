import pytest

from analysis.audit import wall_times as rules
from tests.helpers.findings import row_findings
from tests.helpers.tidy_rows import curve, row


def fixed_work(walls, steps, speed):
    return [
        *curve("wall_s", walls, experiment="fixed_work"),
        *curve("steps_per_rank_planned", steps, kind="planned", experiment="fixed_work"),
        *curve("images_per_s_per_rank", dict.fromkeys(walls, speed), experiment="fixed_work"),
    ]


STEPS = {2: 320, 4: 160, 8: 80, 16: 40, 32: 20}


@pytest.mark.slow
def test_a_wall_time_that_the_others_do_not_predict():
    walls = {n: 4 + 0.1 * steps for n, steps in STEPS.items()}
    assert not row_findings(rules.wall_time_misfit, *fixed_work(walls, STEPS, 640))
    (finding,) = row_findings(rules.wall_time_misfit, *fixed_work(walls | {8: 15}, STEPS, 640))
    assert "8 ranks" in finding.place
    assert finding.off == pytest.approx(15 / 12 - 1)


@pytest.mark.slow
def test_a_fixed_cost_makes_the_two_speedups_differ():
    # At 640 images/s a step of 64 takes 0.1 s: by speed 16x from 2 to 32 ranks, by wall time 36 / 6 = 6x.
    walls = {n: 4 + 0.1 * steps for n, steps in STEPS.items()}
    (finding,) = row_findings(rules.fixed_cost, *fixed_work(walls, STEPS, 640))
    assert finding.off == pytest.approx(16 / 6 - 1)  # stated / follows - 1
    assert finding.severity == "serious"
    assert "4 s (4 to 4) of each run are beyond its steps" in finding.meaning
    assert not row_findings(rules.fixed_cost, *fixed_work({n: 0.1 * steps for n, steps in STEPS.items()}, STEPS, 640))


def test_a_wall_time_in_which_the_work_cannot_have_been_done():
    # 100 steps of 64 images at 640 images/s take 10 s.
    def study(*walls, speed=640):
        steps = row("steps_per_rank", 100, 4)
        return [
            steps,
            row("images_per_s_per_rank", speed, 4),
            *(row("wall_s", w, 4, repeat=i) for i, w in enumerate(walls)),
        ]

    (finding,) = row_findings(rules.too_short, *study(6))
    assert finding.follows == "10 s or more: 6400 images a rank at 640 images/s"
    assert finding.off == pytest.approx(-0.4)
    assert not row_findings(rules.too_short, *study(12))
    assert not row_findings(rules.too_short, *study(9.5))  # within what two noisy numbers differ by
    assert not row_findings(rules.too_short, *study(8.5, 10.5))  # in the mean of repeats
    assert row_findings(rules.too_short, *study(12, speed=64))  # speeds in another unit


def test_a_speed_that_the_wall_time_does_not_allow():
    walls = {n: 4 + 0.1 * steps for n, steps in STEPS.items()}
    rows = fixed_work(walls, STEPS, 640)
    assert not row_findings(rules.speed_times_off, *rows)
    rows[-1]["value"] = 6400.0
    (finding,) = row_findings(rules.speed_times_off, *rows)
    assert "32 ranks" in finding.place
    assert (finding.stated, finding.follows) == ("6400 images/s a rank", "640 images/s, which its wall time leaves")
    assert finding.off == pytest.approx(9)
    assert not row_findings(rules.too_short, *rows)


def test_the_speed_of_the_whole_job_in_place_of_that_of_a_rank():
    walls = {n: 4 + 0.1 * steps for n, steps in STEPS.items()}
    rows = fixed_work(walls, STEPS, 640)
    for one in rows[-len(STEPS) :]:
        one["value"] *= one["ranks"] / 2
    (finding,) = row_findings(rules.speed_of_the_job, *rows)
    assert finding.stated == "1.024e+04 images/s on 32, as of one rank"
    assert "32 ranks" in finding.place
    assert not row_findings(rules.speed_times_off, *rows)


@pytest.mark.slow
def test_wall_times_without_speeds_have_no_fixed_cost_to_hide():
    walls = {n: 4 + 0.1 * steps for n, steps in STEPS.items()}
    assert not row_findings(rules.fixed_cost, *fixed_work(walls, STEPS, 640)[: 2 * len(STEPS)])
