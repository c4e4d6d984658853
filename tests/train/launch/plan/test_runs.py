import pytest

from tests.helpers.launches import planned, points_of
from train.launch.plan import curves
from train.launch.plan.runs import Durations, differing_keys, expected_s, runs_of
from train.record.record import Order

ASKED = ("experiment=weak_scaling", "model=tiny", "nodes=1,2,3,4", "measure.repeats=3")


def test_every_repeat_has_all_points_in_an_order_drawn_from_the_seed():
    plan = planned(*ASKED, "seed=7")
    runs = runs_of(plan.points, plan.launcher)
    assert [run.repeat for run in runs] == [0] * 4 + [1] * 4 + [2] * 4
    orders = [[run.point.config.nodes for run in runs[first : first + 4]] for first in (0, 4, 8)]
    assert all(sorted(order) == [1, 2, 3, 4] for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert [run.order for run in runs] == [Order(7, position, 12) for position in range(12)]


def test_curves_take_turns_and_come_before_single_points():
    plan = planned("experiment=weak_scaling", "model=tiny,resnet50", "nodes=2")
    nested = curves.design(plan.points, 2)
    runs = runs_of([*nested.points, *nested.curves], plan.launcher)
    names = [run.point.name for run in runs]
    assert [set(names[first : first + 2]) for first in (0, 4, 6)] == [{"tiny-rounds", "resnet50-rounds"}] * 3
    assert set(names[2:4]) == {"tiny-nodes1", "resnet50-nodes1"}
    assert [run.repeat for run in runs] == [0] * 4 + [1, 1, 2, 2]


def test_the_order_is_the_same_at_each_call_and_differs_between_seeds():
    def order(seed: int) -> list[str]:
        plan = planned(*ASKED, f"seed={seed}")
        return [run.label for run in runs_of(plan.points, plan.launcher)]

    assert order(0) == order(0)
    assert order(0) != order(1)


def test_under_slurm_the_order_is_fixed():
    slurm = (*ASKED, "launcher=slurm", "system.cores_per_node=4", "measure.repeats=2")
    small, large = (planned(*slurm, f"launcher.order={first}_first") for first in ("small", "large"))
    runs = runs_of(small.points, small.launcher)
    assert [run.point.config.nodes for run in runs] == [1, 2, 3, 4] * 2
    assert runs[5].order == Order(None, 5, 8)
    assert [run.point.config.nodes for run in runs_of(large.points, large.launcher)] == [4, 3, 2, 1] * 2


def test_a_run_is_expected_to_take_what_its_point_took_or_all_points():
    plan = planned(*ASKED)
    first, second, *_ = sorted(runs_of(plan.points, plan.launcher), key=lambda run: run.point.name)
    known = Durations()
    assert expected_s(second, known) is None
    known.add(first, 10.0)
    known.add(first, 20.0)
    assert expected_s(first, known) == 15
    assert expected_s(second, known) == 15


def test_how_long_rounds_took_says_nothing_of_a_single_point():
    plan = planned("experiment=weak_scaling", "model=tiny", "nodes=2")
    nested = curves.design(plan.points, 2)
    single, *_ = runs_of(nested.points, plan.launcher)
    in_rounds, *_ = runs_of(nested.curves, plan.launcher)
    known = Durations()
    assert expected_s(in_rounds, known) == 220 / 3  # its share of the budget of the curve
    known.add(in_rounds, 200.0)
    assert expected_s(in_rounds, known) == 200
    assert expected_s(single, known) is None


def test_a_point_says_what_the_experiment_sweeps():
    [point] = points_of("experiment=weak_scaling", "model=alexnet_67", "nodes=2")[1:]
    assert point.swept == {"model": "alexnet_67", "nodes": 2}  # the file, whose model is called alexnet
    assert point.config.model.name == "alexnet"
    assert (point.arm, point.arm_keys) == (None, ())


def test_a_key_swept_on_the_command_line_is_swept_too():
    points = points_of("experiment=batch_sweep", "model=tiny", "batch_per_rank=4", "optimizer.momentum=0,0.9")
    assert [point.swept for point in points] == [
        {"model": "tiny", "batch_per_rank": 4, "optimizer.momentum": momentum} for momentum in (0.0, 0.9)
    ]


def test_an_arm_that_sets_a_swept_key_decides_its_value():
    points = points_of("experiment=network_sweep", "model=alexnet_67", no_quotas=None)
    assert [(point.arm, point.swept["system.link_mbit_per_s"]) for point in points[:3]] == [
        ("with-allreduce", 100.0),
        ("without-allreduce", None),
        ("one-node", None),
    ]
    assert points[0].arm_keys == ("distribution.allreduce", "system.link_mbit_per_s", "nodes")


def test_the_controls_of_emulated_nodes_have_names_but_the_experiment_no_arms():
    points = points_of("experiment=weak_scaling", "model=tiny", "nodes=3", no_quotas=None)
    assert {point.arm for point in points} == {None, "without-allreduce"}
    assert {point.arm_keys for point in points} == {()}


@pytest.mark.parametrize(
    ("arms", "keys"),
    [
        ({}, ()),
        ({"one": ["nodes=1"], "two": ["nodes=2"]}, ("nodes",)),
        ({"one": ["nodes=2", "seed=1"], "two": ["nodes=2"]}, ("seed",)),  # all have two nodes
        (
            {
                "one-rank-without-horovod": ["nodes=1", "distribution=none"],
                "one-rank-with-horovod": ["nodes=1"],
                "two-ranks-without-allreduce": ["nodes=2", "distribution.allreduce=false"],
                "two-ranks-with-allreduce": ["nodes=2"],
            },
            ("nodes", "distribution"),
        ),
    ],
)
def test_the_keys_in_which_arms_differ(arms, keys):
    assert differing_keys(arms) == keys
