import json

import pandas as pd
import pytest

from analysis.documents import text
from analysis.explain import document, fit
from analysis.explain.runs import phases
from tests.analysis.explain.test_text import POINTS

EPOCHS = ["each step and rank", "each epoch or checkpoint"]  # the points share out one number of steps


def as_json(points):
    return document.as_json(fit.explain(points, "a curve"), phases(points))


@pytest.mark.slow
def test_a_number_with_an_interval_has_its_level_and_n():
    curve = as_json(POINTS)
    assert (curve.fixed_cost_paid, curve.recurring_cost_fits) == ("not decidable", EPOCHS)
    assert curve.decided_by.startswith("One run would decide, 4 times the steps on 32 ranks")
    assert curve.fixed_s.value == pytest.approx(4)
    assert (curve.fixed_s.level, curve.fixed_s.n) == (0.95, 5)
    assert curve.points[-1].speedup_without_fixed.covers == "fit"


def test_what_is_not_known_is_null():
    curve = json.loads(text(as_json(POINTS[:3].assign(images_per_s_per_rank=float("nan")))))
    assert curve["points"][0]["images_per_s_per_rank"] is None
    assert curve["equal_time_per_image"] == {"verdict": "not tested", "p": None}
    assert curve["fixed_s_whichever_point_is_left_out"] is None


@pytest.mark.slow
def test_findings_and_misfits_are_in_it():
    wrong = POINTS.assign(images_per_s_per_rank=[100.0, 100.0, 10.0, 100.0, 100.0])
    curve = as_json(pd.concat([wrong, POINTS[:1].assign(wall_s=36.001)]))
    assert [(one.kind, one.ranks, one.leaves_out) for one in curve.findings] == [("impossible", (8,), "runs")]
    assert [point.fits for point in curve.points] == ["yes", "yes", "not used", "yes", "yes"]
