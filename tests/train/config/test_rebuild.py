import json

import pytest

from train.config.checks import ConfigError
from train.config.compose import load
from train.config.identity import config_hash, rebuild, values


@pytest.mark.parametrize(
    "overrides",
    [
        ["experiment=strong_scaling", "nodes=2", "system.cores_per_node=2"],
        ["experiment=weak_scaling", "nodes=4"],
        ["experiment=fixed_work", "nodes=2"],
        ["experiment=allreduce_bench", "nodes=2"],
        ["experiment=fruit", "dataset.data_dir=/data", "container=podman", "weights=none"],
        ["experiment=network_sweep", "system.link_mbit_per_s=100"],
    ],
)
def test_a_configuration_is_rebuilt_from_its_values_as_json(overrides):
    config = load(overrides)
    again = rebuild(json.loads(json.dumps(values(config))))
    assert again == config
    assert config_hash(again) == config_hash(config)


def test_rebuilt_values_are_checked():
    result = values(load([]))
    with pytest.raises(ConfigError, match="nodes=0: must be 1 or more"):
        rebuild(result | {"nodes": 0})
    with pytest.raises(
        ConfigError, match=r"does not fit train/config/schema.py here: Expected `int`, got `str`.*nodes"
    ):
        rebuild(result | {"nodes": "two"})
    del result["device"]
    with pytest.raises(ConfigError, match="missing required field `device`"):
        rebuild(result)
