import pytest

from train.config import experiment
from train.config.checks import ConfigError


def test_the_command_line_adds_keys_to_the_sweep_of_the_experiment():
    read = experiment.read(["experiment=weak_scaling", "nodes=4", "seed=1,2"])
    assert read.swept == ["model", "nodes", "seed"]
    assert read.plain == ["experiment=weak_scaling", "nodes=4"]
    assert read.choices("nodes") == ["nodes=1", "nodes=2", "nodes=4"]
    assert read.choices("seed") == ["seed=1", "seed=2"]


def test_a_single_value_replaces_a_sweep():
    read = experiment.read(["experiment=weak_scaling", "model=tiny"])
    assert read.choices("model") == ["model=tiny"]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["experiment=weak_scaling", "nodes=3,8"], 8),
        (["experiment=overhead", "nodes=8"], 2),  # its arms have two at most
        (["experiment=batch_sweep", "nodes=3"], 3),
        (["experiment=weak_scaling", "nodes=4", "distribution=ps", "distribution.servers_on=workers,nodes"], 5),
        (["experiment=strategies", "nodes=2", "distribution.servers_on=nodes", "distribution.servers=2"], 4),
        (["experiment=weak_scaling", "nodes=4", "distribution.servers_on=nodes"], 4),  # Horovod has none
    ],
)
def test_the_largest_number_of_nodes_is_that_of_the_points(overrides, expected):
    assert experiment.read(overrides).max_nodes == expected


def test_no_nodes_are_an_error():
    with pytest.raises(ConfigError, match="nodes=0: must be 1 or more"):
        _ = experiment.read(["experiment=weak_scaling", "nodes=0"]).max_nodes


def test_emulated_nodes_get_the_smaller_models_unless_one_is_asked_for():
    read = experiment.read(["experiment=weak_scaling", "launcher=local"])
    smaller = experiment.with_launcher(read, "emulated", emulated=True)
    assert smaller.choices("model") == ["model=alexnet_67", "model=googlenet_64"]
    assert smaller.composed.launcher.name == "emulated"
    asked = experiment.read(["experiment=weak_scaling", "model=tiny"])
    assert experiment.with_launcher(asked, "emulated", emulated=True).choices("model") == ["model=tiny"]
