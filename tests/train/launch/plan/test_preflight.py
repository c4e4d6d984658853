import re

import pytest

from train.config.compose import load
from train.config.schema import ConfigError
from train.launch.plan import preflight
from train.launch.plan.points import expand


def test_the_memory_of_a_rank_adds_up():
    config = load(["model.parameters=1000000", "model.activation_bytes_per_image=2000000", "batch_per_rank=3"])
    # 580 MB for the process, 7 x 4 MB for the weights, 3 x 2 MB for the images
    assert preflight.memory_per_rank_bytes(config) == 614_000_000


def test_too_little_memory_is_said_with_the_estimate():
    config = load(["model=vgg16", "nodes=8", "batch_per_rank=1"])
    assert preflight.memory_shortage(config, 10**12) is None
    # 138 million parameters are 0.52 GiB in fp32: seven copies, the process and the activations are above 4 GiB.
    assert re.match(
        r"8 ranks of about 4\.\d GiB need 3\d\.\d GiB; this machine has 4\.0 GiB free\.",
        preflight.memory_shortage(config, 4 * 2**30),
    )


def test_gpus_that_are_not_there_are_said():
    config = load(["experiment=weak_scaling", "model=resnet50", "nodes=2", "device=gpu"])
    preflight.check_gpus(config, "resnet50-nodes2", needed=2, there=2, source="nvidia-smi shows")
    with pytest.raises(ConfigError, match="device=gpu: resnet50-nodes2 needs 2 GPUs; nvidia-smi shows 1"):
        preflight.check_gpus(config, "resnet50-nodes2", needed=2, there=1, source="nvidia-smi shows")


def test_shared_cores_are_said_before(monkeypatch):
    monkeypatch.setattr(preflight.placement, "usable_cores", lambda: [0, 1])
    points = expand(["experiment=weak_scaling", "model=resnet50", "nodes=4"], 2)
    (warning,) = preflight.warnings(points, {})
    assert warning.startswith("2 cores are too few for resnet50-nodes4:")
    assert preflight.warnings(points[:2], {"SLURM_JOB_ID": "1"}) == []
    (warning,) = preflight.warnings(points, {}, "no control groups here")
    assert warning.endswith("cannot be had here: no control groups here")


def test_emulated_nodes_share_no_cores_and_are_named(monkeypatch):
    monkeypatch.setattr(preflight.placement, "usable_cores", lambda: [0, 1])
    points = expand(["experiment=weak_scaling", "model=resnet50", "nodes=8"], 2, no_quotas=None)
    assert preflight.warnings(points, {}) == []
    assert preflight.emulation(points[0].config).startswith("Nodes are emulated: each is held to 20 % of a core")
    assert preflight.emulation(load([])) is None


def test_networks_that_cannot_be_made_are_said():
    points = expand(["experiment=network_sweep", "model=tiny"], 2, no_quotas=None)
    preflight.check_networks(points, None)
    with pytest.raises(ConfigError, match="separate_networks=True: network namespaces need root"):
        preflight.check_networks(points, "network namespaces need root")


def test_variables_that_the_hash_does_not_see_are_said_before():
    replaced, kept = preflight.warnings(
        [], {"HOROVOD_CYCLE_TIME": "5", "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CLI_ARGS": "x"}
    )
    assert replaced.startswith("HOROVOD_CYCLE_TIME: set in your environment, but the configuration decides")
    assert "distribution.cycle_time_ms" in replaced
    assert kept.startswith("TF_ENABLE_ONEDNN_OPTS=0: set in your environment.")
