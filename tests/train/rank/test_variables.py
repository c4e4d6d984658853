import os

import pytest

from train.rank import variables

SECRETS = (
    "WANDB_API_KEY", "SLURM_JWT", "HF_TOKEN", "AWS_SECRET_ACCESS", "MY_PASSPHRASE", "HTTP_AUTH", "GOOGLE_CREDENTIALS",
    "TF_API_KEY", "SLURM_JOB_TOKEN", "NCCL_AUTH", "KIT_PASS", "APPTAINER_DOCKER_PASSWORD", "db_password",
)  # fmt: skip
TUNE = {
    "HOROVOD_CYCLE_TIME": "5",
    "OMPI_MCA_btl_tcp_if_include": "ib0",
    "OMP_NUM_THREADS": "2",
    "SLURM_JOB_ID": "7",
    "SLURM_CPU_BIND_TYPE": "mask_cpu:",
    "SLURM_JOB_NODELIST": "n[1-2]",
}
# Open MPI's key of a job has a name that does not say so; Slurm's plugins take options of any kind.
OTHERS = {"HOME": "/home/user", "SLURM_SPANK_X": "1", "MY_TF_X": "1"}
JOB_KEY = {"OMPI_MCA_orte_precondition_transports": "1-2"}


@pytest.fixture(autouse=True)
def given(monkeypatch):
    monkeypatch.setattr(
        os, "environ", {"PATH": "/bin", **dict.fromkeys(SECRETS, "hidden"), **TUNE, **OTHERS, **JOB_KEY}
    )


def test_only_what_can_change_a_measurement_is_recorded():
    assert variables.recorded() == TUNE


def test_other_hosts_get_what_starts_a_rank_and_what_is_recorded(monkeypatch):
    monkeypatch.setitem(os.environ, "LC_ALL", "C.UTF-8")
    monkeypatch.setitem(os.environ, "KIT_JOB_ID", "1")
    assert variables.for_other_hosts() == {**TUNE, "PATH": "/bin", "LC_ALL": "C.UTF-8", "KIT_JOB_ID": "1"}


def test_ranks_get_all_but_secrets_and_a_launcher_what_it_names():
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    assert variables.for_ranks() == {"PATH": "/bin", **TUNE, **OTHERS}
    assert variables.for_ranks(["SLURM_JWT"]) == {"PATH": "/bin", **TUNE, **OTHERS, "SLURM_JWT": "hidden"}


def test_ranks_do_not_get_the_place_that_another_launcher_gave_this_process(monkeypatch):
    others = (
        "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_CROSS_SIZE", "HOROVOD_GLOO_RENDEZVOUS_ADDR",
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMIX_NAMESPACE", "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS", "KIT_RANK_GROUP",
    )  # fmt: skip
    for name in others:
        monkeypatch.setitem(os.environ, name, "0")
    monkeypatch.setitem(os.environ, "PMIX_MCA_gds", "hash")  # a setting of the user's
    kept = variables.for_ranks()
    assert not set(others) & set(kept)
    assert {"PMIX_MCA_gds", "OMPI_MCA_btl_tcp_if_include", "SLURM_JOB_ID"} <= set(kept)
