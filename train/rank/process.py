"""This process and its environment variables, its end when its launcher is gone, and the end of a whole job.

Variables: which are recorded, which a rank may see, which are sent to other hosts. None of them holds a secret.
`python -m train.rank.process JOB_ID` ends the processes of a job on this host.
"""

import ctypes
import os
import re
import resource
import select
import sys
import threading
from collections.abc import Callable, Collection, Mapping

import psutil

from record.protocol import IN_ALLOCATION, JOB_ID

# Horovod's launcher has five pipes and sockets for each rank; Gloo connects each rank with every other one.
_FILES_PER_RANK = 8
_OTHER_FILES = 512
_GONE_WITHIN_S = 30.0  # the kernel takes a large process apart before it is gone
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)  # loaded here: a child of a program with threads should do as little as possible before exec

# Among them those of Terraform, which has TensorFlow's prefix: they may hold anything.
_SECRET = re.compile(
    "KEY|TOKEN|SECRET|PASS|AUTH|CRED|JWT|COOKIE|^TF_(CLI_.+|VAR_.+|LOG(_.+)?|DATA_DIR)$", re.IGNORECASE
)
# Variables that can change a measurement: settings of compilers, threads, MPIs and networks, and the batch job.
_RECORDED = re.compile(
    "(HOROVOD|TF|XLA|CUDA|NCCL|OMP|GOMP|KMP|MKL|ONEDNN|DNNL|MALLOC|UCX|UCC|FI|PSM2?|HFI|IBV|MLX[45]|OMPI|PMIX|PRTE"
    "|MPICH|I_MPI|HYDRA|MV2|MVP|SLURM|PBS|LSB)_.+|LD_(PRELOAD|AUDIT)|PYTHON(PATH|HOME)|GLIBC_TUNABLES"
)
# Those of them that are no settings: what Open MPI and PMIx tell each process of its job, among it the key of the job's
# connections. And the options of Slurm's plugins, which may hold anything.
_NOT_RECORDED = re.compile(
    "OMPI_(?!MCA_|ALLOW_).+|OMPI_MCA_((orte|ess)_.+|initial_wdir|num_procs)|PMIX_(?!MCA_).+|SLURM_SPANK_.+"
)
_OF_BATCH_JOB = re.compile("(SLURM|PBS|LSB)_.+")
# Those of them that name files of this host: they reach no rank in a container.
_FILES_OF_HOST = re.compile("LD_(PRELOAD|AUDIT)|PYTHON(PATH|HOME)")
# Variables with which a process starts on another host as here: programs, libraries, languages, containers.
_START_VARIABLES = re.compile("PATH|LD_LIBRARY_PATH|LANG|LC_.+|TMPDIR|TZ|KIT_.+|(APPTAINER|SINGULARITY).+")
# Variables by which launchers tell a process its rank: those of another launcher, whose job this one is in, are wrong.
_LAUNCHER_VARIABLES = re.compile(
    "HOROVOD_((LOCAL_|CROSS_)?(RANK|SIZE)|HOSTNAME|GLOO_RENDEZVOUS_.+|GLOO_IFACE|CONTROLLER|CPU_OPERATIONS)"
    "|NCCL_SOCKET_IFNAME|OMPI_COMM_WORLD_.+|OMPI_UNIVERSE_SIZE|OMPI_MCA_(orte|ess)_.+|PMIX?_(RANK|SIZE|FD|ID|NAMESPACE)"
    "|PMIX_SERVER_.+|MV2_COMM_WORLD_.+|MPI_LOCAL(RANKID|NRANKS)|SLURM_(PROCID|LOCALID|NODEID|GTIDS|STEP_.+|SRUN_.+)"
    "|KIT_(JOB_ID|JOB_STARTED_AT|RANK_GROUP|FIRST_RANK|PEERS)|TF_CONFIG"
)


def allow_open_files(ranks: int) -> None:
    """Raise the limit of open files for a process that serves or joins so many ranks, up to `ulimit -Hn`.

    Most systems begin with 1,024, which is too few from some hundred ranks on. It is not raised further than needed:
    some programs, such as Open MPI's, close every descriptor that could be open before they start another program.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _OTHER_FILES + _FILES_PER_RANK * ranks
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def end_with_parent(signal_number: int) -> None:
    """Get this signal when the parent of this process dies, however it dies (prctl(2))."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal_number)


def end_with_launcher(output: int) -> None:
    """End this process at once when no process can read its `output`, a descriptor, any more.

    On another host neither ssh nor Horovod would end it. The launcher holds the other end of a rank's standard output
    directly, or through ssh, mpirun or srun, whose server on this host closes it when they are gone. If the output is a
    file, this does nothing.
    """

    def wait() -> None:
        closed = select.poll()
        closed.register(output, 0)  # no events: poll then reports only errors and the end (POLLERR, POLLHUP)
        closed.poll()
        print("the launcher has ended: this rank exits", file=sys.stderr, flush=True)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def job_processes(job_id: str) -> list[psutil.Process]:
    """Return the processes on this host whose environment names the job, except this one and those that started it."""
    processes, own = [], {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter():
        try:
            if process.pid not in own and process.environ().get(JOB_ID) == job_id:
                processes.append(process)
        except psutil.Error:
            continue
    return processes


def kill_job(job_id: str) -> None:
    """Kill the `job_processes` on this host; return when they are gone."""
    processes = job_processes(job_id)
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, timeout=_GONE_WITHIN_S)


def is_secret(name: str) -> bool:
    """Return whether a variable of this name may hold a secret."""
    return bool(_SECRET.search(name))


def is_launcher_variable(name: str) -> bool:
    """Return whether launchers set a variable of this name."""
    return bool(_LAUNCHER_VARIABLES.fullmatch(name))


def recorded_variables() -> dict[str, str]:
    """Return the variables that can change a measurement, as a record holds them."""
    return _matching_variables(lambda name: bool(_RECORDED.fullmatch(name) and not _NOT_RECORDED.fullmatch(name)))


def in_container(variables: Mapping[str, str]) -> dict[str, str]:
    """Return these variables without those that name files of this host."""
    return {name: value for name, value in variables.items() if not _FILES_OF_HOST.fullmatch(name)}


def variables_for_other_hosts() -> dict[str, str]:
    """Return the variables that ranks on other hosts get: all users of the hosts see them, in command lines.

    Those of a batch job only if the job is that of this launch: else they name hosts that are not its own.
    """
    variables = _matching_variables(_START_VARIABLES.fullmatch) | recorded_variables()
    in_job = IN_ALLOCATION in os.environ
    return {name: value for name, value in variables.items() if in_job or not _OF_BATCH_JOB.fullmatch(name)}


def variables_for_ranks(needed: Collection[str] = ()) -> dict[str, str]:
    """Return the variables of this process for the ranks that it launches.

    Without those of another launcher, and those that may hold a secret unless they are `needed`.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in needed or not (is_secret(name) or is_launcher_variable(name))
    }


def _matching_variables(matches: Callable[[str], object]) -> dict[str, str]:
    return {name: os.environ[name] for name in sorted(os.environ) if matches(name) and not is_secret(name)}


if __name__ == "__main__":
    kill_job(sys.argv[1])
