import pytest

from train.distribution.rendezvous import needed, place, tasks_per_node

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
    found = place(STEP)
    assert {name.removeprefix("HOROVOD_"): found[name] for name in found if name.endswith(("RANK", "SIZE"))} == {
        "RANK": "3",
        "SIZE": "5",
        "LOCAL_RANK": "1",
        "LOCAL_SIZE": "2",
        "CROSS_RANK": "1",  # of the two nodes that have a local rank 1 it is on the second
        "CROSS_SIZE": "2",
    }


def test_only_what_srun_started_alone_needs_it():
    assert needed(STEP)
    assert not needed({})
    assert not needed({"SLURM_PROCID": "0"})  # a batch script's own process
    assert not needed({**STEP, "HOROVOD_RANK": "0"})  # horovodrun inside a step
    assert not needed({**STEP, "OMPI_COMM_WORLD_RANK": "0"})
