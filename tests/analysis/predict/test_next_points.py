from dataclasses import replace

import pytest

from analysis.predict import SHARED_CORES, Obstacle, next_points
from tests.helpers.scaling_curves import curve, logarithmic


@pytest.mark.parametrize(
    ("measured", "target", "ranks"),
    [
        (curve(logarithmic, (1, 2, 4)), 64, 8),
        (curve(logarithmic, (1, 2, 4), ranks_per_node=8.0), 8, 8),
        (curve(logarithmic, (1, 2, 4), ranks_per_node=8.0), 32, 16),  # no point on two nodes
        (curve(logarithmic), 16, None),  # measured
        (curve(logarithmic, obstacles=(Obstacle("ranks shared cores"),)), 64, None),
        (curve(logarithmic, (1, 2), max_nodes=2.0), 16, None),
    ],
)
def test_the_next_doubling_is_measured_next_if_it_helps_and_the_machine_has_room(measured, target, ranks):
    point = next_points.next_point(measured, (target,))
    assert (point and point.ranks) == ranks


def test_what_a_point_costs_worked_by_hand():
    """Batch 2, 1.5 s a step on 8 ranks of 4 a node: 2 nodes x 6 launches x (5 s + 110 steps x 1.5 s) / 3600."""
    measured = curve(lambda n: 1.5, (1, 2, 4), ranks_per_node=4.0, batch=[2.0] * 3)
    point = next_points.next_point(measured, (8,), fixed_s=5.0)
    assert (point.ranks, point.nodes) == (8, 2)
    assert point.node_hours == pytest.approx(2 * 6 * 170 / 3600)


def advice(measured, experiment="weak_scaling", typed=(), to=64):
    return " ".join(next_points.advice(measured, (to,), experiment, typed).split())


def test_the_command_measures_the_point_as_the_others_were_measured():
    measured = curve(logarithmic, ranks_per_node=4.0, batch=[32.0] * 5)
    expected = "make weak-scaling MODELS=resnet50 MEASURE=report NODES=8 'ARGS=ranks_per_node=4 batch_per_rank=32'"
    assert advice(measured).endswith(expected)
    unnamed = replace(curve(logarithmic), model="", measure="quick")
    assert advice(unnamed, "strong_scaling").endswith("make strong-scaling NODES=32")
    typed = ["make", "scaling", "COMMAND=mpirun -np {ranks} ./solver", "NODES=2", "FORCE=1", "RATE=x: {rate}"]
    expected = "make scaling 'COMMAND=mpirun -np {ranks} ./solver' 'RATE=x: {rate}' NODES=32"
    assert advice(curve(logarithmic), "scaling", typed).endswith(expected)
    assert advice(measured, "").endswith("32 ranks (8 nodes, about 1.8 node hours).")  # that the kit cannot measure


def test_a_machine_without_room_for_more_is_said_to_need_hosts():
    measured = curve(logarithmic, (1, 2, 4), max_nodes=8.0, measure="quick")
    assert advice(measured, to=4) == ""  # there is room for 8
    full = replace(measured, max_nodes=4.0)
    elsewhere = "need more hosts (docs/clusters.md): make weak-scaling MODELS=resnet50 NODES=8 LAUNCHER=ssh HOSTS=..."
    assert advice(full).endswith(elsewhere)
    crowded = replace(full, obstacles=(Obstacle(SHARED_CORES, (4,)),), max_nodes=2.0)
    assert advice(crowded).endswith("resnet50 NODES=4 LAUNCHER=ssh HOSTS=...")
    assert advice(replace(full, obstacles=(Obstacle("the control without allreduce is off"),))) == ""
