import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.predict import Obstacle, predict, sizes, why_not
from tests.helpers.scaling_curves import LEARNED, curve, logarithmic


def predicted(measured, *ranks):
    return predict(measured, sizes(measured, ranks), LEARNED)


# By hand: the seconds of a step at each point, more fields of the curve, and the rates by number of ranks.
NEXT = {
    "a step grows with the logarithm": ([1.0, 1.1, 1.2], {"ranks": (1, 2, 4)}, {8: 8 / 1.3, 16: 16 / 1.4}),
    # Amdahl, or a fixed cost: a job takes 5 + 95 / n, so an image of a rank 95 + 5 n.
    "a step grows with the ranks": (lambda n: 95.0 + 5 * n, {}, {32: 32 / 255, 64: 64 / 415}),
    "between points it is interpolated": ([1.0, 1.1, 1.32], {"ranks": (1, 2, 4)}, {2: 2 / 1.1, 4: 4 / 1.32}),
    "a curve that got faster goes on level": ([1.2, 1.1, 1.0], {"ranks": (1, 2, 4)}, {8: 8 / 1.0}),
}


@pytest.mark.parametrize(("steps_s", "details", "expected"), NEXT.values(), ids=NEXT)
def test_how_a_curve_goes_on(steps_s, details, expected):
    assert predicted(curve(steps_s, **details), *expected).images_per_s == pytest.approx([*expected.values()])


def test_the_interval_of_one_and_two_doublings_by_hand():
    """A reach of 0.18 at one doubling, of 0.18 sqrt((1 + 2 x 4) / 3) = 0.18 sqrt 3 at two."""
    result = predicted(curve([1.0, 1.1, 1.2], (1, 2, 4)), 8, 16)
    reach = [math.exp(0.18), math.exp(0.18 * math.sqrt(3))]
    assert result.low[0] == pytest.approx(8 / 1.3 / reach[0])
    assert result.high == pytest.approx([8 / 1.3 * reach[0], 16 / 1.4 * reach[1]])


@pytest.mark.parametrize("growth", [0.05, 0.3])
def test_the_scatter_of_a_curve_counts_if_it_is_larger_than_that_of_the_public_curves(growth):
    """Student's t of 90 % with 3 degrees is 2.353; the residuals of growths of 0.3, 0, 0.3, 0 are 0.1 or so."""
    steps_s = np.exp(np.cumsum([0, growth, 0, growth, 0]))
    columns = np.column_stack([np.ones(5), np.arange(5)])
    coefficients = np.linalg.lstsq(columns / steps_s[:, None], np.ones(5), rcond=None)[0]
    scatter = 2.353 * math.sqrt((np.log(steps_s / (columns @ coefficients)) ** 2).sum() / 3)
    uneven = predicted(curve(steps_s), 32)
    assert math.log(uneven.high[0] / uneven.images_per_s[0]) == pytest.approx(max(scatter, 0.18), rel=1e-3)
    assert (scatter > 0.18) == (growth > 0.1)


def test_above_the_ideal_only_where_measured_points_are():
    """Steps that get 10 % shorter at each doubling may go on so: 0.9^5 on 32 ranks; ideal is 1."""
    gaining = predicted(curve(lambda n: 0.9 ** math.log2(n)), 32)
    assert gaining.low[0] < 32 / 0.9**5 < gaining.high[0]
    level = predicted(curve(lambda n: 1.0), 32)
    assert level.images_per_s[0] == 32
    assert level.high[0] == pytest.approx(32 * math.exp(0.18 / math.sqrt(3)))  # the noise of the base


# 10 images/s a rank on up to 16 ranks: 320 on 32; on 64 it may still be 160.
@pytest.mark.parametrize(
    ("may_saturate", "ranks", "beyond", "least"), [(False, 32, 64, 260), (True, 16, 24, 140)], ids=["ring", "server"]
)
def test_the_lower_end_is_at_most_the_rate_of_the_largest_point_beyond(may_saturate, ranks, beyond, least):
    result = predicted(curve(lambda n: 0.1, may_saturate=may_saturate), ranks, beyond)
    assert result.images_per_s == pytest.approx([10 * ranks, 10 * beyond])
    assert result.low[0] > least
    assert 100 < result.low[1] < 160


# 0.1 s a step on 1 to 4 ranks.
@pytest.mark.parametrize(
    ("details", "high"),
    [
        ({"link_s": 0.64, "ranks_per_node": 2.0}, 32 / 1.2),  # 2 x 15/16 x 0.64 s on 16 nodes
        ({"ring_s": 0.32}, 32 / 0.62),  # 2 x 31/32 x 0.32 s
        ({"image_s": 1 / 10.1}, 32 * 10.1),
        ({"compute_s": 0.1}, 32 / 0.1),
    ],
    ids=["an emulated link", "the streams between ranks", "the products of matrices", "a step without allreduce"],
)
def test_measured_bounds_limit_the_prediction(details, high):
    assert predicted(curve([0.1] * 3, (1, 2, 4)), 32).high[0] > 32 * 10.2  # as points scatter
    assert predicted(curve([0.1] * 3, (1, 2, 4), **details), 32).high == pytest.approx([high])


@given(st.lists(st.floats(1.0, 1.5), min_size=3, max_size=6), st.sampled_from([1.0, 4.0, math.nan]), st.integers(0, 4))
def test_no_value_is_negative_or_outside_its_interval_or_gains_on_fewer_ranks(times, per_node, doublings):
    measured = curve(times, ranks=2.0 ** np.arange(len(times)), ranks_per_node=per_node)
    at = sizes(measured, measured.largest * 2.0 ** np.arange(doublings + 1))
    result = predict(measured, at, LEARNED)
    assert (result.low > 0).all()
    assert (result.low <= result.images_per_s).all()
    assert (result.images_per_s <= result.high).all()
    rate = result.images_per_s / at.ranks
    assert (np.diff(rate) <= 1e-9 * rate[:-1]).all()


@pytest.mark.parametrize(
    ("measured", "ranks", "reason"),
    [
        (curve(logarithmic), 256, ""),  # four doublings; nodes are not known
        (curve(logarithmic), 512, "5 doublings beyond 16 ranks, at most 4 can be carried"),
        (curve(logarithmic, ranks=(4, 8)), 16, "2 numbers of ranks measured, at least 3 are needed"),
        (curve([], ranks=()), 256, "no numbers of ranks measured, at least 3 are needed"),
        (curve(logarithmic, ranks_per_node=32.0), 32, ""),
        (curve(logarithmic, ranks_per_node=8.0), 32, ""),
        (curve(logarithmic, ranks_per_node=16.0), 32, "no point on two nodes or more: all are on one node of 16 ranks"),
        (curve(logarithmic, ranks=(4, 8, 16)), 2, "fewer ranks than the smallest point (4)"),
        (curve(logarithmic, obstacles=(Obstacle("ranks shared cores", (16,)),)), 32, "ranks shared cores: 16 ranks"),
    ],
)
def test_what_a_curve_cannot_carry_is_reported(measured, ranks, reason):
    assert why_not(measured, ranks, 1) == reason


def test_strong_scaling_needs_two_batches_and_an_image_for_each_rank():
    assert "two batches per rank" in why_not(curve(logarithmic, batch=[8.0] * 5), 32, 2)
    shrinking = curve([2.1, 1.2, 0.8, 0.6], ranks=(1, 2, 4, 8), batch=[16, 8, 4, 2])
    assert why_not(shrinking, 16, 1) == ""
    assert why_not(shrinking, 32, 0.5) == "a global batch of 16 leaves some of 32 ranks without an image"
