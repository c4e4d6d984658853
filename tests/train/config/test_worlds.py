from dataclasses import asdict

import pytest

from train.config import worlds
from train.config.compose import load
from train.config.schema import World


@pytest.fixture
def launch():
    return load(
        ["experiment=ranks_threads", "model=tiny", "system.cores_per_node=2", "threads_per_rank=2", "global_batch=8"]
    )


def test_only_what_differs_is_a_setting_of_a_world(launch):
    assert worlds.settings(launch, launch) == {}
    other = load(
        ["experiment=ranks_threads", "model=tiny", "ranks_per_node=2", "threads_per_rank=1", "global_batch=8",
         "system.cores_per_node=2", "distribution.cycle_time_ms=5"]
    )  # fmt: skip
    assert worlds.settings(launch, other) == {
        "ranks_per_node": 2,
        "threads_per_rank": 1,
        "batch_per_rank": 4,
        "distribution.cycle_time_ms": 5.0,
    }


def test_a_world_has_the_configuration_of_its_launch_with_its_own_settings(launch):
    launch.worlds = [World({}, 0, 1), World({"ranks_per_node": 2, "distribution.cycle_time_ms": 5.0}, 1, 2)]
    before = asdict(launch)
    own = worlds.config_of(launch, 1)
    assert (own.ranks_per_node, own.distribution.cycle_time_ms) == (2, 5.0)
    assert worlds.config_of(launch, 0) == launch
    assert asdict(launch) == before
    assert (own.ranks, own.ranks_of_job) == (2, 3)


def test_a_launch_without_worlds_is_its_own(launch):
    assert worlds.config_of(launch, 0) is launch
    assert launch.ranks_of_job == launch.ranks == 1
