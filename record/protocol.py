"""Everything that a launcher and its ranks exchange: environment variables, files in the run folder.

The launcher writes `run.json`, starts the ranks and reads their parts (record/parts.py) when they have ended.
Nothing else is shared: not the command line, not the output, not the ranks' own copy of conf/.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from common import bounded_files as bounded
from record import run_files as files

# In the environment of every process of a job.
JOB_ID = "KIT_JOB_ID"  # by which remaining processes of a job are found
JOB_STARTED_AT = "KIT_JOB_STARTED_AT"  # seconds since the epoch: when the phase `start` began
PROCESS_VARIABLES = (JOB_ID, JOB_STARTED_AT)
RANK_GROUP = "KIT_RANK_GROUP"  # the index of the rank group of a rank; not set: there is one
FIRST_RANK = "KIT_FIRST_RANK"  # of its rank group, among all ranks of the job
PEERS = "KIT_PEERS"  # the hosts of the job, separated by commas, if the launcher knows them
# Facts that a rank in a container cannot find out by itself.
IMAGE, IMAGE_DIGEST = "KIT_IMAGE", "KIT_IMAGE_DIGEST"
GIT_COMMIT, GIT_DIRTY = "KIT_GIT_COMMIT", "KIT_GIT_DIRTY"  # dirty: "0", "1", or "" if unknown
# Set by the batch script: the launcher that sees it starts runs instead of submitting them.
IN_ALLOCATION = "KIT_IN_ALLOCATION"
TYPED_COMMAND = "TYPED_COMMAND"  # from train/make.py to the launcher: make, with the variables of the user


@dataclass(frozen=True)
class EarlierLaunch:
    """What an earlier launch of the same plan measured, which a launch on the same machine does not measure again."""

    hosts: list[tuple[str, str, int]]  # name, CPU model and cores of each
    step_times_s: list[float]  # of each arm


@dataclass(frozen=True)
class RoundsTask:
    """How long a launch in rounds goes on, beside the end in its configuration, and what is known beforehand."""

    rounds_s: float = 0.0  # the time for its rounds, even if they begin late
    enough_rounds: int | None = None  # it ends once so many rounds count; None: it ends with its time alone
    earlier: EarlierLaunch | None = None


@dataclass(frozen=True)
class Assignment:
    """The task that a launcher gives its ranks."""

    config: dict[str, Any]  # the whole resolved configuration, as `train.config.identity.rebuild` takes it
    config_hash: str
    repeat: int  # number of the launch of this configuration, from 0
    source: dict[str, str]  # file -> digest, of the code when the launcher's command began (record/run_files.py)
    hosts_apart: bool  # each node is a separate host
    quotas: bool  # the launcher limits the nodes to CPU quotas while they measure (train/rank/quota_gate.py)
    rounds: RoundsTask = field(default_factory=RoundsTask)
    conf: dict[str, str] = field(default_factory=dict)  # file -> digest, of conf/ now: ranks take `config`, not these
    # What only the record needs: other fields of its identity, and the launches of the command's plan, in order.
    identity: dict[str, Any] = field(default_factory=dict)
    plan: list[str] = field(default_factory=list)
    # The ledger of each point of the plan, as it was: point -> its lines so far, the digests of the first and last one.
    ledgers: dict[str, tuple[int, str, str]] = field(default_factory=dict)


def _file(name: str) -> Callable[[Path], Path]:
    """Return a function from a run folder to the path of a file in it."""
    return lambda folder: folder / name


def _rank_file(name: str) -> Callable[[Path, int], Path]:
    """Return a function from a run folder and a rank to the path of the rank's file."""
    return lambda folder, rank: folder / name.format(rank)


