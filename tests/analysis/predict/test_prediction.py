import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import metrics
from analysis.predict.points import Doubt, Sizes, strong, weak
from analysis.predict.prediction import Averaged, average, bend, ideal, predict, why_not
from tests.helpers.scaling_curves import LEARNED, curve


def one(deviation=0.1, doublings=0.0):
    return Averaged(("a",), np.ones(1), np.zeros((1, 1)), np.full((1, 1), deviation), np.array([doublings]))


def test_one_form_without_growth_is_a_normal_distribution():
    assert one().quantile(0.05, 0, 0) == pytest.approx([-0.1645], abs=1e-4)
    assert one().quantile(0.95, 0, 0) == pytest.approx([0.1645], abs=1e-4)


def test_the_error_grows_with_each_doubling_on_its_own_side():
    """3 doublings x 0.1, with 0.4 of the points: 0.5 on the slower side."""
    found = one(0.4, 3.0)
    assert found.quantile(0.95, 0.0, 0.1) == pytest.approx([1.645 * 0.5], abs=1e-3)
    assert found.quantile(0.05, 0.0, 0.1) == pytest.approx([-1.645 * 0.4], abs=1e-3)
    assert found.probability(np.zeros(1), 0.0, 0.1) == pytest.approx([0.5])


def test_forms_that_disagree_widen_the_interval_to_where_they_are():
    both = Averaged(("a", "b"), np.array([0.9, 0.1]), np.array([[0.0], [1.0]]), np.full((2, 1), 0.01), np.zeros(1))
    assert both.value == pytest.approx([0.1])
    assert both.quantile(0.95, 0, 0)[0] == pytest.approx(1.0, abs=0.01)


def test_more_points_narrow_the_interval():
    def width(ranks):
        of = curve(lambda n: 1 + 0.05 * math.log2(n), ranks)
        found = predict(of, weak(of, np.array([16.0])), LEARNED)
        return float(found.high[0] / found.low[0])

    assert width((1, 2, 4, 8, 16)) < width((1, 4, 16)) < width((1, 2, 4))


def test_points_that_scatter_widen_the_interval():
    def width(scatter):
        times = [1 + scatter, 1.05 - scatter, 1.1 + scatter, 1.15 - scatter, 1.2 + scatter]
        found = predict(of := curve(times), weak(of, np.array([32.0])), LEARNED)
        return float(found.high[0] / found.low[0])

    assert width(0.1) > 1.3 * width(0.0)


def test_the_link_limits_what_is_predicted():
    """1e6 parameters on 32 nodes of 100 Mbit/s: 2 x 31/32 x 32e6 bits / 1e8 = 0.62 s a step at least."""
    slow = {"parameters": 1e6, "link_mbit_per_s": 100.0, "ranks_per_node": 1.0}
    of = curve([0.1, 0.1, 0.1], ranks=(1, 2, 4), **slow)
    found = predict(of, weak(of, np.array([32.0])), LEARNED)
    assert found.high == pytest.approx(32 / metrics.ring_allreduce_min_s(10**6, 32, 100))
    assert found.high == pytest.approx([32 / 0.62])


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


def test_where_a_server_may_saturate_the_lower_end_is_the_rate_of_the_largest_point():
    # 10 images/s a rank up to 16 ranks; behind a server no more than 160 on any number beyond.
    ranks, told = (1, 2, 4, 8, 16), {"spread": [0.001] * 5}
    known = predict(of := curve(lambda n: 0.1, ranks, **told), at := weak(of, np.array([16.0, 64.0])), LEARNED)
    unknown = predict(curve(lambda n: 0.1, ranks, may_saturate=True, **told), at, LEARNED)
    assert unknown.low[0] == pytest.approx(known.low[0], rel=0.05)
    assert known.low[1] > 400
    assert 120 < unknown.low[1] < 160
    assert (unknown.high == known.high).all()
    assert (unknown.images_per_s == known.images_per_s).all()


def test_the_step_without_allreduce_limits_it_too():
    of = curve([1.0, 1.5, 1.6, 1.65], ranks=(1, 2, 4, 8), compute_s=1.0)
    assert predict(of, weak(of, np.array([16.0])), LEARNED).high[0] <= 16


