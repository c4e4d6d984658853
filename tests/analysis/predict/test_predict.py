import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.predict import Obstacle, predict, why_not
from tests.helpers.scaling_curves import LEARNED, curve, logarithmic

# By hand: images/s at each number of ranks, and those that follow.
NEXT = {
    "the last doubling goes on": ({1: 100, 2: 180, 4: 300}, {8: 300 / 0.6, 16: 300 / 0.36}),
    "it begins at half of the largest or below": ({1: 10, 4: 40, 6: 48, 8: 60}, {16: 90}),
    "of a factor of three": ({2: 10, 6: 20}, {18: 40}),
    "a rate that falls goes on falling": ({4: 100, 8: 80}, {16: 64}),
    "better than ideal, as measured": ({1: 100, 2: 220}, {4: 484}),
    "between the points, on logarithmic axes": ({1: 100, 4: 225}, {2: 150, 4: 225}),
}


@pytest.mark.parametrize(("rates", "expected"), NEXT.values(), ids=NEXT)
def test_how_a_curve_goes_on(rates, expected):
    measured = curve([n / rate for n, rate in rates.items()], [*rates])
    assert predict(measured, [*expected], LEARNED).images_per_s == pytest.approx([*expected.values()])


def test_the_interval_of_one_and_two_doublings_by_hand():
    """An error of 0.18 at one doubling, of 0.36 at two; there the rate may also stay that of the largest point."""
    measured = curve([1.0, 1.25], (1, 2))  # 1 and 1.6 images/s: 2.56 on 4, 4.096 on 8
    result = predict(measured, [4, 8], LEARNED)
    assert result.low == pytest.approx([2.56 * math.exp(-0.18), 1.6 * math.exp(-0.18)])
    assert result.high == pytest.approx([2.56 * math.exp(0.18), 4.096 * math.exp(0.36)])


def test_a_curve_that_its_own_points_do_not_predict_has_a_wider_interval():
    """100, 180 and 200 images/s: 324 would have followed on 4 ranks; 200^2 / 180 = 222.2 follows on 8."""
    result = predict(curve([1 / 100, 2 / 180, 4 / 200], (1, 2, 4)), [8], LEARNED)
    assert result.images_per_s[0] == pytest.approx(222.2, rel=1e-3)
    assert result.low[0] == pytest.approx(222.2 * 200 / 324, rel=1e-3)


def test_the_errors_of_the_points_themselves_by_hand():
    """2 % at both points of the last doubling: 1.645 sqrt((2 x 2)^2 + 2^2) % = 7.36 % at the next."""
    result = predict(curve([1.0, 1.25], (1, 2), spread=[0.02, 0.02]), [4], LEARNED)
    assert math.log(2.56 / result.low[0]) == pytest.approx(math.hypot(0.18, 0.0736), rel=1e-3)


def test_the_upper_end_is_above_the_ideal_by_the_difference_of_two_points_alone():
    assert predict(curve(lambda n: 1.0), [32, 128], LEARNED).high / [32, 128] == pytest.approx(
        math.exp(0.18 / math.sqrt(3))
    )


def test_where_a_server_may_saturate_the_lower_end_allows_for_it_from_the_largest_point_on():
    measured = curve(lambda n: 0.1, may_saturate=True)  # 160 images/s on 16 ranks
    assert predict(measured, [24], LEARNED).low == pytest.approx([160 * math.exp(-0.18)])
    assert predict(curve(lambda n: 0.1), [24], LEARNED).low == pytest.approx([240 * math.exp(-0.18)])


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
    assert predict(curve([0.1] * 3, (1, 2, 4)), [32], LEARNED).high[0] > 32 * 10.2  # as points scatter
    assert predict(curve([0.1] * 3, (1, 2, 4), **details), [32], LEARNED).high == pytest.approx([high])


@given(st.lists(st.floats(1.0, 1.5), min_size=2, max_size=6), st.sampled_from([1.0, 4.0, math.nan]), st.integers(0, 4))
def test_no_value_is_negative_or_outside_its_interval(times, per_node, doublings):
    measured = curve(times, ranks=2.0 ** np.arange(len(times)), ranks_per_node=per_node)
    result = predict(measured, measured.largest * 2.0 ** np.arange(doublings + 1), LEARNED)
    assert (result.low > 0).all()
    assert (result.low <= result.images_per_s).all()
    assert (result.images_per_s <= result.high).all()


@pytest.mark.parametrize(
    ("measured", "ranks", "reason"),
    [
        (curve(logarithmic), 256, ""),  # four doublings; nodes are not known
        (curve(logarithmic), 512, "5 doublings beyond 16 ranks, at most 4 can be carried"),
        (curve(logarithmic, ranks=(4, 8)), 16, ""),
        (curve(logarithmic, ranks=(4,)), 16, "1 number of ranks measured, at least 2 are needed"),
        (curve([], ranks=()), 256, "no numbers of ranks measured, at least 2 are needed"),
        (curve(logarithmic, ranks_per_node=32.0), 32, ""),
        (curve(logarithmic, ranks_per_node=8.0), 32, ""),
        (curve(logarithmic, ranks_per_node=16.0), 32, "no point on two nodes or more: all are on one node of 16 ranks"),
        (curve(logarithmic, ranks=(4, 8, 16)), 2, "fewer ranks than the smallest point (4)"),
        (curve(logarithmic, obstacles=(Obstacle("ranks shared cores", (16,)),)), 32, "ranks shared cores: 16 ranks"),
        (curve([1, 1, 1], (1, 2, 4), batch=[8, 8, 4]), 8, "both the batch of a rank and the global batch vary"),
        (curve([2, 1, 0.5], (1, 2, 4), batch=[8, 4, 2]), 8, ""),
        (curve([2, 1, 0.5], (1, 2, 4), batch=[8, 4, 2]), 16, "a global batch of 8 leaves some of 16 ranks without"),
    ],
)
def test_what_a_curve_cannot_carry_is_reported(measured, ranks, reason):
    assert why_not(measured, ranks).startswith(reason)
    assert bool(why_not(measured, ranks)) == bool(reason)
