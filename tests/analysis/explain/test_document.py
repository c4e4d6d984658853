import json

import pandas as pd
import pytest

from analysis.explain import document, fit
from analysis.explain.runs import phases
from tests.analysis.explain.test_text import POINTS


def as_json(points):
    found = document.as_json(fit.explain(points, "a curve"), phases(points))
    return json.loads(json.dumps(found, allow_nan=False))


def test_the_names_of_the_schema():
    found = as_json(POINTS)
    assert list(found) == [
        "curve", "fixed_cost_paid", "model", "assumes", "fixed_s", "fixed_s_whichever_point_is_left_out",
        "images_per_s_per_rank_implied", "equal_time_per_image", "findings", "fits", "points", "phases", "sentences",
    ]  # fmt: skip
    assert list(found["points"][0]) == [
        "ranks", "steps_per_rank", "batch_per_rank", "images_per_rank", "runs", "wall_s", "images_per_s_per_rank",
        "fitted_s", "misfit_p", "steps_that_fit", "fixed_fraction", "beyond_speed_s", "ideal", "speedup_throughput",
        "speedup_wall_time", "speedup_without_fixed", "fits", "above_ideal",
    ]  # fmt: skip


def test_a_number_with_an_interval_says_its_level_and_n():
    found = as_json(POINTS)
    assert found["fixed_cost_paid"] == "yes"
    assert list(found["fixed_s"]) == ["value", "low", "high", "level", "n", "covers"]
    assert found["fixed_s"]["value"] == pytest.approx(4)
    assert (found["fixed_s"]["level"], found["fixed_s"]["n"]) == (0.95, 5)
    assert list(found["points"][-1]["speedup_without_fixed"]) == ["value", "low", "high", "level", "n", "covers"]


def test_what_is_not_known_is_null():
    found = as_json(POINTS[:3].assign(images_per_s_per_rank=float("nan")))
    assert found["points"][0]["images_per_s_per_rank"] is None
    assert found["equal_time_per_image"] == {"verdict": "not tested", "p": None}
    assert found["fixed_s_whichever_point_is_left_out"] is None


def test_findings_and_misfits_are_in_it():
    wrong = POINTS.assign(images_per_s_per_rank=[100.0, 100.0, 10.0, 100.0, 100.0])
    found = as_json(pd.concat([wrong, POINTS[:1].assign(wall_s=36.001)]))
    assert [(one["kind"], one["ranks"], one["leaves_out"]) for one in found["findings"]] == [
        ("impossible", [8], "runs")
    ]
    assert [point["fits"] for point in found["points"]] == ["yes", "yes", "not used", "yes", "yes"]
