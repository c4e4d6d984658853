import pytest

from tests.helpers.launches import points_of
from train.launch.plan.point import differing_keys


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
