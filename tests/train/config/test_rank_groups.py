import pytest

from tests.helpers.configs import changed
from train.config import rank_groups
from train.config.compose import load
from train.config.schema import LaunchPlan, RankGroup


@pytest.fixture
def launch():
    return load(
        ["experiment=ranks_threads", "model=tiny", "system.cores_per_node=2", "threads_per_rank=2", "global_batch=8"]
    )


def test_only_what_differs_is_a_setting_of_a_rank_group(launch):
    assert rank_groups.settings(launch, launch) == {}
    other = load(
        ["experiment=ranks_threads", "model=tiny", "ranks_per_node=2", "threads_per_rank=1", "global_batch=8",
         "system.cores_per_node=2", "distribution.cycle_time_ms=5"]
    )  # fmt: skip
    assert rank_groups.settings(launch, other) == {
        "ranks_per_node": 2,
        "threads_per_rank": 1,
        "batch_per_rank": 4,
        "distribution.cycle_time_ms": 5.0,
    }


def test_a_rank_group_has_the_configuration_of_its_launch_with_its_own_settings(launch):
    half = {"ranks_per_node": 2, "batch_per_rank": 4, "distribution.cycle_time_ms": 5.0}
    launch = changed(launch, {"launch": LaunchPlan(groups=(RankGroup({}, 0, 1), RankGroup(half, 1, 2)))})
    own = rank_groups.config_of(launch, 1)
    assert (own.ranks_per_node, own.distribution.cycle_time_ms) == (2, 5.0)
    assert rank_groups.config_of(launch, 0) == launch
    assert (own.ranks, own.ranks_of_job) == (2, 3)


def test_a_launch_without_rank_groups_is_its_own(launch):
    assert rank_groups.config_of(launch, 0) is launch
    assert launch.ranks_of_job == launch.ranks == 1
