import math
from dataclasses import replace

import pytest

from analysis.predict import SHARED_CORES, Obstacle, next_points, sizes
from analysis.predict.next_points import NextPoint
from tests.helpers.scaling_curves import LEARNED, curve, logarithmic


def proposed(measured, target, **more):
    return next_points.next_points(measured, sizes(measured, [target]), LEARNED, **more)


@pytest.mark.parametrize(("ranks", "target"), [((1, 2, 4), 64), ((1, 2, 4, 8), 128)])
def test_the_points_narrow_the_interval_and_cost_less_than_the_target_itself(ranks, target):
    result = proposed(curve(logarithmic, ranks), target)
    assert 1 <= len(result) <= 2
    assert ranks[-1] < result[0].ranks < target
    assert all(ranks[-1] < point.ranks <= target for point in result)
    assert all(point.after < point.before for point in result)


def test_what_a_point_costs_worked_by_hand():
    """Batch 2, 1.5 s a step on 8 ranks of 4 a node: 2 nodes x 6 launches x (5 s + 110 steps x 1.5 s) / 3600."""
    measured = curve(lambda n: 1.5, (1, 2, 4), ranks_per_node=4.0, batch=[2.0] * 3)
    (first, *_) = proposed(measured, 8, fixed_s=5.0)
    assert (first.ranks, first.nodes) == (8, 2)
    assert first.node_hours == pytest.approx(2 * 6 * 170 / 3600)
    assert math.isnan(first.before)  # 8 ranks were not supported: no point on two nodes


def test_two_points_become_three_first_and_nothing_is_proposed_where_points_do_not_help():
    first, *_ = proposed(curve(logarithmic, (1, 2)), 16)
    assert math.isnan(first.before)
    assert math.isfinite(first.after)
    assert proposed(curve(logarithmic, obstacles=(Obstacle("ranks shared cores"),)), 64) == []
    assert proposed(curve(logarithmic), 16) == []  # all sizes up to the target are measured


POINTS = [NextPoint(16, 4, 1.25, 2.0, 1.5), NextPoint(32, 8, math.nan, math.nan, 1.2)]


def test_the_command_measures_the_largest_point_as_the_others_were_measured():
    measured = curve(logarithmic, ranks_per_node=4.0, batch=[32.0] * 5)
    expected = "make weak-scaling NODES=8 MODELS=resnet50 MEASURE=report 'ARGS=ranks_per_node=4 batch_per_rank=32'"
    assert next_points.command(measured, POINTS, "weak_scaling") == expected
    unnamed = replace(curve(logarithmic), model="", measure="quick")
    assert next_points.command(unnamed, POINTS[:1], "strong_scaling") == "make strong-scaling NODES=4"
    typed = ["make", "scaling", "COMMAND=mpirun -np {ranks} ./solver", "NODES=2", "FORCE=1", "RATE=x: {rate}"]
    expected = "make scaling 'COMMAND=mpirun -np {ranks} ./solver' 'RATE=x: {rate}' NODES=8"
    assert next_points.command(curve(logarithmic), POINTS, "scaling", typed) == expected


def test_points_that_the_machine_has_no_room_for_are_not_proposed():
    measured = curve(logarithmic, (1, 2), max_nodes=4.0)
    assert [point.ranks for point in proposed(measured, 16)] == [4]
    assert next_points.full(measured, "weak_scaling") == ""  # there is room for 4
    filled = replace(measured, max_nodes=2.0, finer_nodes=8)
    assert proposed(filled, 16) == []
    assert next_points.full(filled, "weak_scaling").endswith("this one:\n    make weak-scaling MODELS=resnet50 NODES=8")
    enough = curve(logarithmic, (1, 2, 4), max_nodes=4.0, finer_nodes=16)
    elsewhere = "need more hosts (docs/clusters.md): make weak-scaling MODELS=resnet50 NODES=8 LAUNCHER=ssh HOSTS=..."
    assert " ".join(next_points.full(enough, "weak_scaling").split()).endswith(elsewhere)
    crowded = replace(enough, obstacles=(Obstacle(SHARED_CORES, (4,)),), max_nodes=2.0)
    assert next_points.full(crowded, "weak_scaling").endswith("resnet50 NODES=4 LAUNCHER=ssh HOSTS=...")
    disturbed = replace(filled, obstacles=(Obstacle("the control without allreduce is off"),))
    assert next_points.full(disturbed, "weak_scaling") == ""
