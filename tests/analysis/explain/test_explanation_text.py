import math
import re

import pandas as pd
import pytest

from analysis import explain
from analysis.explain import explanation_text
from analysis.explain.wall_time_runs import SPEED
from tests.helpers.wall_time_curves import curve

# 4 s once, then 0.1 s a step of 10 images.
POINTS = curve([2, 4, 8, 16, 32], [320, 160, 80, 40, 20], [36.0, 20.0, 12.0, 8.0, 6.0], 10, 100.0)
WORKS = pd.concat([POINTS, curve([2, 4, 8, 16, 32], [960, 480, 240, 120, 60], [100.0, 52, 28, 16, 10], 10, 100.0)])


def answer(points):
    return explanation_text.answer(explain.explain(points, "a curve"), points)


def sentences(points):
    return explanation_text.sentences(explain.explain(points))


def test_the_sentences_say_what_the_speed_leaves_out_and_how_that_is_known():
    why, once, decider, speedups, speed = sentences(POINTS)
    # 2 % of noise, in 2 of 6 degrees: 4 s, give or take t(6) x 1.2 % x 9.6 s / sqrt 5 or so.
    assert re.fullmatch(r"They differ because 4 s \(3\.\d+ to 4\.\d+\) of each run are beyond its steps at .*", why)
    assert once.startswith("Whether that is paid once cannot be decided: no number of ranks has several works")
    # An eighth of the 20 steps of 32 ranks, which take 6 s: 4 s and 0.2 s, or a tenth of 6 s.
    assert decider == (
        "4 runs of 2 steps a rank on 32 ranks would decide: 4.2 s if the fixed cost is paid once; 0.6 s if all recurs "
        "with the steps."
    )
    assert "On 32 ranks: 16.0x by speed, 6.0x by wall time; without the fixed cost 16.0 (" in speedups
    assert "imply 100 images/s a rank" in speed
    assert speed.endswith("no contradiction is shown.")


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        (WORKS, r"Each run has a fixed cost of 4 s .*: several works at one number of ranks show it"),
        # At 100 images/s 0.1, 0.42, 0.1 and 0 s are left.
        (curve([1, 2, 4, 8], [80, 40, 20, 10], [8.1, 4.42, 2.1, 1.0], 10, 100.0), "^Whether .* is not decidable"),
        (POINTS.assign(wall_s=[36.0, 20, 15, 8, 6]),
         "8 ranks does not fit: it took 15 s, 3 s more than the others .* as if it had run 110 steps, not 80"),
        (POINTS.assign(**{SPEED: POINTS[SPEED].where(POINTS["ranks"] != 32)}), "it was about 100 images/s a rank"),
        (POINTS.assign(**{SPEED: math.nan}), "If an image took the same time at every point, it would be 4 s"),
        (POINTS.assign(**{SPEED: [100, 100, 108, 100, 100]}), r"speed is above the ideal: 4.32x on 8 \(ideal 4x\)"),
    ],
)  # fmt: skip
def test_the_sentences_about_other_points(points, sentence):
    assert re.search(sentence, " ".join(sentences(points)))


def test_speeds_that_few_wall_times_cannot_contradict_are_not_said_to_agree():
    """The wall times imply 50 images/s, and three runs are too few; or no speed, as they do not grow with the steps."""
    last = sentences(curve([1, 2, 4], [40, 20, 10], [12.0, 8.0, 6.0], 10, 100.0))[-1]
    assert last.endswith("these runs are too few to show which is right.")
    assert "imply" not in " ".join(sentences(curve([1, 2, 4], [40, 20, 10], [12.0, 12.5, 13.0], 10, 100.0)))


def test_a_speedup_is_above_the_ideal_only_beyond_its_noise():
    """4.06 on 4 times the ranks is no finding; nor is a speedup whose interval holds the ideal."""
    assert "above the ideal" not in " ".join(sentences(POINTS.assign(**{SPEED: [100, 100, 101.5, 100, 100]})))
    noisy = POINTS.assign(wall_s=POINTS["wall_s"] * [1.01, 0.99, 0.99, 1.01, 0.99])
    assert "above the ideal" not in " ".join(sentences(noisy))


def test_findings_come_first_and_a_point_above_the_ideal_is_marked_in_a_hundred_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    wrong = pd.concat([POINTS, POINTS[:1].assign(batch_per_rank=20, wall_s=68.0)], ignore_index=True)
    wrong.loc[2, SPEED] = 10.0
    wrong = pd.concat([wrong, wrong[:1].assign(wall_s=36.01)])
    report = explanation_text.report(answer(wrong))
    assert report.startswith("== a curve\n\nfinding: The run on 8 ranks is impossible: 800 images a rank take 80 s")
    assert [point.fits for point in answer(wrong).points].count("not used") == 1
    assert max(map(len, report.splitlines())) <= 100
    assert "4.32!" in explanation_text.report(answer(POINTS.assign(**{SPEED: [100, 100, 108, 100, 100]})))


def test_a_decided_curve_names_no_run():
    decided, open_ = answer(WORKS), answer(POINTS)
    assert (decided.fixed_cost_paid, decided.decided_by) == ("yes", None)
    assert (open_.fixed_cost_paid, open_.cost_beyond_steps) == ("not decidable", "yes")
    assert (open_.fixed_s.value, open_.fixed_s.n) == (pytest.approx(4), 5)
    assert answer(POINTS[:3].assign(**{SPEED: math.nan})).beyond_steps_s is None
