import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import metrics
from analysis.predict import Doubt, Sizes, ideal, predict, strong, weak, why_not
from tests.helpers.scaling_curves import LEARNED, curve


def rates(of, *ranks):
    return predict(of, weak(of, np.array(ranks, float)), LEARNED).images_per_s


NODES_OF_4 = {"ranks": (1, 2, 4, 8), "ranks_per_node": 4.0}
# By hand: the seconds of a step at each point, what else is known of the curve, and the rates at some numbers of ranks.
NEXT = {
    "the last doubling repeats": ([1.0, 1.1, 1.32], {"ranks": (1, 2, 4)}, {8: 8 / 1.584, 16: 16 / 1.9008}),
    "between points it is interpolated": ([1.0, 1.1, 1.32], {"ranks": (1, 2, 4)}, {2: 2 / 1.1, 4: 4 / 1.32}),
    # Of a ring 0.4 s are 2 x 1 / 2: 0.6 s on four nodes, 0.7 s on eight.
    "a large step to the second node is a ring": ([1.0, 1.0, 1.0, 1.4], NODES_OF_4, {16: 16 / 1.6, 32: 32 / 1.7}),
    "a small step to the second node repeats": ([1.0, 1.0, 1.0, 1.05], NODES_OF_4, {16: 16 / 1.05**2}),
    # 1.4 s on two nodes and 1.47 s on four: 1.05 times as long again. The step before it does not count.
    "from the second node on the last doubling": (
        [1, 1, 1, 1.4, 1.47],
        {"ranks_per_node": 4.0},
        {32: 32 / 1.47 / 1.05},
    ),
    "a curve that got faster goes on level": ([1.0, 1.2, 1.1], {"ranks": (1, 2, 4)}, {8: 8 / 1.1}),
}


@pytest.mark.parametrize(("steps_s", "known", "expected"), NEXT.values(), ids=NEXT)
def test_how_a_curve_goes_on(steps_s, known, expected):
    assert rates(curve(steps_s, **known), *expected) == pytest.approx([*expected.values()])


def test_points_known_to_be_noisy_are_smoothed():
    """Known to within 1 %, the jump at the end counts; known to within 30 %, a straight line through all takes over."""
    times = [1.0, 1.0, 1.0, 1.0, 1.3]
    known, noisy = (rates(curve(times, spread=[s] * 5), 32)[0] for s in (0.01, 0.3))
    assert known == pytest.approx(32 / 1.69, rel=0.02)
    # ln t = 0.2 x (-0.4 + 0.2 x doublings) x ln 1.3 + ... : least squares at 5 doublings: 0.8 ln 1.3 of five points.
    assert noisy == pytest.approx(32 / math.exp(0.8 * math.log(1.3)), rel=0.001)


def test_the_interval_of_one_doubling_by_hand():
    """Three points on a line and one change of growth of 0: (2 x 0.06^2 + 0) / 3, Student's t with 3 degrees, 2.353."""
    result = predict(of := curve([1.0, 1.1, 1.21], (1, 2, 4)), weak(of, np.array([8.0])), LEARNED)
    reach = 2.3534 * math.sqrt(2 * 0.06**2 / 3)
    assert result.low == pytest.approx(8 / 1.331 / math.exp(reach), rel=1e-4)
    assert result.high == pytest.approx(8 / 1.331 * math.exp(reach), rel=1e-4)


def test_a_curve_that_goes_on_unevenly_has_a_wider_interval():
    def width(times):
        result = predict(of := curve(times), weak(of, np.array([32.0])), LEARNED)
        return float(result.high[0] / result.low[0])

    assert width([1, 1.3, 1.3, 1.7, 1.7]) > 1.3 * width([1, 1.1, 1.2, 1.3, 1.4])


def test_beyond_one_doubling_the_lower_end_is_at_most_the_rate_of_the_largest_point():
    """10 images/s a rank on up to 16 ranks: 320 on 32; on 64 nothing excludes that it stays at 160."""
    result = predict(of := curve(lambda n: 0.1), weak(of, np.array([32.0, 64.0])), LEARNED)
    assert result.images_per_s == pytest.approx([320, 640])
    assert result.low[0] > 270
    assert 130 < result.low[1] < 160


def test_where_a_server_may_saturate_that_holds_from_the_largest_point_on():
    result = predict(of := curve(lambda n: 0.1, may_saturate=True), weak(of, np.array([16.0, 24.0])), LEARNED)
    assert result.low[0] > 145
    assert 130 < result.low[1] < 160


