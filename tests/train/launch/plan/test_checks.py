import re
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.helpers.launches import planned, points_of
from train.config.checks import ConfigError
from train.config.compose import load
from train.launch.launchers.base import Gpus, Machine
from train.launch.plan import checks
from train.launch.plan.runs import Point


def test_the_memory_of_a_rank_adds_up():
    config = load(["model.parameters=1000000", "model.activation_bytes_per_image=2000000", "batch_per_rank=3"])
    # 580 MB for the process, 7 x 4 MB for the weights, 3 x 2 MB for the images
    assert checks.memory_per_rank_bytes(config) == 614_000_000


def test_too_little_memory_is_reported_with_the_estimate():
    config = load(["model=vgg16", "nodes=8", "batch_per_rank=1"])
    assert checks.memory_shortage(config, 10**12) is None
    # 138 million parameters are 0.52 GiB in fp32: seven copies, the process and the activations are above 4 GiB.
    assert re.match(
        r"8 ranks of about 4\.\d GiB need 3\d\.\d GiB; this machine has 4\.0 GiB free\.",
        checks.memory_shortage(config, 4 * 2**30),
    )


def test_memory_is_counted_per_host_where_hosts_are_apart():
    config = load(["model=vgg16", "nodes=8", "batch_per_rank=1"])
    assert checks.memory_shortage(config, 5 * 2**30, hosts_apart=True) is None
    shortage = checks.memory_shortage(config, 2**30, hosts_apart=True)
    assert re.match(r"1 ranks of about .* a host has 1\.0 GiB free\. Take fewer ranks_per_node", shortage)


def test_too_few_gpus_are_an_error(monkeypatch):
    plan = planned("experiment=weak_scaling", "model=resnet50", "nodes=2", "device=gpu")
    monkeypatch.setattr(plan.launcher, "gpus", lambda config: [Gpus(config.ranks, 2, "NVIDIA's driver shows")])
    checks.check_points(plan.points, plan.launcher)
    monkeypatch.setattr(plan.launcher, "gpus", lambda config: [Gpus(config.ranks, 1, "NVIDIA's driver shows")])
    with pytest.raises(ConfigError, match="device=gpu: resnet50-nodes2 needs 2 GPUs; NVIDIA's driver shows 1"):
        checks.check_points(plan.points, plan.launcher)


def test_shared_cores_are_warned_of(monkeypatch):
    monkeypatch.setattr(checks.placement, "usable_cores", lambda: [0, 1])
    points = points_of("experiment=weak_scaling", "model=resnet50", "nodes=4")
    (warning,) = checks.crowded(points, Machine(2))
    assert warning.startswith("2 cores are too few for resnet50-nodes4:")
    assert checks.crowded(points[:2], Machine(2)) == []
    (warning,) = checks.crowded(points, Machine(2, "no control groups here"))
    assert warning.endswith("are not available here: no control groups here")


def test_emulated_nodes_share_no_cores(monkeypatch):
    monkeypatch.setattr(checks.placement, "usable_cores", lambda: [0, 1])
    points = points_of("experiment=weak_scaling", "model=resnet50", "nodes=8", no_quotas=None)
    assert checks.crowded(points, Machine(2)) == []


def test_variables_that_the_hash_does_not_see_are_warned_of():
    _, kept = checks.tuned({"HOROVOD_CYCLE_TIME": "5", "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CLI_ARGS": "x"})
    assert kept.startswith("TF_ENABLE_ONEDNN_OPTS=0: set in your environment.")
    assert checks.tuned({"SLURM_JOB_ID": "1"}) == []