# The files of the run folder: functions of the folder.
launcher_log = _file("launcher.log")  # the output of the launcher's command (horovodrun, mpirun, srun)
assignment_path = _file("run.json")  # the assignment
horovod_timeline_path = _file("horovod-timeline.json")  # Horovod's own, written by rank 0 if there is a timeline
secret_folder = _file(".private")  # the folder of the job's secret, which the launcher makes before any rank is started
rendezvous_path = _file("rendezvous")  # the port of rank 0, of a job with several rank groups
limited_path = _file("limited")  # the launcher's marker: all nodes are limited to their quotas
link_wanted_path = _file("link.wanted")  # the rate of the links that rank 0 requests
link_set_path = _file("link.set")  # the rate of the links that the launcher has set
# The files of a rank: functions of the folder and the rank.
rank_log = _rank_file("rank-{}.log")  # the output of a rank
operations_path = _rank_file("operations-{}.json.gz")  # TensorFlow's, in a few steps, if there is a timeline
ready_path = _rank_file("rank-{}.ready")  # a rank's marker: it is ready to be limited to its quota
measured_path = _rank_file("rank-{}.measured")  # a rank's marker: it measures no more


def write_assignment(folder: Path, assignment: Assignment) -> None:
    """Write the assignment into the run folder, before any rank is started. Raises OSError."""
    text = msgspec.json.format(msgspec.json.encode(assignment), indent=1)
    files.write_file(assignment_path(folder), text, replace=True)


def read_assignment(folder: Path) -> Assignment:
    """Return the assignment in the run folder. Raises OSError, or ValueError if it is damaged."""
    return decoded_assignment(bounded.read(assignment_path(folder)))


def decoded_assignment(text: bytes) -> Assignment:
    """Return the assignment in the text of its file. Raises ValueError if it is damaged."""
    return msgspec.json.decode(bounded.check_json(text), type=Assignment)


def timeline_paths(folder: Path) -> list[Path]:
    """Return the timeline files in the run folder, sorted."""
    operations = (path for path in folder.glob("operations-*.json.gz") if _OPERATIONS.fullmatch(path.name))
    return sorted([*folder.glob(horovod_timeline_path(folder).name), *operations])


_OPERATIONS = re.compile(r"operations-[0-9]{1,9}\.json\.gz")
# A part: its rank, host and process. Nothing else, as "rank-0.n1.7 (copy).jsonl", is one.
_PART = re.compile(r"rank-(0|[1-9][0-9]{0,8})\.([\w.-]+)\.([1-9][0-9]{0,9})\.jsonl")


def part_path(folder: Path, rank: int, host: str, pid: int) -> Path:
    """Return the file that one process of a rank appends its measurements to. A restarted rank has another."""
    return folder / f"rank-{rank}.{host}.{pid}.jsonl"


def part_processes(folder: Path, rank: int | None = None) -> dict[Path, tuple[int, str, int]]:
    """Return the rank, host and process ID of each part file in the run folder, sorted: of one rank, or of all."""
    paths = sorted(folder.glob(f"rank-{'*' if rank is None else f'{rank}.*'}.jsonl"))
    matches = {path: match for path in paths if (match := _PART.fullmatch(path.name))}
    return {path: (int(match[1]), match[2], int(match[3])) for path, match in matches.items()}


def part_paths(folder: Path, rank: int | None = None) -> list[Path]:
    """Return the part files in the run folder, sorted: of one rank, or of all."""
    return [*part_processes(folder, rank)]


@dataclass(frozen=True)
class LinkRate:
    """The rate that rank 0 asks the launcher to set on all links; the launcher repeats it when that is done."""

    number: int = 0  # of the request, from 1; 0: none so far
    mbit_per_s: float | None = None  # None: no limit


def write_link_rate(path: Path, rate: LinkRate) -> None:
    """Write a rate for the other side, whole or not at all. Raises OSError."""
    files.write_file(path, msgspec.json.encode(rate), replace=True)


def read_link_rate(path: Path) -> LinkRate:
    """Return the latest rate at this path, else the default one. Raises msgspec.ValidationError if damaged."""
    return msgspec.json.decode(path.read_bytes(), type=LinkRate) if path.exists() else LinkRate()