@given(
    st.lists(st.floats(0.9, 1.5), min_size=3, max_size=6),
    st.sampled_from([1.0, 4.0, math.nan]),
    st.integers(0, 4),
)
def test_no_value_is_negative_superlinear_or_outside_its_interval(times, per_node, doublings):
    of = curve(times, ranks=2.0 ** np.arange(len(times)), ranks_per_node=per_node)
    at = weak(of, of.largest * 2.0 ** np.arange(doublings + 1))
    found = predict(of, at, LEARNED)
    assert (found.low > 0).all()
    assert (found.low <= found.images_per_s).all()
    assert (found.images_per_s <= found.high).all()
    assert (found.images_per_s <= ideal(of, at) * (1 + 1e-12)).all()
    of_rank = found.images_per_s / at.ranks
    assert (np.diff(of_rank) <= 1e-9 * of_rank[:-1]).all()
    assert all((alone <= ideal(of, at) * (1 + 1e-12)).all() for alone in found.by_form.values())


def test_known_intervals_of_points_tell_the_noise():
    """Points said to be within 1 % count; one said to be within 30 % hardly does."""
    times, spread = [1.0, 1.02, 1.04, 1.06, 1.5], [0.005] * 4 + [0.3]
    believed, doubted = (curve(times, spread=s) for s in ([0.005] * 5, spread))
    at = weak(believed, np.array([16.0]))
    values = [np.exp(average(of, at, LEARNED.weights, LEARNED.noise).value[0]) for of in (believed, doubted)]
    assert values[1] == pytest.approx(1.08, abs=0.02)
    assert values[0] > 1.2


NOISE = 0.015


def gentle(n):
    return 1 + 0.05 * math.log2(n)


def why(of, ranks):
    return why_not(of, weak(of, np.array([float(ranks)])), NOISE)[0]


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
def test_what_a_curve_cannot_carry_is_said(of, ranks, reason):
    import re

    assert re.fullmatch(reason, why(of, ranks))


def test_within_a_node_and_across_nodes_that_were_measured_is_carried():
    assert why(curve(gentle, ranks_per_node=32.0), 32) == ""
    assert why(curve(gentle, ranks_per_node=8.0), 32) == ""
    assert why(curve(gentle), 32) == ""  # nodes not known


def test_no_point_at_all_is_said():
    of = curve([], ranks=())
    assert why_not(of, Sizes(np.array([256.0]), np.ones(1)), NOISE) == [
        "no numbers of ranks measured, at least 3 are needed"
    ]


def test_strong_scaling_needs_two_batches_and_an_image_for_each_rank():
    of = curve(gentle, batch=[8.0] * 5)
    assert "two batches per rank" in why_not(of, strong(np.array([32.0]), 64), NOISE)[0]
    shrinking = curve([2.1, 1.2, 0.8, 0.6], ranks=(1, 2, 4, 8), batch=[16, 8, 4, 2])
    reasons = why_not(shrinking, strong(np.array([16.0, 32.0]), 16), NOISE)
    assert reasons == ["", "a global batch of 16 leaves some of 32 ranks without an image"]


@pytest.mark.parametrize(
    ("step_s", "sign"),
    [
        (lambda n: max(1.0, n / 10), "from 8 to 16 ranks the rate grew only 1.25 times"),
        (lambda n: 1 + 0.04 * n, "a cost that grows with the ranks themselves"),
        (lambda n: 1.2 if n == 16 else 1.0, "16 ranks are slower than the points below say"),
    ],
)
def test_a_curve_that_bends_is_named_by_what_shows_it(step_s, sign):
    assert sign in bend(curve(step_s), NOISE)


@pytest.mark.parametrize(
    "step_s",
    [gentle, lambda n: 1.0, lambda n: n**0.1, lambda n: 1 + 0.4 * (n - 1) / n, lambda n: 1 + 0.15 * (n > 4)],
)
def test_nothing_is_alleged_of_a_curve_that_scales_evenly(step_s):
    assert bend(curve(step_s), NOISE) == ""


def test_the_step_at_the_second_node_is_no_bend():
    """Four ranks a node; the exchange between nodes takes 0.3 r(nodes)."""

    def across(n):
        return gentle(n) + 0.3 * 2 * (1 - 1 / math.ceil(n / 4))

    for ranks in ((1, 2, 4, 8), (1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32)):
        assert bend(curve(across, ranks, ranks_per_node=4.0), NOISE) == ""
    assert bend(curve(lambda n: across(n) + 0.03 * n, (1, 2, 4, 8, 16, 32), ranks_per_node=4.0), NOISE)


def test_noise_alone_bends_hardly_any_curve():
    rng = np.random.default_rng(3)
    named = [
        bool(bend(curve([gentle(2**i) * math.exp(rng.normal(0, 0.03)) for i in range(5)]), NOISE)) for _ in range(200)
    ]
    assert sum(named) / 200 < 0.12  # 0.05 + 0.01 by the levels, and what a small sample adds
