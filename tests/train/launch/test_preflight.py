import pytest

from train.launch import preflight
from train.launch.points import expand
from train.schema import ConfigError


def test_the_memory_of_a_rank_adds_up():
    config = expand(["experiment=weak_scaling", "model=vgg16", "nodes=1", "batch_per_rank=3"], 2)[0].config
    weights = 7 * 4 * 138_357_544
    expected = 580_000_000 + weights + 3 * config.model.activation_bytes_per_image
    assert preflight.memory_per_rank_bytes(config) == expected


def test_too_little_memory_is_said_with_the_estimate():
    points = expand(["experiment=weak_scaling", "model=vgg16", "nodes=8"], 2)
    preflight.check_memory(points, 10**12)
    with pytest.raises(
        ConfigError, match=r"vgg16-nodes\d: \d ranks of about \d\.\d GiB need .* this machine has 4\.0 GiB"
    ):
        preflight.check_memory(points, 4 * 2**30)


def test_gpus_that_are_not_there_are_said():
    points = expand(["experiment=weak_scaling", "model=resnet50", "nodes=2", "device=gpu"], 2)
    preflight.check_gpus(points, ["H100", "H100"])
    with pytest.raises(ConfigError, match="device=gpu: resnet50-nodes2 needs 2 GPUs; nvidia-smi shows 1"):
        preflight.check_gpus(points, ["H100"])


def test_shared_cores_are_said_before(monkeypatch):
    monkeypatch.setattr(preflight.placement, "usable_cores", lambda: [0, 1])
    points = expand(["experiment=weak_scaling", "model=resnet50", "nodes=4"], 2)
    (warning,) = preflight.warnings(points)
    assert warning.startswith("2 cores are too few for resnet50-nodes4:")
    assert preflight.warnings(points[:2]) == []
