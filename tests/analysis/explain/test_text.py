import json

import pandas as pd
import pytest

from analysis import documents, explain
from analysis.explain import text
from analysis.explain.runs import phases

# 4 s once, then 0.1 s a step of 10 images.
STEPS = {2: 320, 4: 160, 8: 80, 16: 40, 32: 20}
POINTS = pd.DataFrame(
    {
        "model": "",
        "ranks": list(STEPS),
        "steps_per_rank": list(STEPS.values()),
        "batch_per_rank": 10,
        "wall_s": [4 + 0.1 * steps for steps in STEPS.values()],
        "images_per_s_per_rank": 100.0,
    }
)


def said(points):
    return text.sentences(explain.explain(points))


@pytest.mark.slow
def test_the_sentences_say_what_the_speed_does_not_see_and_how_that_is_known():
    sentences = said(POINTS)
    assert sentences[0] == "They differ because 4 s (4 to 4) of each run are beyond its steps at their measured speed."
    assert sentences[1].startswith("Whether that is paid once cannot be decided")  # the work is shared out
    assert sentences[3] == "It is what the steps at their measured speed leave of the wall times."
    assert sentences[4] == "Whichever point is left out, it is 4 s."
    assert "On 32 ranks: 16.0x by speed, 6.0x by wall time, 16.0x by wall time without the fixed cost" in sentences[5]
    assert "imply 100 images/s a rank (100 to 100)" in sentences[6]
    assert sentences[6].endswith("they agree.")


@pytest.mark.slow
def test_a_cost_that_is_paid_once_is_called_so():
    works = pd.concat([POINTS, POINTS.assign(steps_per_rank=POINTS["steps_per_rank"] * 3)])
    first = said(works.assign(wall_s=4 + 0.1 * works["steps_per_rank"]))[0]
    assert first.startswith("They differ because each run has a fixed cost of 4 s (4 to 4)")
    assert "from 960 on 2 to 20 on 32" in first


@pytest.mark.slow
def test_a_misfit_names_the_work_that_would_fit():
    slow = POINTS.assign(wall_s=POINTS["wall_s"].where(POINTS["ranks"] != 8, 15.0))
    assert "The point at 8 ranks does not fit: it took 15 s, 3 s more than the others predict" in said(slow)[-1]
    assert said(slow)[-1].endswith("as if it had run 110 steps, not 80.")


@pytest.mark.slow
def test_a_point_without_a_speed_gets_the_one_it_had():
    unknown = POINTS.assign(images_per_s_per_rank=POINTS["images_per_s_per_rank"].where(POINTS["ranks"] != 32))
    assert said(unknown)[-1].endswith("with the same fixed cost it was about 100 images/s a rank.")


@pytest.mark.slow
def test_the_assumption_of_a_fit_without_speeds_is_stated():
    blind = POINTS.assign(images_per_s_per_rank=float("nan"))
    assert (
        "as changing alike at each doubling of the ranks or as in a ring allreduce: that cannot be shown"
        in " ".join(said(blind))
    )
    assert "the same time at every point, which cannot be tested with these points" in " ".join(said(blind[:3]))


@pytest.mark.slow
def test_a_speed_above_the_ideal_is_reported():
    fast = POINTS.assign(images_per_s_per_rank=[100.0, 100.0, 101.5, 100.0, 100.0])
    assert any("The speedup by speed is above the ideal: 4.06x on 8 (ideal 4x)." in one for one in said(fast))


@pytest.mark.slow
def test_findings_come_first_and_the_report_fits_a_hundred_columns():
    wrong = pd.concat([POINTS, POINTS[:1].assign(batch_per_rank=20, wall_s=68.0)], ignore_index=True)
    wrong.loc[2, "images_per_s_per_rank"] = 10.0
    wrong = pd.concat([wrong, wrong[:1].assign(wall_s=36.01)])
    printed = text.report(explain.explain(wrong, "a curve"), phases(wrong))
    assert printed.startswith("== a curve\n\nfinding: The run on 8 ranks is impossible: 800 images a rank take 80 s")
    assert "-: not used" in printed
    assert max(map(len, printed.splitlines())) <= text.WIDTH


@pytest.mark.slow
def test_a_point_above_the_ideal_is_marked():
    # Half a second less on 8 ranks is a misfit: 32 s of images on 2 ranks over 7.5 s of a quarter of them each.
    quick = POINTS.assign(wall_s=POINTS["wall_s"] - pd.Series([0, 0, 0.5, 0, 0]))
    assert "4.267!" in text.report(explain.explain(quick), phases(quick))


EPOCHS = ["each step and rank", "each epoch or checkpoint"]  # the points share out one number of steps


def as_json(points):
    return text.as_json(explain.explain(points, "a curve"), phases(points))


@pytest.mark.slow
def test_a_number_with_an_interval_has_its_level_and_n():
    curve = as_json(POINTS)
    assert (curve.fixed_cost_paid, curve.recurring_cost_fits) == ("not decidable", EPOCHS)
    assert curve.decided_by.startswith("One run would decide, 4 times the steps on 32 ranks")
    assert curve.fixed_s.value == pytest.approx(4)
    assert (curve.fixed_s.level, curve.fixed_s.n) == (0.95, 5)
    assert curve.points[-1].speedup_without_fixed.covers == "fit"


def test_what_is_not_known_is_null():
    curve = json.loads(documents.text(as_json(POINTS[:3].assign(images_per_s_per_rank=float("nan")))))
    assert curve["points"][0]["images_per_s_per_rank"] is None
    assert curve["equal_time_per_image"] == {"verdict": "not tested", "p": None}
    assert curve["fixed_s_whichever_point_is_left_out"] is None


@pytest.mark.slow
def test_findings_and_misfits_are_in_it():
    wrong = POINTS.assign(images_per_s_per_rank=[100.0, 100.0, 10.0, 100.0, 100.0])
    curve = as_json(pd.concat([wrong, POINTS[:1].assign(wall_s=36.001)]))
    assert [(one.kind, one.ranks, one.leaves_out) for one in curve.findings] == [("impossible", (8,), "runs")]
    assert [point.fits for point in curve.points] == ["yes", "yes", "not used", "yes", "yes"]
