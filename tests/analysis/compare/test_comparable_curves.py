import pytest

from analysis.compare.comparable_curves import published_curves
from tests.helpers.tidy_rows import curve, row, table


def test_a_published_curve_is_over_what_the_local_records_sweep():
    points = table(*curve("images_per_s", {1: 100, 4: 300}, nodes=1), row("images_per_s", 50, 1, batch=32, nodes=1))
    by_ranks = published_curves(points, {})
    assert sorted((c.axis, c.sizes) for c in by_ranks) == [("ranks", (1.0,)), ("ranks", (1.0, 4.0))]
    (by_batch,) = published_curves(points[points["ranks"] == 1], {"weak_scaling": "batch_per_rank"})
    assert (by_batch.axis, by_batch.sizes) == ("global_batch", (32.0, 64.0))


def test_a_speedup_by_wall_time_is_of_images_per_second():
    # 500 steps in 100 s; 2 x 240 steps in 60 s: 480 / 60 over 500 / 100 = 1.6, though 100 / 60 = 1.67
    steps = curve("steps_per_rank_planned", {1: 500, 2: 240}, kind="planned")
    (result,) = published_curves(table(*curve("wall_s", {1: 100, 2: 60}), *steps), {})
    assert (result.by, result.unit) == ("wall time", "x")
    assert [rate.value for rate in result.rates] == [1, pytest.approx(1.6)]
