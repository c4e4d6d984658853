import json
import math
import re

import pandas as pd
import pytest

from analysis import documents, explain
from analysis.explain import text
from analysis.explain.runs import SPEED, phases
from tests.helpers.wall_times import curve

slow = pytest.mark.slow  # a fit that simulates

# 4 s once, then 0.1 s a step of 10 images.
POINTS = curve([2, 4, 8, 16, 32], [320, 160, 80, 40, 20], [36.0, 20.0, 12.0, 8.0, 6.0], 10, 100.0)
WORKS = pd.concat([POINTS, curve([2, 4, 8, 16, 32], [960, 480, 240, 120, 60], [100.0, 52, 28, 16, 10], 10, 100.0)])


def sentences(points):
    return text.sentences(explain.explain(points))


@slow
def test_the_sentences_say_what_the_speed_leaves_out_and_how_that_is_known():
    why, recurring, _, evidence, left_out, speedups, speed = sentences(POINTS)
    assert why == "They differ because 4 s (4 to 4) of each run are beyond its steps at their measured speed."
    assert recurring.startswith("Whether that is paid once cannot be decided")  # the work is shared out
    assert evidence == "It is what the steps at their measured speed leave of the wall times."
    assert left_out == "Whichever point is left out, it is 4 s."
    assert "On 32 ranks: 16.0x by speed, 6.0x by wall time, 16.0x by wall time without the fixed cost" in speedups
    assert "imply 100 images/s a rank (100 to 100)" in speed
    assert speed.endswith("they agree.")


@slow
@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        (WORKS, r"each run has a fixed cost of 4 s \(4 to 4\), and the steps .* shrink .*from 960 on 2 to 20 on 32"),
        # At 100 images/s 0.1, 0.12, 0.1 and 0 s are left: without one of the first three it could be none.
        (curve([1, 2, 4, 8], [80, 40, 20, 10], [8.1, 4.12, 2.1, 1.0], 10, 100.0), "^Whether .* is not decidable"),
        (curve([1, 2, 4, 8], [80, 40, 20, 10], [8.05, 3.98, 2.02, 0.97], 10, 100.0), "differ significantly from zero"),
        # The run on one rank took less than its fixed cost: a growing time per image needs a fixed cost below 0.
        (curve([1, 2, 4, 8], [141, 356, 29, 27], [11.6, 51.1, 18.5, 21.1]),
         r"^Whether .* is not decidable.* fails \(p = .*\), so the fixed cost is wrong"),
        (POINTS.assign(wall_s=[36.0, 20, 15, 8, 6]),
         "8 ranks does not fit: it took 15 s, 3 s more than the others .* as if it had run 110 steps, not 80"),
        # The times beyond the speed are 4, 4, 4, 9 and 9 s: without one of the last two the other is an outlier.
        (POINTS.assign(wall_s=[36.0, 20.01, 11.99, 13, 11.01]),
         r"Not decidable: whether the others predict .* 16 ranks \(.*\) and 32 ranks \(.* with and without each"),
        (POINTS.assign(**{SPEED: POINTS[SPEED].where(POINTS["ranks"] != 32)}), "it was about 100 images/s a rank"),
        (POINTS.assign(**{SPEED: math.nan}), "or as in a ring allreduce: that cannot be shown"),
        (POINTS[:3].assign(**{SPEED: math.nan}), "the same time at every point, which cannot be tested with these"),
        # 12 s once, and steps that take 1, 1.4 and 1.8 times as long: too few points to fit the growth.
        (curve([2, 4, 8], [256, 128, 64], [108.4, 79.5, 55.4]), "fixed cost is above .* the assumption failed there"),
        (POINTS.assign(**{SPEED: [100, 100, 101.5, 100, 100]}), r"speed is above the ideal: 4.06x on 8 \(ideal 4x\)"),
    ],
)  # fmt: skip
def test_the_sentences_about_other_points(points, sentence):
    assert re.search(sentence, " ".join(sentences(points)))


@slow
def test_findings_come_first_and_the_report_fits_a_hundred_columns():
    wrong = pd.concat([POINTS, POINTS[:1].assign(batch_per_rank=20, wall_s=68.0)], ignore_index=True)
    wrong.loc[2, SPEED] = 10.0
    wrong = pd.concat([wrong, wrong[:1].assign(wall_s=36.01)])
    report = text.report(explain.explain(wrong, "a curve"), phases(wrong))
    assert report.startswith("== a curve\n\nfinding: The run on 8 ranks is impossible: 800 images a rank take 80 s")
    assert "-: not used" in report
    assert max(map(len, report.splitlines())) <= text.WIDTH


@slow
def test_a_point_above_the_ideal_is_marked():
    # Half a second less on 8 ranks is a misfit: 32 s of images on 2 ranks over 7.5 s of a quarter of them each.
    assert "4.267!" in text.report(explain.explain(POINTS.assign(wall_s=[36.0, 20, 11.5, 8, 6])), phases(POINTS))


def as_json(points):
    return json.loads(documents.text(text.as_json(explain.explain(points, "a curve"), phases(points))))


@slow
def test_a_number_with_an_interval_has_its_level_and_n():
    document = as_json(POINTS)
    assert document["fixed_cost_paid"] == "not decidable"
    # The points share out one number of steps.
    assert document["recurring_cost_fits"] == ["each step and rank", "each epoch or checkpoint"]
    assert document["decided_by"].startswith("One run would decide, 4 times the steps on 32 ranks")
    fixed_s = document["fixed_s"]
    assert (fixed_s["value"], fixed_s["level"], fixed_s["n"]) == (pytest.approx(4), 0.95, 5)
    assert document["points"][-1]["speedup_without_fixed"]["variation"] == "about the fit"


def test_what_is_not_known_is_null():
    document = as_json(POINTS[:3].assign(**{SPEED: math.nan}))
    assert document["points"][0][SPEED] is None
    assert document["equal_time_per_image"] == {"verdict": "not tested", "p": None}
    assert document["fixed_s_whichever_point_is_left_out"] is None


@slow
def test_findings_and_misfits_are_in_it():
    wrong = POINTS.assign(**{SPEED: [100.0, 100.0, 10.0, 100.0, 100.0]})
    document = as_json(pd.concat([wrong, POINTS[:1].assign(wall_s=36.001)]))
    findings = [(finding["kind"], finding["ranks"], finding["leaves_out"]) for finding in document["findings"]]
    assert findings == [("impossible", [8], "runs")]
    assert [point["fits"] for point in document["points"]] == ["yes", "yes", "not used", "yes", "yes"]
