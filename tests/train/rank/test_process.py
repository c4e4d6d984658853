"""The limit of open files of this process, its variables, and the end of a job."""

import os
import resource
import subprocess
import sys

import psutil
import pytest

from record.protocol import JOB_ID
from tests.helpers import ROOT as KIT
from train.rank import process

NEEDED = 512 + 8 * 1024  # files of 1024 ranks


@pytest.mark.parametrize(
    ("ranks", "soft", "hard", "raised"),
    [
        (1024, 1024, 1_000_000, NEEDED),
        (1024, 1024, 4096, 4096),  # all that is allowed
        (8, 1024, 1_000_000, None),
        (1024, resource.RLIM_INFINITY, resource.RLIM_INFINITY, None),
    ],
)
def test_the_limit_of_open_files_is_raised_as_far_as_needed_and_allowed(monkeypatch, ranks, soft, hard, raised):
    calls = []
    monkeypatch.setattr(process.resource, "getrlimit", lambda kind: (soft, hard))
    monkeypatch.setattr(process.resource, "setrlimit", lambda kind, pair: calls.append(pair))
    process.allow_open_files(ranks)
    assert calls == ([] if raised is None else [(raised, hard)])


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
    """A process of that job in a new session, as Horovod starts its ranks."""
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    environment = {**os.environ, JOB_ID: job_id}
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True)
    child.stdout.readline()
    return child


@pytest.mark.slow
def test_the_processes_of_a_job_are_killed_and_no_others():
    mine, others = sleeper("job-of-a-test"), sleeper("job-of-another")
    try:
        assert [child.pid for child in process.job_processes("job-of-a-test")] == [mine.pid]
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
    "TF_API_KEY", "SLURM_JOB_TOKEN", "NCCL_AUTH", "PBS_JOBCOOKIE", "KIT_PASS", "APPTAINER_DOCKER_PASSWORD",
    "db_password",
)  # fmt: skip
OF_HOST = {"LD_PRELOAD": "/tmp/other.so", "PYTHONPATH": "/opt/modules"}
TUNE = {
    **dict.fromkeys(
        ("HOROVOD_CYCLE_TIME", "OMP_NUM_THREADS", "KMP_AFFINITY", "XLA_FLAGS", "CUDA_DEVICE_ORDER", "NCCL_IB_HCA",
         "UCX_NET_DEVICES", "FI_PROVIDER", "PSM2_MULTIRAIL", "MPICH_NO_LOCAL", "I_MPI_FABRICS", "MV2_ENABLE_AFFINITY",
         "MVP_HCA", "PMIX_MCA_gds", "OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_pml", "GLIBC_TUNABLES"), "5",
    ),
    **OF_HOST,
}  # fmt: skip
BATCH_JOB = dict.fromkeys(
    ("SLURM_JOB_ID", "SLURM_CPU_BIND_TYPE", "SLURM_JOB_CPUS_PER_NODE", "SLURM_CLUSTER_NAME", "PBS_JOBID", "PBS_O_HOME",
     "PBS_NP", "LSB_HOSTS", "LSB_MAX_NUM_PROCESSORS"), "5",
)  # fmt: skip
# The name of Open MPI's job key does not show that it is secret; Slurm's plugins take options of any kind.
HIDDEN = dict.fromkeys(
    (*SECRETS, "OMPI_MCA_orte_precondition_transports", "TF_CLI_CONFIG_FILE", "TF_VAR_region", "TF_LOG", "TF_DATA_DIR"),
    "hidden",
)
# Not recorded; what Open MPI tells each process is among them.
OTHERS = {"HOME": "/home/user", "SLURM_SPANK_X": "1", "MY_TF_X": "1", "MY_PBS_X": "1", "MYFI_X": "1"} | dict.fromkeys(
    ("OMPI_ARGV", "OMPI_MCA_num_procs", "OMPI_MCA_initial_wdir", "PMIX_SYSTEM_TMPDIR"), "x"
)
# Variables by which another launcher gives this process its rank.
RANK = (
    "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_CROSS_SIZE", "HOROVOD_GLOO_RENDEZVOUS_ADDR",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMIX_NAMESPACE", "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS", "KIT_RANK_GROUP",
)  # fmt: skip


@pytest.fixture
def variables(monkeypatch):
    """The variables of this process, to which a test may add some."""
    variables = {"PATH": "/bin", **HIDDEN, **TUNE, **BATCH_JOB, **OTHERS}
    monkeypatch.setattr(os, "environ", variables)
    return variables


def test_only_what_can_change_a_measurement_is_recorded(variables):
    assert process.recorded_variables() == TUNE | BATCH_JOB
    passed = process.in_container(variables)  # without the files of its host
    assert passed == {name: variables[name] for name in variables.keys() - OF_HOST.keys()}


def test_other_hosts_get_what_starts_a_rank_and_what_is_recorded_and_no_other_batch_job(variables):
    started = {"LC_ALL": "C.UTF-8", "KIT_JOB_ID": "1"}
    variables.update(started)
    assert process.variables_for_other_hosts() == {**TUNE, "PATH": "/bin", **started}
    variables["KIT_IN_ALLOCATION"] = "1"  # by the script of the job: this launch is in it
    assert process.variables_for_other_hosts().items() >= {**TUNE, **BATCH_JOB}.items()


def test_ranks_get_all_but_secrets_and_the_rank_of_another_launcher_and_what_a_launcher_names(variables):
    variables.update(dict.fromkeys(RANK, "0"))
    variables.pop("PYTEST_CURRENT_TEST", None)
    visible = {"PATH": "/bin", **TUNE, **BATCH_JOB, **OTHERS}
    assert process.variables_for_ranks() == visible
    assert process.variables_for_ranks(["SLURM_JWT"]) == {**visible, "SLURM_JWT": "hidden"}
