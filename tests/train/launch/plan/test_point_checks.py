import re
import sys
from contextlib import nullcontext
from operator import attrgetter
from pathlib import Path

import pytest

from record.recorded_config import RankGroup, RoundArm
from tests.helpers.configs import with_values
from tests.helpers.launch_plans import make_plan, plan_points
from tests.helpers.path_programs import write_program
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.measure_config import LaunchPlan
from train.launch.launchers.base import Hardware, Machine
from train.launch.plan import point_checks
from train.launch.plan.planned_runs import PlannedPoint

WEAK = ("experiment=weak_scaling", "model=tiny", "nodes=2")


def test_too_little_memory_is_reported_with_the_estimate():
    sizes = ["model.parameters=1000000", "model.activation_bytes_per_image=2000000"]
    config = load([*sizes, "nodes=1", "batch_per_rank=3"])
    rounds, groups = (RoundArm("a", 1, 1, 5),), (RankGroup({}, 0, 1), RankGroup({"nodes": 2, "global_batch": 6}, 1, 2))
    for changes, estimate_mb in (
        ({}, 614),  # 580 MB for the process, 7 x 4 MB for the weights, 3 x 2 MB for the images
        ({"launch": LaunchPlan(rounds)}, 626),  # 9 x 4, 5 x 2
        ({"launch": LaunchPlan(rounds, groups)}, 622),  # 9 x 4, 3 x 2
        ({"distribution.backward_passes_per_step": 2, "global_batch": 6}, 618),  # 8 x 4, 3 x 2
    ):
        assert point_checks.memory_per_rank_bytes(with_values(config, changes)) == estimate_mb * 10**6
    assert point_checks.memory_per_rank_bytes(load(["experiment=allreduce_bench"])) == 580_000_000
    in_groups = with_values(config, {"launch": LaunchPlan((), groups)})  # of one and two ranks
    assert point_checks.memory_shortage(in_groups, 3 * 614_000_000) is None
    too_little = point_checks.memory_shortage(in_groups, 3 * 614_000_000 - 1)
    assert too_little.startswith("3 ranks of about 0.6 GiB need 1.7 GiB; this machine has 1.7 GiB free. Take fewer nod")
    vgg16 = ["model.parameters=138357544", "model.activation_bytes_per_image=100000000"]
    config = load([*vgg16, "nodes=8", "batch_per_rank=1"])
    assert point_checks.memory_shortage(config, 10**12) is None
    # 138 million parameters are 0.52 GiB in fp32: seven copies, the process and the activations are above 4 GiB.
    on_machine = point_checks.memory_shortage(config, 4 * 2**30)
    assert re.match(r"8 ranks of about 4\.\d GiB need 3\d\.\d GiB; this machine has 4\.0 GiB free\.", on_machine)
    assert point_checks.memory_shortage(config, 5 * 2**30, hosts_apart=True) is None
    on_hosts = point_checks.memory_shortage(config, 2**30, hosts_apart=True)
    assert re.match(r"1 ranks of about .* a host has 1\.0 GiB free\. Take fewer ranks_per_node", on_hosts)


def test_too_few_gpus_are_an_error(monkeypatch):
    plan, checked = make_plan(*WEAK, "device=gpu"), []
    monkeypatch.setattr(plan.launcher, "check_machine", checked.append)
    for gpus, hosts_apart, problem in (
        (2, False, None),
        (1, False, "tiny-nodes2 needs 2 GPUs; this machine has 1. Use fewer nodes or ranks_per_node, or device=cpu"),
        (0, True, "tiny-nodes1 needs 1 GPUs; this machine has 0. Use fewer ranks_per_node, or device=cpu"),
    ):
        monkeypatch.setattr(plan.launcher, "hardware", lambda config, gpus=gpus: [Hardware("this machine", gpus)])
        monkeypatch.setattr(plan.launcher, "hosts_apart", hosts_apart)
        with pytest.raises(ConfigError, match=f"device=gpu: {problem}") if problem else nullcontext():
            point_checks.check_points(plan.points, plan.launcher)
    assert checked[:2] == [point.config for point in plan.points]


