import pytest

from train.distribution.slurm import gloo_variables, is_needed, tasks_per_node

# Rank 3 of 2 + 2 + 1 ranks on three nodes.
STEP = {
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURMD_NODENAME": "n2",
}


@pytest.mark.parametrize(("text", "tasks"), [("4", [4]), ("2(x3)", [2, 2, 2]), ("2(x2),1", [2, 2, 1]), ("3,1", [3, 1])])
def test_slurms_tasks_per_node_are_read(text, tasks):
    assert tasks_per_node(text) == tasks


def test_a_rank_gets_the_place_that_slurm_gave_it():
    variables = gloo_variables(STEP)
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
    # Of the two nodes that have a local rank 1 it is on the second.
    assert [variables[f"HOROVOD_{name}"] for name in names] == ["3", "5", "1", "2", "1", "2"]


def test_only_what_srun_started_alone_needs_it():
    assert is_needed(STEP)
    assert not is_needed({})
    assert not is_needed({"SLURM_PROCID": "0"})  # a batch script's own process
    assert not is_needed({**STEP, "HOROVOD_RANK": "0"})  # horovodrun inside a step
    assert not is_needed({**STEP, "OMPI_COMM_WORLD_RANK": "0"})
