import re

import pytest

from tests.helpers.launches import planned, points_of
from train.config.checks import ConfigError
from train.config.compose import load
from train.launch.plan import preflight
from train.launch.plan.launcher import Gpus
from train.launch.plan.machine import Machine


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


def test_memory_is_counted_per_host_where_hosts_are_apart():
    config = load(["model=vgg16", "nodes=8", "batch_per_rank=1"])
    assert preflight.memory_shortage(config, 5 * 2**30, hosts_apart=True) is None
    shortage = preflight.memory_shortage(config, 2**30, hosts_apart=True)
    assert re.match(r"1 ranks of about .* a host has 1\.0 GiB free\. Take fewer ranks_per_node", shortage)


def test_too_few_gpus_are_an_error(monkeypatch):
    plan = planned("experiment=weak_scaling", "model=resnet50", "nodes=2", "device=gpu")
    monkeypatch.setattr(plan.launcher, "gpus", lambda config: [Gpus(config.ranks, 2, "NVIDIA's driver shows")])
    preflight.check(plan.points, plan.launcher)
    monkeypatch.setattr(plan.launcher, "gpus", lambda config: [Gpus(config.ranks, 1, "NVIDIA's driver shows")])
    with pytest.raises(ConfigError, match="device=gpu: resnet50-nodes2 needs 2 GPUs; NVIDIA's driver shows 1"):
        preflight.check(plan.points, plan.launcher)


def test_shared_cores_are_warned_of(monkeypatch):
    monkeypatch.setattr(preflight.placement, "usable_cores", lambda: [0, 1])
    points = points_of("experiment=weak_scaling", "model=resnet50", "nodes=4")
    (warning,) = preflight.crowded(points, Machine(2))
    assert warning.startswith("2 cores are too few for resnet50-nodes4:")
    assert preflight.crowded(points[:2], Machine(2)) == []
    (warning,) = preflight.crowded(points, Machine(2, "no control groups here"))
    assert warning.endswith("are not available here: no control groups here")


def test_emulated_nodes_share_no_cores(monkeypatch):
    monkeypatch.setattr(preflight.placement, "usable_cores", lambda: [0, 1])
    points = points_of("experiment=weak_scaling", "model=resnet50", "nodes=8", no_quotas=None)
    assert preflight.crowded(points, Machine(2)) == []


def test_variables_that_the_hash_does_not_see_are_warned_of():
    replaced, kept = preflight.tuned({"HOROVOD_CYCLE_TIME": "5", "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CLI_ARGS": "x"})
    assert replaced.startswith("HOROVOD_CYCLE_TIME: set in your environment, but the configuration decides")
    assert "distribution.cycle_time_ms" in replaced
    assert kept.startswith("TF_ENABLE_ONEDNN_OPTS=0: set in your environment.")
    assert preflight.tuned({"SLURM_JOB_ID": "1"}) == []


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("HOROVOD_GLOO_IFACE", "launcher.interface"),
        ("HOROVOD_CONTROLLER", "distribution.controller"),
        ("HOROVOD_CPU_OPERATIONS", "distribution.controller"),
    ],
)
def test_a_variable_that_the_ranks_replace_names_the_key_of_the_configuration(variable, key):
    [said] = preflight.tuned({variable: "x"})
    assert said == f"{variable}: set in your environment, but the configuration decides: {key}"


def test_a_precision_that_the_processor_emulates_is_warned_of_with_what_it_lacks():
    points = points_of("experiment=weak_scaling", "model=tiny", "nodes=2", "precision=bf16")
    [said] = preflight.emulated_precision(points, {"a": ["avx2", "fma"], "b": ["amx_bf16"], "c": ["avx2"]})
    assert "precision=bf16 is emulated on a, c" in said
    assert "neither AVX512_BF16 nor AMX_BF16" in said
    assert "tiny-nodes1, tiny-nodes2" in said
    assert preflight.emulated_precision(points, {"a": ["avx2", "amx_bf16"]}) == []
    assert preflight.emulated_precision(points, {}) == []  # not known beforehand
    assert preflight.emulated_precision(points_of("experiment=weak_scaling", "model=tiny"), {"a": ["avx2"]}) == []


def test_results_that_cannot_be_written_are_an_error_before_anything_starts(tmp_path):
    preflight.check_results(tmp_path / "new" / "results")
    assert (tmp_path / "new" / "results").is_dir()
    (tmp_path / "file").write_text("")
    for wrong, why in ((tmp_path / "file", "a file"), (tmp_path / "file" / "results", "Not a directory")):
        with pytest.raises(ConfigError, match=f"results={wrong}: {why}; give a folder in which records can be"):
            preflight.check_results(wrong)
