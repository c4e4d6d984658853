import json
from dataclasses import is_dataclass
from typing import get_args, get_type_hints

import pytest

from record import recorded_config
from record.recorded_config import RankGroup
from record.schema import Role
from tests.helpers.configs import arm, with_values
from train.config import identity
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.identity import config_hash, learning_rate, point_name, rebuild, resolved, values
from train.config.measure_config import LaunchPlan
from train.config.run_config import RunConfig
from train.config.training_config import AugmentationConfig

PS = ["distribution.backend=ps", "distribution.gradients=separate"]


@pytest.mark.parametrize(
    ("overrides", "unmeasured", "measured"),
    [
        (
            ["batch_per_rank=1"],
            ["tracking.name=none", "results=/elsewhere", "measure.repeats=9", "launcher.timeout_s=5", "assumed=[model]",
             "measure.precision_fraction=0.01", "measure.budget_s=9", "measure.curve_budget_s=9",
             "model.parameters=7", "model.train_layers=all", "distribution.servers_on=nodes",
             "batch_per_rank=null global_batch=2"],
            ["nodes=1", "batch_per_rank=3", "system.cores_per_node=1", "seed=1", "distribution.gradients=grouped",
             "distribution.compression=fp16", "distribution.backward_passes_per_step=2",
             "model.train_layers=classifier", "measure.design=launches distribution.timeline=true"],
        ),
        (
            ["experiment=allreduce_bench"],
            ["model.name=vgg16", "batch_per_rank=3", "measure.warm_up_steps=9", "distribution.compression=fp16"],
            ["distribution.controller=mpi", "nodes=4", "allreduce_sweep.max_timed=9"],
        ),
        (PS, [], ["distribution.servers_on=nodes"]),
        (["dataset=fruit", "dataset.data_dir=a"], ["dataset.data_dir=b"], ["dataset.augmentation=null"]),
    ],
)  # fmt: skip
def test_the_hash_changes_with_what_is_measured_and_with_nothing_else(overrides, unmeasured, measured):
    base = config_hash(load(overrides))
    assert [line for line in unmeasured if config_hash(load([*overrides, *line.split()])) != base] == []
    assert [line for line in measured if config_hash(load([*overrides, *line.split()])) == base] == []


@pytest.mark.parametrize(
    ("overrides", "swept", "arm", "name"),
    [
        (["nodes=2"], ["model", "nodes"], None, "resnet50-nodes2"),
        ([], ["system.link_mbit_per_s", "distribution.cycle_time_ms"], "a", "link_mbit_per_snull-cycle_time_ms20-a"),
        (PS, ["distribution.servers"], None, "servers1"),
    ],
)
def test_a_point_is_named_after_what_its_experiment_sweeps(overrides, swept, arm, name):
    assert point_name(load(overrides), swept, arm) == name


@pytest.mark.parametrize(
    ("swept", "problem"),
    [
        ("distribution.servers", r"distribution\.servers=swept: a point with distribution\.backend=horovod"),
        ("distribution", "distribution=swept: its files have no names to tell points by"),
    ],
)
def test_a_swept_key_that_names_no_point_is_an_error(swept, problem):
    with pytest.raises(ConfigError, match=problem):
        point_name(load([]), [swept])


def test_a_swept_group_has_the_name_of_the_file_that_was_chosen():
    overrides = ["model=alexnet_67", "tracking.notes='a=b'"]
    swept = identity.swept_values(load(overrides), ["model", "dataset", "nodes"], overrides)
    assert swept == {"model": "alexnet_67", "dataset": "synthetic", "nodes": 2}  # its model is called alexnet


def test_the_learning_rate_follows_the_batches_of_a_step():
    overrides = ["nodes=2", "optimizer.learning_rate=0.1", "distribution.backward_passes_per_step=3"]
    key = "optimizer.learning_rate_scaling"
    rates = [learning_rate(load([*overrides, f"{key}={kind}"])) for kind in ("none", "linear", "sqrt")]
    assert rates == pytest.approx([0.1, 0.6, 0.1 * 6**0.5])
    assert [learning_rate(load([f"experiment={name}"])) for name in ("allreduce_bench", "scaling")] == [None, None]


def test_a_record_keeps_only_what_the_run_uses():
    default = resolved(load([]))
    assert not {"sweep", "arms", "when_emulated"} & default.keys()
    assert not {"data_dir", "on_damaged", "augmentation"} & default["dataset"].keys()
    assert default["distribution"]["cycle_time_ms"] == 20
    assert "timeline" not in default["distribution"]


def test_the_roles_of_arms_do_not_change_what_is_measured():
    def measuring(**more):
        return with_values(load([]), {"launch": LaunchPlan(rounds=(arm(**more),))})

    base = config_hash(measuring())
    assert {config_hash(measuring(role=role)) for role in get_args(Role)} == {base}
    assert config_hash(measuring(reads=True)) != base


def keys(section, prefix=""):
    """The dotted keys of a section, and of the sections below it."""
    result = set()
    for name, kind in get_type_hints(section).items():
        result.add(f"{prefix}{name}")
        for inner in filter(is_dataclass, (kind, *get_args(kind))):
            result |= keys(inner, f"{prefix}{name}.")
    return result


def test_every_key_that_does_not_count_is_one_of_the_schema():
    for listed in (recorded_config.NOT_MEASURED, recorded_config.LAUNCH_PLAN, recorded_config.TRAINING_ONLY):
        assert listed <= keys(RunConfig) | values(load([])).keys() | {"rounds.role"}


def test_a_rank_group_has_the_configuration_of_its_launch_with_what_differs():
    common = ["nodes=1", "system.cores_per_node=2", "batch_per_rank=null", "global_batch=8"]
    launch = load([*common, "threads_per_rank=2"])
    group = load([*common, "ranks_per_node=2", "threads_per_rank=1", "distribution.cycle_time_ms=5"])
    differing = identity.differing_settings(launch, group)
    assert differing == {
        "ranks_per_node": 2, "threads_per_rank": 1, "batch_per_rank": 4, "distribution.cycle_time_ms": 5.0,
    }  # fmt: skip
    assert identity.config_of(launch, 0) is launch
    assert launch.ranks_of_job == launch.ranks == 1
    plan = {"launch": LaunchPlan(rank_groups=(RankGroup({}, 0, 1), RankGroup(differing, 1, 2)))}
    others = {"measure.repeats": 9, "derived": (), "results": "/else", "tracking.notes": "n"}  # of a launch as a whole
    changed = plan | others | {"dataset.augmentation": AugmentationConfig()}
    assert identity.differing_settings(launch, with_values(launch, changed)).keys() == {"dataset.augmentation"}
    launch = with_values(launch, plan)
    assert [identity.config_of(launch, number) for number in (0, 1)] == [launch, with_values(group, plan)]
    assert launch.ranks_of_job == 3


@pytest.mark.parametrize(
    "overrides",
    [
        ["experiment=allreduce_bench", "nodes=2"],
        ["dataset=fruit", "dataset.data_dir=/data", "container.name=podman"],
    ],
)
def test_a_configuration_is_rebuilt_from_its_values_as_json(overrides):
    config = load(overrides)
    again = rebuild(json.loads(json.dumps(values(config))))
    assert again == config
    assert config_hash(again) == config_hash(config)


@pytest.mark.parametrize(
    ("value", "problem"), [(0, "nodes=0: must be 1"), ("two", r"run_config.py here: .*`str`.*nodes")]
)
def test_rebuilt_values_are_checked(value, problem):
    with pytest.raises(ConfigError, match=problem):
        rebuild(values(load([])) | {"nodes": value})
