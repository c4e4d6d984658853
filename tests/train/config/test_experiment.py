import pytest

from train.config import experiment


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