def test_shared_cores_are_warned_of(monkeypatch):
    monkeypatch.setattr(point_checks.affinity, "usable_cores", lambda: [0, 1])
    points = plan_points(*WEAK, "nodes=4")
    (warning,) = point_checks.shared_core_warnings(points, Machine(2, "no control groups here"))
    assert warning.startswith("2 cores are too few for tiny-nodes4:")
    assert warning.endswith("are not available here: no control groups here")
    assert point_checks.shared_core_warnings(points, Machine(2))[0].endswith("not valid as scaling results.")
    emulated = plan_points(*WEAK, "nodes=3", no_quotas=None)
    assert point_checks.shared_core_warnings([*points[:2], *emulated], Machine(2)) == []


def test_variables_that_are_set_are_warned_of():
    replaced = {"HOROVOD_CYCLE_TIME": "distribution.cycle_time_ms", "NCCL_SOCKET_IFNAME": "launcher.interface"}
    attrgetter(*point_checks.FROM_CONFIGURATION.values())(load([]))  # they are keys
    tuning = ("HOROVOD_LOG_LEVEL", "TF_X", "OMP_X", "KMP_X", "NCCL_X", "MALLOC_X", "LD_PRELOAD", "PYTHONHASHSEED")
    others = dict.fromkeys(tuning, "7")
    first, second = point_checks.variable_warnings(replaced | others | {"HOROVOD_RANK": "1"})
    decides = "set in your environment, but the configuration decides"
    assert first == f"{', '.join(replaced)}: {decides}: {', '.join(replaced.values())}"
    assert second.startswith(f"{'=7, '.join(others)}=7: set in your environment.")
    assert point_checks.variable_warnings({"SLURM_JOB_ID": "1"}) == []


def test_a_precision_that_the_processor_emulates_is_warned_of_with_what_it_lacks():
    points = plan_points(*WEAK, "precision=bf16")

    def warnings(points=points, **flags_by_host):
        hardware = [Hardware(host, 0, cpu_flags=flags) for host, flags in flags_by_host.items()]
        return point_checks.emulated_precision(points, hardware)

    [text] = warnings(a=["avx2", "fma"], b=["amx_bf16"], c=["avx2"])
    assert "precision=bf16 is emulated on a, c" in text
    assert text.endswith("(tiny-nodes1, tiny-nodes2)")
    assert warnings(a=["avx2", "amx_bf16"]) == warnings(a=None) == []  # not known beforehand
    assert warnings(plan_points(*WEAK), a=["avx2"]) == []


def points(folder: Path, *more: str) -> list[PlannedPoint]:
    overrides = [*WEAK, "dataset=fruit", f"dataset.data_dir={folder}", "batch_per_rank=3", *more]
    return plan_points(*overrides)


def test_points_that_read_the_same_are_checked_once_at_the_largest_global_batch(tmp_path):
    configs = [
        point.config for point in point_checks.points_to_check(points(tmp_path, "dataset.on_damaged=skip,error"))
    ]
    assert [(config.dataset.on_damaged, config.global_batch) for config in configs] == [("skip", 6), ("error", 6)]
    assert point_checks.points_to_check(plan_points(*WEAK)) == []  # synthetic data and fresh weights


def test_data_on_other_hosts_is_left_to_the_ranks(tmp_path, monkeypatch):
    point, *_ = points(tmp_path / "far")
    [output] = point_checks.check_input([point], hosts_apart=True)
    assert output.startswith(f"{point.name}: data and weights are checked by the ranks")
    assert output.endswith(f"dataset.data_dir={tmp_path}/far is not on this machine")
    assert point_checks.cannot_check(point.config, hosts_apart=False) is None
    monkeypatch.setattr(point_checks.importlib.util, "find_spec", lambda name: None)
    assert point_checks.cannot_check(point.config, False) == "there is no TensorFlow outside the container"


