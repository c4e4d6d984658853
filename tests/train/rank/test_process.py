"""The limit of open files of this process, which is put back, its variables, and the end of a job."""

import os
import resource
import subprocess
import sys

import psutil
import pytest

from tests.helpers import ROOT as KIT
from train.rank import process
from train.record.protocol import JOB_ID


@pytest.fixture(autouse=True)
def limit():
    """A function that sets the limit of this process, as `ulimit -Sn`."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda soft: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def soft():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_it_is_raised_as_far_as_needed_and_never_lowered(limit):
    limit(1024)
    process.allow_open_files(8)
    assert soft() == 1024
    process.allow_open_files(128)
    assert soft() == 512 + 8 * 128
    process.allow_open_files(8)
    assert soft() == 512 + 8 * 128


@pytest.mark.parametrize(
    ("hard", "raised"), [(1_000_000, 512 + 8 * 1024), (resource.RLIM_INFINITY, 512 + 8 * 1024), (4096, 4096)]
)
def test_a_thousand_ranks_get_what_they_need_or_all_that_is_allowed(monkeypatch, hard, raised):
    asked = []
    monkeypatch.setattr(process.resource, "getrlimit", lambda of: (1024, hard))
    monkeypatch.setattr(process.resource, "setrlimit", lambda of, limits: asked.append(limits))
    process.allow_open_files(1024)
    monkeypatch.undo()  # before the limits of this process are put back
    assert asked == [(raised, hard)]


WATCHING = """import time
from train.rank import process
process.end_with_launcher(1)
print('watching', flush=True)
time.sleep(600)
"""


def watching(output: int) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", WATCHING], stdout=output, stderr=subprocess.PIPE, cwd=KIT)


@pytest.mark.slow
def test_a_process_ends_when_nobody_can_read_its_output():
    reading, writing = os.pipe()
    child = watching(writing)
    os.close(writing)
    with os.fdopen(reading) as output:
        assert output.readline() == "watching\n"
        assert child.poll() is None
    assert child.wait() == 1
    assert child.stderr
    assert child.stderr.read() == b"the launcher has ended: this rank exits\n"


@pytest.mark.slow
def test_a_process_that_writes_to_a_file_is_left_alone(tmp_path):
    with (tmp_path / "log").open("wb") as log:
        child = watching(log.fileno())
    while not (tmp_path / "log").read_text():
        assert child.poll() is None
    try:
        child.wait(timeout=0.1)
    except subprocess.TimeoutExpired:
        child.kill()
    assert child.wait() == -9


def sleeper(job_id: str) -> subprocess.Popen:
    """A process of that job, in a session of its own, as Horovod starts its ranks."""
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    child = subprocess.Popen(
        command, env={**os.environ, JOB_ID: job_id}, stdout=subprocess.PIPE, start_new_session=True
    )
    child.stdout.readline()
    return child


@pytest.mark.slow
def test_the_processes_of_a_job_are_killed_and_no_others():
    mine, others = sleeper("job-of-a-test"), sleeper("job-of-another")
    try:
        assert [one.pid for one in process.job_processes("job-of-a-test")] == [mine.pid]
        process.kill_job("job-of-a-test")
        assert not psutil.pid_exists(mine.pid)
        assert others.poll() is None
    finally:
        for child in (mine, others):
            child.kill()
            child.wait()
            child.stdout.close()


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


@pytest.fixture
def variables(monkeypatch):
    monkeypatch.setattr(
        os, "environ", {"PATH": "/bin", **dict.fromkeys(SECRETS, "hidden"), **TUNE, **OTHERS, **JOB_KEY}
    )


@pytest.mark.usefixtures("variables")
def test_only_what_can_change_a_measurement_is_recorded():
    assert process.recorded_variables() == TUNE


@pytest.mark.usefixtures("variables")
def test_other_hosts_get_what_starts_a_rank_and_what_is_recorded(monkeypatch):
    monkeypatch.setitem(os.environ, "LC_ALL", "C.UTF-8")
    monkeypatch.setitem(os.environ, "KIT_JOB_ID", "1")
    assert process.variables_for_other_hosts() == {**TUNE, "PATH": "/bin", "LC_ALL": "C.UTF-8", "KIT_JOB_ID": "1"}


@pytest.mark.usefixtures("variables")
def test_ranks_get_all_but_secrets_and_a_launcher_what_it_names():
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    assert process.variables_for_ranks() == {"PATH": "/bin", **TUNE, **OTHERS}
    assert process.variables_for_ranks(["SLURM_JWT"]) == {"PATH": "/bin", **TUNE, **OTHERS, "SLURM_JWT": "hidden"}


@pytest.mark.usefixtures("variables")
def test_ranks_do_not_get_the_place_that_another_launcher_gave_this_process(monkeypatch):
    others = (
        "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_CROSS_SIZE", "HOROVOD_GLOO_RENDEZVOUS_ADDR",
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMIX_NAMESPACE", "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS", "KIT_RANK_GROUP",
    )  # fmt: skip
    for name in others:
        monkeypatch.setitem(os.environ, name, "0")
    monkeypatch.setitem(os.environ, "PMIX_MCA_gds", "hash")  # a setting of the user's
    visible = process.variables_for_ranks()
    assert not set(others) & set(visible)
    assert {"PMIX_MCA_gds", "OMPI_MCA_btl_tcp_if_include", "SLURM_JOB_ID"} <= set(visible)
