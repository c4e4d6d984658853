import json
from dataclasses import is_dataclass
from typing import get_args, get_type_hints

import pytest

from tests.helpers.configs import changed
from train.config import identity
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.identity import config_hash, learning_rate, point_name, rebuild, resolved, values
from train.config.schema import LaunchPlan, RankGroup, RoundArm, RunConfig
from train.record import recorded_config
from train.record.record import ROLES

SWEEP = ["experiment=allreduce_bench", "nodes=2"]


def test_the_hash_changes_with_what_is_measured_and_with_nothing_else():
    base = config_hash(load([]))
    alike = ["tracking=none", "results=/elsewhere", "measure.repeats=9", "launcher.timeout_s=5", "assumed=[model]"]
    for same in [*alike, "model.parameters=7"]:
        assert config_hash(load([same])) == base, same
    others = ["nodes=1", "batch_per_rank=3", "system.cores_per_node=1", "seed=1", "distribution.gradients=grouped"]
    for other in [*others, "distribution.compression=fp16", "distribution.backward_passes_per_step=2"]:
        assert config_hash(load([other])) != base, other


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_without_horovod_nothing_else_differs(device):
    with_it, without = (
        resolved(load([f"device={device}", "nodes=1", f"distribution={name}"])) for name in ("horovod", "none")
    )
    assert without["distribution"] == with_it["distribution"] | {"backend": "none", "allreduce": False}
    assert without | {"distribution": None} == with_it | {"distribution": None}


def test_the_layers_that_are_trained_change_what_is_measured():
    classifier = load(["model.train_layers=classifier"])
    assert resolved(classifier)["model"]["train_layers"] == "classifier"
    assert resolved(load([]))["model"]["train_layers"] == "all"
    assert config_hash(classifier) != config_hash(load([])) == config_hash(load(["model.train_layers=all"]))


def test_a_sweep_of_allreduces_doubles_and_does_not_depend_on_a_model():
    assert load(SWEEP).allreduce_sweep.sizes_bytes == [1024 * 2**k for k in range(20)]
    base = config_hash(load(SWEEP))
    assert config_hash(load([*SWEEP, "model=vgg16", "batch_per_rank=3", "measure=report"])) == base
    assert config_hash(load([*SWEEP, "distribution.compression=fp16"])) == base
    for other in ("distribution.controller=mpi", "nodes=4", "allreduce_sweep.max_timed=9"):
        assert config_hash(load([*SWEEP, other])) != base, other


def test_a_point_is_named_after_what_its_experiment_sweeps():
    assert (
        point_name(load(["experiment=weak_scaling", "model=resnet50", "nodes=2"]), ["model", "nodes"])
        == "resnet50-nodes2"
    )
    assert point_name(load(["experiment=overhead", "nodes=1"]), ["model"], "one-rank") == "resnet50-one-rank"


def test_a_swept_key_that_a_point_does_not_use_is_an_error():
    assert point_name(load(["distribution=ps"]), swept=["distribution.servers"]) == "servers1"
    with pytest.raises(ConfigError, match=r"distribution\.servers=swept: a point with distribution\.backend=horovod"):
        point_name(load([]), swept=["distribution.servers"])
    with pytest.raises(
        ConfigError, match="distribution=swept: its files have no names to tell points by; give them as"
    ):
        point_name(load(["distribution=mwms"]), swept=["distribution"])


def test_where_servers_are_is_part_of_what_is_measured():
    apart = ["distribution=ps", "distribution.servers_on=nodes"]
    assert config_hash(load(apart)) != config_hash(load(["distribution=ps"]))
    assert config_hash(load(apart[1:])) == config_hash(load([]))  # Horovod has none
    assert point_name(load(apart), swept=["distribution.servers_on"]) == "servers_onnodes"


def test_the_record_says_what_is_assumed():
    loaded = load(["experiment=fruit", "dataset.data_dir=/data"])
    assert {"model.name", "weights"} <= set(resolved(loaded)["assumed"])
    assert load(["experiment=fruit", "dataset.data_dir=/data", "dataset.augmentation=null"]).assumed


