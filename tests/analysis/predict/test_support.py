import math

import numpy as np
import pytest

from analysis.predict.points import Doubt, Sizes, strong, weak
from analysis.predict.support import bend, why_not
from tests.helpers.scaling_curves import curve

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
