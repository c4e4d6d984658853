"""Environment variables: which are recorded, which a rank may see, which cross to other hosts. No secret does any."""

import os
import re
from collections.abc import Collection

_SECRET = re.compile("KEY|TOKEN|SECRET|PASS|AUTH|CRED|JWT", re.IGNORECASE)
# What can change a measurement: all settings of these libraries, and where Slurm put the job.
_RECORDED = re.compile(
    "(HOROVOD|TF|OMP|MV2|NCCL|CUDA|KMP|MALLOC)_.+"
    "|OMPI_MCA_(btl|coll|hwloc|io|mpi|mtl|oob|opal|osc|pml|rmaps|rml)_.+"
    "|SLURM_(JOB_|STEP_)?(ID|NODELIST|NUM_NODES|NUM_TASKS|NNODES|NTASKS|PARTITION|QOS|CPUS_PER_NODE|TASKS_PER_NODE|GPUS)"
    "|SLURM_(CLUSTER_NAME|CPUS_ON_NODE|CPUS_PER_(TASK|GPU)|CPU_(BIND|FREQ).*|DISTRIBUTION|EXACT|GPUS.*|GPU_(BIND|FREQ)"
    "|HINT|JOB_(ACCOUNT|NAME|USER)|MEM_(BIND|PER).*|MPI_TYPE|NTASKS_PER_.+|RESTART_COUNT|THREADS_PER_CORE|TOPOLOGY_ADDR)"
)
# What a process needs to start on another host as it would here: programs, libraries, languages, containers.
_TO_START = re.compile(
    "PATH|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|LANG|LC_.+|TMPDIR|TZ|KIT_.+|(APPTAINER|SINGULARITY).+"
)


# How launchers tell a process its rank: those of another launcher, in whose job this one runs, are wrong.
_OF_A_LAUNCHER = re.compile(
    "HOROVOD_((LOCAL_|CROSS_)?(RANK|SIZE)|HOSTNAME|GLOO_RENDEZVOUS_.+|GLOO_IFACE|CONTROLLER|CPU_OPERATIONS|ELASTIC)"
    "|NCCL_SOCKET_IFNAME|OMPI_COMM_WORLD_.+|OMPI_UNIVERSE_SIZE|OMPI_MCA_(orte|ess)_.+|PMIX?_(RANK|SIZE|FD|ID|NAMESPACE)"
    "|PMIX_SERVER_.+|MV2_COMM_WORLD_.+|MPI_LOCAL(RANKID|NRANKS)|SLURM_(PROCID|LOCALID|NODEID|GTIDS|STEP_.+|SRUN_.+)"
    "|KIT_(JOB_ID|JOB_STARTED_AT|RANK_GROUP|FIRST_RANK|PEERS)|TF_CONFIG"
)


def is_secret(name: str) -> bool:
    """Return whether a variable of this name may hold a secret."""
    return bool(_SECRET.search(name))


def is_of_a_launcher(name: str) -> bool:
    """Return whether launchers set a variable of this name."""
    return bool(_OF_A_LAUNCHER.fullmatch(name))


def recorded() -> dict[str, str]:
    """Return the variables that can change a measurement, as a record holds them."""
    return _those(_RECORDED)


def for_other_hosts() -> dict[str, str]:
    """Return the variables that ranks on other hosts get: all users of the hosts see them, in command lines."""
    return _those(_TO_START) | recorded()


def for_ranks(needed: Collection[str] = ()) -> dict[str, str]:
    """Return the variables of this process for the ranks that it launches.

    Without those that may hold a secret, but for the needed ones, and those of another launcher.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in needed or not (is_secret(name) or is_of_a_launcher(name))
    }


def _those(names: re.Pattern[str]) -> dict[str, str]:
    return {name: value for name, value in sorted(os.environ.items()) if names.fullmatch(name) and not is_secret(name)}