def test_a_derived_batch_measures_the_same_as_a_given_one():
    derived = load(["nodes=2", "batch_per_rank=null", "global_batch=8"])
    given = load(["nodes=2", "batch_per_rank=4"])
    assert derived.derived != given.derived
    assert config_hash(derived) == config_hash(given)


def test_the_learning_rate_follows_the_batches_of_a_step():
    given = ["nodes=2", "optimizer.learning_rate=0.1", "optimizer.learning_rate_scaling=linear"]
    assert learning_rate(load(given)) == pytest.approx(0.2)
    assert learning_rate(load([*given, "distribution.backward_passes_per_step=3"])) == pytest.approx(0.6)


def test_a_launch_with_a_timeline_is_another_measurement_and_all_others_stay_what_they_were():
    given = ["nodes=2", "measure.design=launches"]
    assert "timeline" not in resolved(load(given))["distribution"]
    assert resolved(load([*given, "distribution.timeline=true"]))["distribution"]["timeline"] is True
    assert config_hash(load([*given, "distribution.timeline=true"])) != config_hash(load(given))


def test_a_record_keeps_only_what_the_run_uses():
    plain = resolved(load([]))
    assert not {"sweep", "arms", "when_emulated"} & plain.keys()
    assert not {"data_dir", "on_damaged", "augmentation"} & plain["dataset"].keys()
    assert (plain["distribution"]["cycle_time_ms"], plain["distribution"]["elastic"]) == (20, False)
    assert "commit_steps" not in plain["distribution"]
    digits = ["dataset=digits", "measure.epochs=1", "distribution.elastic=true"]
    elastic = resolved(load(digits))["distribution"]
    assert elastic["commit_steps"] == 10
    assert not {"cycle_time_ms", "fusion_threshold_bytes"} & elastic.keys()


def test_the_roles_of_arms_do_not_change_what_is_measured():
    def measuring(**more):
        one = {"name": "a", "nodes": 1, "ranks": 1, "batch_per_rank": 1, "allreduce": True}
        return changed(load([]), {"launch": LaunchPlan(rounds=(RoundArm(**one | more),))})

    base = config_hash(measuring())
    assert {config_hash(measuring(role=role)) for role in ROLES} == {base}
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


@pytest.fixture
def launch():
    return load(
        ["experiment=ranks_threads", "model=tiny", "system.cores_per_node=2", "threads_per_rank=2", "global_batch=8"]
    )


def test_only_what_differs_is_a_setting_of_a_rank_group(launch):
    assert identity.settings(launch, launch) == {}
    other = load(
        ["experiment=ranks_threads", "model=tiny", "ranks_per_node=2", "threads_per_rank=1", "global_batch=8",
         "system.cores_per_node=2", "distribution.cycle_time_ms=5"]
    )  # fmt: skip
    assert identity.settings(launch, other) == {
        "ranks_per_node": 2,
        "threads_per_rank": 1,
        "batch_per_rank": 4,
        "distribution.cycle_time_ms": 5.0,
    }


def test_a_rank_group_has_the_configuration_of_its_launch_with_its_own_settings(launch):
    half = {"ranks_per_node": 2, "batch_per_rank": 4, "distribution.cycle_time_ms": 5.0}
    launch = changed(launch, {"launch": LaunchPlan(rank_groups=(RankGroup({}, 0, 1), RankGroup(half, 1, 2)))})
    own = identity.config_of(launch, 1)
    assert (own.ranks_per_node, own.distribution.cycle_time_ms) == (2, 5.0)
    assert identity.config_of(launch, 0) == launch
    assert (own.ranks, own.ranks_of_job) == (2, 3)


def test_a_launch_without_rank_groups_is_its_own(launch):
    assert identity.config_of(launch, 0) is launch
    assert launch.ranks_of_job == launch.ranks == 1


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