LINES = [f"line {number}" for number in range(1, 21)]


def test_a_plan_names_a_folder_of_data_that_is_missing_or_empty(tmp_path):
    for folder, state in ((tmp_path / "none", "is no folder on this machine"), (tmp_path, "is empty")):
        with pytest.raises(ConfigError, match=f"dataset.data_dir={folder} {state}; the ranks read fruit there"):
            point_checks.check_data_folder(load(["dataset=fruit", f"dataset.data_dir={folder}"]))
    sweep = {"allreduce_sweep": load(["experiment=allreduce_bench"]).allreduce_sweep}  # reads nothing
    point_checks.check_data_folder(with_values(load(["dataset=fruit", "dataset.data_dir=/none"]), sweep))
    (tmp_path / "apple").mkdir()
    point_checks.check_data_folder(load(["dataset=fruit", f"dataset.data_dir={tmp_path}"]))
    point_checks.check_data_folder(load([]))


@pytest.mark.parametrize(
    ("status", "lines", "expected"),
    [(2, LINES, LINES), (1, LINES, LINES[8:]), (1, [], ["exit status 1"])],
    ids=["an error of the user in full", "of one that breaks the last lines", "no lines"],
)
def test_an_input_that_would_fail_is_reported(tmp_path, monkeypatch, program, status, lines, expected):
    """Its description is that of tests/train/tools/test_prepare.py."""
    text = "\n".join(lines)
    monkeypatch.setattr(sys, "executable", str(program("python", f"error: {text}" if lines else "", status)))
    both = points(tmp_path)
    with pytest.raises(ConfigError) as error:
        point_checks.check_input(both, hosts_apart=False)
    assert str(error.value).splitlines() == expected
    program("python", "36 training samples\n")
    assert point_checks.check_input(both, hosts_apart=False) == ["36 training samples"]
    command = ("-m", "train.tools.prepare", *both[1].overrides)  # the one with the larger global batch
    assert (tmp_path / "bin/arguments").read_text().split() == [*command]


def test_a_limited_address_space_is_a_warning_and_an_unlimited_one_is_none(monkeypatch):
    monkeypatch.setattr(point_checks.resource, "getrlimit", lambda limit: (900_000 * 1024, -1))
    [warning] = point_checks.limit_warnings()
    assert warning.startswith("ulimit -v is 900000 (0.9 GiB): ")
    monkeypatch.setattr(point_checks.resource, "getrlimit", lambda limit: (point_checks.resource.RLIM_INFINITY, -1))
    assert point_checks.limit_warnings() == []


def test_a_program_that_cannot_start_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").touch()
    write_program(tmp_path / "bin/run", "")
    config = load(["experiment=scaling", "program.scaling=weak"])
    here, absent = {"program.folder": str(tmp_path)}, "no program none on PATH or in the kit's .venv/bin; give its path"
    for command, changes, problem in (
        ("none", {}, absent),
        ("none", here, absent),
        ("none", {"container.name": "podman"}, None),
        ("sh own.py", {}, "the command runs in the folder of each launch, where there is no own.py; write {here}/own"),
        ("sh own.py", here, None),
        ("sh", {"program.folder": "/none"}, "program.folder=/none: no such folder"),
        ("sh /none/own.py", {}, "there is no file /none/own.py; COMMAND= names your own program"),
        (f"sh {tmp_path}/own.py", {}, None),
        ("./run", {"program.folder": f"{tmp_path}/bin"}, None),
    ):
        with pytest.raises(ConfigError, match=problem) if problem else nullcontext():
            point_checks.check_program(with_values(config, {"program.command": f"{command} {{ranks}}"} | changes))
    point_checks.check_program(load([]))