def test_a_precision_that_the_processor_emulates_is_warned_of_with_what_it_lacks():
    points = points_of("experiment=weak_scaling", "model=tiny", "nodes=2", "precision=bf16")
    [output] = checks.emulated_precision(points, {"a": ["avx2", "fma"], "b": ["amx_bf16"], "c": ["avx2"]})
    assert "precision=bf16 is emulated on a, c" in output
    assert "neither AVX512_BF16 nor AMX_BF16" in output
    assert "tiny-nodes1, tiny-nodes2" in output
    assert checks.emulated_precision(points, {"a": ["avx2", "amx_bf16"]}) == []
    assert checks.emulated_precision(points, {}) == []  # not known beforehand
    assert checks.emulated_precision(points_of("experiment=weak_scaling", "model=tiny"), {"a": ["avx2"]}) == []


CLASSES = ("freshapples", "freshbanana", "freshoranges", "rottenapples", "rottenbanana", "rottenoranges")


def fruit(root: Path) -> Path:
    """Two training and one test image a class."""
    for folder, count in (("train", 2), ("test", 1)):
        for name in CLASSES:
            (root / folder / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (20, 20)).save(root / folder / name / f"{number}.png")
    return root


def points(folder: Path, *more: str) -> list[Point]:
    given = ["experiment=fruit", f"dataset.data_dir={folder}", "model=tiny", "nodes=2", "batch_per_rank=3", *more]
    return points_of(*given, "dataset.training_samples=null")


def test_points_that_read_the_same_are_checked_once_at_the_largest_global_batch(tmp_path):
    chosen = checks.to_check(points(tmp_path, "dataset.on_damaged=skip,error"))
    assert [(p.config.dataset.on_damaged, p.config.global_batch) for p in chosen] == [("skip", 6), ("error", 6)]


def test_synthetic_data_and_fresh_weights_need_no_check():
    assert checks.to_check(points_of("experiment=weak_scaling", "nodes=2")) == []


def test_data_on_other_hosts_is_left_to_the_ranks(tmp_path):
    (point, *_) = points(tmp_path / "far", "nodes=2")
    assert checks.check_input([point], hosts_apart=True) == [
        f"{point.name}: data and weights are checked by the ranks: "
        f"dataset.data_dir={tmp_path}/far is not on this machine"
    ]


@pytest.mark.slow
def test_what_is_there_is_reported(tmp_path):
    (there, *_) = [p for p in points(fruit(tmp_path / "fruit/unpacked").parent) if p.config.nodes == 2]
    assert checks.check_input([there], hosts_apart=False) == [
        f"fruit in {tmp_path}/fruit: 12 training and 6 validation samples"
    ]


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A function that replaces Python by a program that writes lines to standard error and exits with this status."""

    def replace(lines: int, status: int) -> None:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\nfor i in $(seq {lines}); do echo line $i >&2; done\nexit {status}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return replace


@pytest.mark.slow
def test_what_would_fail_is_reported_in_full(tmp_path, program):
    program(lines=20, status=2)
    with pytest.raises(ConfigError, match=r"\Aline 1\nline 2\n(.*\n)+line 20\Z"):
        checks.check_input(points(tmp_path), hosts_apart=False)


@pytest.mark.slow
def test_a_program_that_breaks_shows_its_last_lines(tmp_path, program):
    program(lines=20, status=1)
    with pytest.raises(ConfigError, match=r"\Aline 9\nline 10\n(.*\n)+line 20\Z"):
        checks.check_input(points(tmp_path), hosts_apart=False)
    program(lines=0, status=1)
    with pytest.raises(ConfigError, match="exit status 1"):
        checks.check_input(points(tmp_path), hosts_apart=False)


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("HOROVOD_CYCLE_TIME", "distribution.cycle_time_ms"),
        ("HOROVOD_GLOO_IFACE", "launcher.interface"),
        ("HOROVOD_CONTROLLER", "distribution.controller"),
        ("HOROVOD_CPU_OPERATIONS", "distribution.controller"),
    ],
)
def test_a_variable_that_the_ranks_replace_names_the_key_of_the_configuration(variable, key):
    [warning] = checks.tuned({variable: "x"})
    assert warning == f"{variable}: set in your environment, but the configuration decides: {key}"