def test_the_link_limits_what_is_predicted():
    """1e6 parameters on 32 nodes of 100 Mbit/s: 2 x 31/32 x 32e6 bits / 1e8 = 0.62 s a step at least."""
    slow = {"parameters": 1e6, "link_mbit_per_s": 100.0, "ranks_per_node": 1.0}
    of = curve([0.1, 0.1, 0.1], ranks=(1, 2, 4), **slow)
    result = predict(of, weak(of, np.array([32.0])), LEARNED)
    assert result.high == pytest.approx(32 / metrics.ring_allreduce_min_s(10**6, 32, 100))
    assert result.high == pytest.approx([32 / 0.62])


def test_what_the_jobs_measured_of_processors_and_links_limits_what_is_predicted():
    # 0.1 s a step on 1 to 4 ranks. At most 10.1 images/s a rank; gradients take 2 x 31/32 x 0.32 s = 0.62 s on 32.
    points = {"ranks": (1, 2, 4)}
    free = curve([0.1, 0.1, 0.1], **points)
    at = weak(free, np.array([32.0]))
    assert predict(free, at, LEARNED).high[0] > 32 * 10.2  # as points scatter
    compute = predict(curve([0.1, 0.1, 0.1], **points, compute_limit_images_per_s=10.1), at, LEARNED)
    assert compute.high == pytest.approx([32 * 10.1])
    link = predict(curve([0.1, 0.1, 0.1], **points, ring_s=0.32), at, LEARNED)
    assert link.images_per_s == link.high == pytest.approx([32 / 0.62])


def test_the_step_without_allreduce_limits_it_too():
    of = curve([1.0, 1.5, 1.6, 1.65], ranks=(1, 2, 4, 8), compute_s=1.0)
    assert predict(of, weak(of, np.array([16.0])), LEARNED).high[0] <= 16


@given(st.lists(st.floats(0.9, 1.5), min_size=3, max_size=6), st.sampled_from([1.0, 4.0, math.nan]), st.integers(0, 4))
def test_no_value_is_negative_superlinear_or_outside_its_interval(times, per_node, doublings):
    of = curve(times, ranks=2.0 ** np.arange(len(times)), ranks_per_node=per_node)
    at = weak(of, of.largest * 2.0 ** np.arange(doublings + 1))
    result = predict(of, at, LEARNED)
    assert (result.low > 0).all()
    assert (result.low <= result.images_per_s).all()
    assert (result.images_per_s <= result.high).all()
    assert (result.images_per_s <= ideal(of, at) * (1 + 1e-12)).all()
    of_rank = result.images_per_s / at.ranks
    assert (np.diff(of_rank) <= 1e-9 * of_rank[:-1]).all()


def gentle(n):
    return 1 + 0.05 * math.log2(n)


def why(of, ranks):
    return why_not(of, weak(of, np.array([float(ranks)])))[0]


def test_a_sound_curve_carries_four_doublings_and_no_more():
    of = curve(gentle)
    assert why(of, 256) == ""
    assert why(of, 512) == "5 doublings beyond 16 ranks, at most 4 can be carried"


@pytest.mark.parametrize(
    ("of", "ranks", "reason"),
    [
        (curve(gentle, ranks=(4, 8)), 16, "2 numbers of ranks measured, at least 3 are needed"),
        (curve(gentle, ranks_per_node=16.0), 32, "no point on two nodes or more: all are on one node of 16 ranks"),
        (curve(gentle, ranks=(4, 8, 16)), 2, r"fewer ranks than the smallest point \(4\)"),
        (curve(gentle, doubts=(Doubt("ranks shared cores", (16,)),)), 32, "ranks shared cores: 16 ranks"),
    ],
)
def test_what_a_curve_cannot_carry_is_reported(of, ranks, reason):
    assert re.fullmatch(reason, why(of, ranks))


def test_within_a_node_and_across_nodes_that_were_measured_is_carried():
    assert why(curve(gentle, ranks_per_node=32.0), 32) == ""
    assert why(curve(gentle, ranks_per_node=8.0), 32) == ""
    assert why(curve(gentle), 32) == ""  # nodes not known


def test_no_point_at_all_is_reported():
    of = curve([], ranks=())
    assert why_not(of, Sizes(np.array([256.0]), np.ones(1))) == ["no numbers of ranks measured, at least 3 are needed"]


def test_strong_scaling_needs_two_batches_and_an_image_for_each_rank():
    of = curve(gentle, batch=[8.0] * 5)
    assert "two batches per rank" in why_not(of, strong(np.array([32.0]), 64))[0]
    shrinking = curve([2.1, 1.2, 0.8, 0.6], ranks=(1, 2, 4, 8), batch=[16, 8, 4, 2])
    reasons = why_not(shrinking, strong(np.array([16.0, 32.0]), 16))
    assert reasons == ["", "a global batch of 16 leaves some of 32 ranks without an image"]
