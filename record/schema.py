"""The run record: what one launch measured, and how it was made.

One JSON file a run, `results/<experiment>/<point>/<hash8>/r<repeat>/record.json`, written once.
It holds raw facts; `analysis` computes every metric from them.
`record.schema.json` beside this module describes the file for other programs.
"""

import hashlib
import inspect
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from common import bounded_files as bounded
from record import migrations, recorded_config, this_kit, ticks
from record.recorded_config import Count, Size, Swept

SCHEMA_VERSION = migrations.VERSION
RECORD_NAME = "record.json"
# The folder of a run: repeat, and generation if it is not the first. Nothing else, as "r0 (copy)", is one.
RUN_FOLDER = re.compile(r"r(0|[1-9][0-9]{0,8})(?:\.([2-9]|[1-9][0-9]{1,8}))?")

# In the order in which a job goes through them. They are contiguous: their sum is the wall time of the job.
Phase = Literal[
    "start",  # from the launch of the job to the first line of the rank's program
    "import",  # TensorFlow and Horovod
    "init",  # hvd.init(): all ranks have joined
    "data",
    "build",  # model and optimizer, on every rank
    "broadcast",  # variables and optimizer state from rank 0
    "first_step",  # tracing of the training step, and its first execution
    "warm_up",
    "timed",
    "evaluate",  # at the end also what limits throughput
    "checkpoint",
    "exit",  # from the rank's last line to the end of the job
]
PHASES: tuple[str, ...] = get_args(Phase)

# The training time as report 000 took it: from after the initialisation to the end of the timed steps.
WALL_PHASES = ("broadcast", "first_step", "warm_up", "timed")

_NO_CHECKSUM = "0" * 64
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]  # SHA-256
Time = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]  # in s; tables have whole seconds of it

# The purpose of an arm. A point is measured for itself. The base: others are compared with it. A control: it shows
# whether the nodes of the points disturb each other, and how long they compute; it exchanges nothing. In memory: it
# shows how long a point reads its images; the batch is in memory.
Role = Literal["point", "base", "control", "in-memory"]
WITHOUT_ALLREDUCE = "without-allreduce"  # the name of the controls that the kit adds; no code depends on it


class RecordError(Exception):
    """A file that is not a record this version can read: says which file and why."""


@dataclass
class Failure:
    """Why a run did not complete, and where it began."""

    reason: str
    rank: int | None = None
    host: str | None = None
    phase: str | None = None
    step: int | None = None
    exit_code: int | None = None
    log: str | None = None
    consequence: bool = False  # it follows from the failure of another rank: this one lost its peers


@dataclass
class PlanPosition:
    """The position of a run in the order of the runs of its experiment."""

    seed: int | None  # that the order was drawn from; None: a fixed order
    position: int  # from 0
    runs: int  # that were planned


@dataclass
class AllreduceTimes:
    """Every timed allreduce of one message size in one round, on one rank, in seconds."""

    message_bytes: Size
    times_s: list[float]
    round: Count = 0


@dataclass
class Transfer:
    """Bytes that a rank received in a plain TCP stream, or copied in its own memory, without Horovod."""

    what: Literal["tcp_stream", "tcp_ring", "memory_copy"]  # one sender at work; all ranks send at once; all copy
    source: str  # where the bytes came from: host and address; "" in memory
    transferred_bytes: int
    time_s: float
    arm: int | None = None  # as MatrixProduct.arm


@dataclass
class MatrixProduct:
    """How fast a rank multiplied two square matrices, in the run's precision, while the ranks of its arm did so too.

    After the timed steps, or the last epoch, with their threads and, where nodes are emulated, within their quotas.
    """

    rows: int
    times_s: list[float]  # of one product, a mean over each of some bursts
    arm: int | None = None  # its index in the configuration's `rounds`; None: not in rounds


@dataclass
class Operations:
    """The work of a training step of the model."""

    operations_per_image: int | None  # multiplications and additions, forward and backward; None: not known
    gradient_bytes: int  # of all gradients, before compression


@dataclass(slots=True)
class CoreUse:
    """The kernel's counts on the cores of a rank, from before the barrier that begins timed steps to after its end.

    In seconds of core time, in ticks of 10 ms; without interrupts, which also serve the rank itself.
    """

    wall_s: float
    own_s: float  # of the threads of this rank
    busy_s: float  # of all processes
    steal_s: float  # in which the hypervisor ran something else
    # Time in which its busiest threads, one a core, were ready while others ran. None: the kernel does not count it.
    delay_s: float | None = None
    frequency_mhz: float | None = None  # mean over the cores, at the end; None: the kernel does not say
    energy_j: float | None = None  # of the processors of the host, on its first rank; None: cannot be read
    gpu_energy_j: float | None = None  # of the rank's GPU; None: there is none, or it does not count
    gpu_clock_mhz: float | None = None  # of its processors, at the end
    # The CPUs that the rank might use at the end, if they were others than those that it was bound to; empty if not.
    moved_to: list[int] | None = None  # None: not recorded


@dataclass(slots=True)  # a record may have thousands
class Window:
    """Timed steps of one arm in one round, on one rank that took part."""

    round: Count  # from 0
    arm: Count  # its index in the configuration's `rounds`
    window_s: float  # between the barriers around the steps: of all ranks, or of a rank group beside others
    step_times_s: ticks.Times
    compute_times_s: ticks.Times = field(default_factory=list)  # as Rank.compute_times_s
    cores: CoreUse | None = None  # None: the kernel does not say


@dataclass
class Usage:
    """The usage of a rank, sample by sample; all lists are of one length."""

    at_s: list[Time] = field(default_factory=list)  # since the launch of the job
    cpu_s: list[float] = field(default_factory=list)  # CPU time of all its threads since it began
    memory_bytes: list[int] = field(default_factory=list)  # resident
    gpu_fraction: list[float | None] = field(default_factory=list)  # of the time, in which a kernel ran; null: no GPU
    gpu_memory_bytes: list[int | None] = field(default_factory=list)  # of the whole GPU


@dataclass
class NodeQuota:
    """The share of the machine that a node was held to while it measured, and how often it met it: kernel's numbers."""

    node: Count
    cpus: float  # cores' worth of time
    period_s: float
    periods: int  # in which the node wanted to run
    throttled_periods: int  # in which it wanted more than its share
    throttled_s: float  # summed over its threads
    by: str  # the method that held it


# Profiled: after the timed ones, with TensorFlow's profiler.
StepPhase = Literal["first_step", "warm_up", "timed", "profiled"]


@dataclass
class StepAt:
    """When a rank made a step, in seconds since the epoch by the clock of its host."""

    phase: StepPhase
    begun_at: float
    computed_at: float | None  # its local gradients were ready; None if a GPU computes
    ended_at: float


@dataclass
class RankTimeline:
    """The values that put a rank, the others and Horovod's own timeline on one clock: that of rank 0."""

    began_at: float  # the process, as StepAt.begun_at: the end of the phase `start`
    ahead_s: float | None  # rank 0's clock, after the timed steps; 0 on its host; None: could not be measured
    error_s: float | None  # of that, at most
    steps: list[StepAt] = field(default_factory=list)


@dataclass
class Rank:
    """One Horovod process: where it ran, and every time that it took. Times in seconds."""

    rank: Count
    local_rank: Count
    node: Count
    host: str
    cores: list[int]
    gpu: str | None
    phases_s: dict[str, float]
    warm_up_step_times_s: ticks.Times
    step_times_s: ticks.Times
    peak_memory_bytes: int
    allreduces: list[AllreduceTimes] = field(default_factory=list)  # of a sweep over message sizes, ascending
    # The bandwidth of link and memory, measured in the same run; for training only tcp_ring, as `matrix_products`.
    transfers: list[Transfer] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)  # of a launch in rounds, in the order of measurement
    exchanges: list[Window] = field(default_factory=list)  # of an arm's gradients alone: each step is one exchange
    usage: Usage | None = None  # None: not sampled
    # The part of each timed step until the local gradients are ready, with the input: the rest is exchange, and waiting
    # for other ranks. Empty if a GPU computes, or epochs are trained.
    compute_times_s: ticks.Times = field(default_factory=list)
    timed_cores: CoreUse | None = None  # of the timed steps; None: in rounds, or the kernel does not say
    # One; in rounds one for each number of ranks and rate of links. Empty if it failed.
    matrix_products: list[MatrixProduct] = field(default_factory=list)
    timeline: RankTimeline | None = None  # None: distribution.timeline was off, as wherever throughput is measured
    # The number of workers, which share the global batch, in this process. Several: each has a separate device, and the
    # times are those of all of them together.
    workers: Count = 1


@dataclass
class Server:
    """A process that held nothing but a parameter server: it took cores, and no share of the global batch."""

    rank: int
    host: str
    cores: list[int]
    peak_memory_bytes: int
    timed_cores: CoreUse | None = None  # as Rank.timed_cores


@dataclass
class GpuState:
    """One GPU as its driver reported it when the job began; None: it does not say."""

    name: str
    driver: str
    clock_mhz: float | None
    clock_max_mhz: float | None
    persistence: bool | None
    power_limit_w: float | None
    compute_capability: str | None = None  # as 8.0


@dataclass
class HostState:
    """How one machine was set and what it was doing when the job began; None: it does not say."""

    governor: str | None  # of its CPU clocks; where cores differ, all of them
    frequency_mhz: float | None  # mean over cores
    frequency_max_mhz: float | None
    smt: bool | None  # a core has several hardware threads in use
    numa_nodes: int | None
    transparent_huge_pages: str | None  # always, madvise, never
    load: float | None  # processes that ran or wanted to, mean over a minute
    cpu_flags: list[str]  # instruction sets that decide how fast training is
    gpus: list[GpuState]
    gpu_topology: str | None  # nvidia-smi's table of links between GPUs and network cards
    # The share of the time of the job's cores in which a hypervisor ran something else, until the ranks had joined.
    steal_fraction: float | None = None
    energy_unknown: str | None = None  # why the energy of its processors is not in the record


@dataclass
class Host:
    """One machine of the job, as one of its ranks saw it."""

    host: str
    cpu_model: str
    cores: Count
    memory_bytes: int
    kernel: str
    gpus: list[str]
    state: HostState | None = None
    threads_per_core: int | None = None  # hardware threads of a core; with system.smt each counts as a core


@dataclass
class Environment:
    """The machines and versions of a run."""

    hosts: list[Host]
    versions: dict[str, str]
    horovod_built_with: list[str]
    mpi: str | None
    nccl: str | None
    image: str | None
    image_digest: str | None
    git_commit: str | None
    git_dirty: bool | None
    variables: dict[str, str]
    mpi_library: str | None = None  # the file that was loaded: a host's MPI may stand in for the image's own
    compilers: str = ""  # of Horovod, as its library names them; "": not recorded


@dataclass
class Epoch:
    """One pass over the training data. Accuracies are fractions of samples, losses are means over samples."""

    epoch: Count
    steps: Size
    duration_s: float
    train_loss: float
    train_accuracy: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    # The error of the expected class, in classes, as years of age; None if the classes are no numbers.
    validation_mean_absolute_error: float | None = None


@dataclass
class PrintedRate:
    """The rate of the whole job that a user's program printed."""

    value: float  # in `unit`
    text: str  # the line with the rate, the last one of several
    found_by: str  # RATE or TIME, a pattern of the user; or the kind of a known log
    unit: str = ""  # as printed, or stated by the user; "": neither
    count: Count = 1  # of the printed rates that count
    number: str = ""  # as read, with its unit: "73.7 s"; of several the last one; "": not recorded


@dataclass
class GpuUsage:
    """A GPU while a user's program ran, sample by sample; all lists are of one length. None: it does not say."""

    gpu: str  # as in CUDA_VISIBLE_DEVICES
    at_s: list[float] = field(default_factory=list)  # since the program was started
    fraction: list[float | None] = field(default_factory=list)  # as Usage.gpu_fraction
    memory_bytes: list[int | None] = field(default_factory=list)  # of the whole GPU
    clock_mhz: list[float | None] = field(default_factory=list)  # of its processors
    energy_j: list[float | None] = field(default_factory=list)  # since its driver was loaded


@dataclass
class ProgramFacts:
    """What a user's program was, for a reader who has only the record."""

    command: list[str]  # with its placeholders filled
    files: dict[str, str]  # each file that the command names -> its SHA-256
    version: str  # the first line of the user's version command; "": none was given, or it printed nothing
    libraries: list[str]  # files of well-known libraries that its processes had loaded on this host
    exit_status: int
    cores: CoreUse | None = None  # all those that it was bound to; `own_s` is of its processes that have ended
    compilers: dict[str, str] = field(default_factory=dict)  # each of these files that names its compilers -> these
    # From and to file systems, by its processes on this host that have ended. None: not recorded.
    read_bytes: int | None = None
    written_bytes: int | None = None
    gpus: list[GpuUsage] = field(default_factory=list)  # of device=gpu on this machine


@dataclass
class RunRecord:
    """One run: one launch of one point of an experiment."""

    experiment: str
    point: str
    repeat: Count
    generation: Count
    config_hash: str
    config: dict[str, Any]
    status: Literal["complete", "failed"]
    failure: Failure | None
    started_at: str  # UTC, ISO 8601
    command: list[str]
    job_s: float  # wall time of the job; by hand, without a launcher, it ends with rank 0's last line
    cores_shared: bool  # ranks compete for cores; not if each node is held to its quota
    ranks: list[Rank]  # at the end of the job; of a failed run with what they had measured
    environment: Environment | None
    schema_version: int  # of the file, which may be older; without a default: a file must have it
    kit_version: str = ""  # of the kit that wrote the file
    source_digest: str = ""  # of the code that ran (record/run_files.py)
    swept: Swept = field(default_factory=dict)  # each key that the experiment sweeps -> its value in this run
    arm: str | None = None  # of an experiment that compares arms
    role: Role | None = "point"  # of its arm; None: in rounds each arm has a role, in the configuration
    arm_keys: list[str] = field(default_factory=list)  # the keys in which the arms differ
    learning_rate: float | None = None  # in force, scaled with the ranks; None where nothing is trained
    order: PlanPosition | None = None  # None: started by hand
    rounds_end_s: float | None = None  # when the launcher planned the end of the rounds, after the launch of the job
    enough_rounds: int | None = None  # that count (record/disturbance.py): it may end before; None: it may not
    untimed_steps: dict[str, int] = field(default_factory=dict)  # name of an arm -> steps before each of its windows
    servers: list[Server] = field(default_factory=list)  # on separate nodes
    losses: list[float] = field(default_factory=list)  # of the timed steps, mean over ranks
    epochs: list[Epoch] = field(default_factory=list)
    weights_differ: bool | None = None  # trainable weights of any two ranks after training; None: not compared
    notes: list[str] = field(default_factory=list)  # for a reader of the numbers
    work: Operations | None = None  # None: not counted
    arms_left_out: dict[str, str] = field(default_factory=dict)  # of a launch in rounds: name of an arm -> why
    node_quotas: list[NodeQuota] = field(default_factory=list)  # if nodes are emulated
    printed: PrintedRate | None = None  # by a user's program, which the kit only started; its ranks have no step times
    program: ProgramFacts | None = None  # of a user's program
    attachments: dict[str, str] = field(default_factory=dict)  # file beside this one -> its SHA-256
    sources: dict[str, str] = field(default_factory=dict)  # run.json and the files of its ranks -> their SHA-256
    typed_command: list[str] = field(default_factory=list)  # of make, with its variables; empty: it was not by make
    ledger_line: str = ""  # SHA-256 of the line of the ledger with which its launch began (record/ledger.py)
    ended_at: str = ""  # as the ledger's line of its end says; "": not recorded
    summary: dict[str, float] = field(default_factory=dict)  # for people; analysis never reads it
    sha256: Digest = _NO_CHECKSUM  # of this file with this field's digits set to 0

    @property
    def workers(self) -> int:
        """Return how many workers share the global batch: the ranks, unless one process is several workers."""
        return sum(rank.workers for rank in self.ranks)

    @property
    def emulated(self) -> bool:
        """Return whether CPU quotas emulate its nodes on one machine."""
        return self.config["system"].get("cpu_quota_per_node") is not None

    @property
    def processes(self) -> list[Rank | Server]:
        """Return its ranks, and the servers beside them."""
        return [*self.ranks, *self.servers]


class _Version(msgspec.Struct):
    schema_version: int
    kit_version: str = ""


class RunOutcome(_Version, kw_only=True):
    """The few fields of a record by which launches are planned and counted: reading them skips the others."""

    status: Literal["complete", "failed"]
    job_s: float
    sha256: Digest
    summary: dict[str, float] = {}
    program: ProgramFacts | None = None


_version_decoder, _decoder = msgspec.json.Decoder(_Version), msgspec.json.Decoder(RunRecord)
_outcome_decoder = msgspec.json.Decoder(RunOutcome)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a record file, for programs that read records without this kit."""
    _, defined = msgspec.json.schema_components([RunRecord], ref_template="#/$defs/{name}")
    for definition in defined.values():  # Python before 3.13 keeps the indentation of docstrings
        definition["description"] = inspect.cleandoc(definition["description"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Run record, version {SCHEMA_VERSION}",
        "$ref": "#/$defs/RunRecord",
        "$defs": defined,
    }


def digest(text: bytes, sha256: str) -> str:
    """Return the SHA-256 of a record's text with zeros in place of this checksum."""
    return hashlib.sha256(text.replace(sha256.encode(), _NO_CHECKSUM.encode())).hexdigest()


def as_written(text: bytes) -> bytes:
    """Return a record's text as `dumps` wrote it, whatever white space and line ends another program gave it.

    Raises ValueError if it is no JSON, or an object has a key twice.
    """
    return json.dumps(json.loads(text, object_pairs_hook=_unique), separators=(",", ":")).encode()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(unique := dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return unique


def dumps(record: RunRecord) -> bytes:
    """Return the record as JSON text with its checksum. Raises ValueError if a number is not finite: JSON has none."""
    # Not asdict, which would copy each of a million times by itself. A number of NumPy becomes a plain one.
    fields = msgspec.to_builtins(record, enc_hook=lambda number: number.item())
    fields |= {"sha256": _NO_CHECKSUM, "schema_version": SCHEMA_VERSION, "kit_version": this_kit.version()}
    for rank in fields["ranks"]:
        for holder in (rank, *rank["windows"], *rank["exchanges"]):
            ticks.pack(holder)
    text = json.dumps(fields, allow_nan=False, separators=(",", ":")).encode()
    checksum = digest(text, _NO_CHECKSUM)
    return text.replace(f'"sha256":"{_NO_CHECKSUM}"'.encode(), f'"sha256":"{checksum}"'.encode())


def _utf8(text: bytes) -> bytes:
    """Return a JSON text in UTF-8 and without a byte-order mark, which editors add."""
    return text if text.startswith(b"{") else text.decode(json.detect_encoding(text)).encode()


def _decoded(text: bytes, where: str) -> RunRecord:
    """Return the record, migrated if its version is older. Raises RecordError for a version that cannot be migrated."""
    text = _utf8(text)
    file = _version_decoder.decode(bounded.check_json(text))
    _check_version(file, where)
    if file.schema_version == SCHEMA_VERSION:
        return _decoder.decode(text)
    try:
        fields = migrations.migrate(msgspec.json.decode(text), file.schema_version)
    except (LookupError, TypeError, AttributeError) as error:
        raise RecordError(f"{where}: not a record of version {file.schema_version}: {error!r}") from error
    return msgspec.convert(fields, RunRecord)


def _check_version(file: _Version, where: str) -> None:
    if reason := migrations.refusal(file.schema_version, migrations.OLDEST, SCHEMA_VERSION, file.kit_version):
        raise RecordError(f"{where}: {reason}")


def _check_digest(text: bytes, sha256: str, where: str) -> None:
    """Raise RecordError for a text with another checksum, ValueError for one in which an object has a key twice."""
    if digest(text, sha256) != sha256 and digest(as_written(text), sha256) != sha256:
        raise RecordError(f"{where}: its content does not match its sha256: edited after it was written")


def load_outcome(path: Path) -> RunOutcome:
    """Return the outcome of the record in the file `path`. Raises RecordError if it cannot be read or trusted."""
    text = record_bytes(path)
    try:
        outcome = _outcome_decoder.decode(bounded.check_json(_utf8(text)))
        _check_version(outcome, str(path))
        _check_digest(text, outcome.sha256, str(path))
    except ValueError as error:
        raise RecordError(f"{path}: not a whole run record: {error}") from error
    return outcome


def loads(text: bytes, where: str) -> RunRecord:
    """Return the record in `text`. Raises RecordError naming `where` and the fault: version, key, truncation, edit."""
    try:
        record = _decoded(text, where)
        recorded_config.check(record.config)
        _check_digest(text, record.sha256, where)
    except ValueError as error:  # ValidationError names the key
        raise RecordError(f"{where}: not a whole run record: {error}") from error
    for rank in record.ranks:
        rank.warm_up_step_times_s = ticks.seconds(rank.warm_up_step_times_s)
        holders: list[Rank | Window] = [rank, *rank.windows, *rank.exchanges]
        for holder in holders:
            holder.step_times_s = ticks.seconds(holder.step_times_s)
            holder.compute_times_s = ticks.seconds(holder.compute_times_s)
    return record


def path_text(path: Path | str) -> str:
    """Return a path as text, with escapes for bytes that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def record_bytes(path: Path | str) -> bytes:
    """Return the text of the record file `path`. Raises RecordError if it cannot be read.

    Its path is text in tables and JSON.
    """
    if (where := path_text(path)) != str(path):
        raise RecordError(f"{where}: its path is not UTF-8; rename the folder")
    try:
        return bounded.read(path)
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error


def load(path: Path | str) -> RunRecord:
    """Return the record in the file `path`. Raises RecordError if it cannot be read or trusted."""
    return loads(record_bytes(path), str(path))


def is_backup(path: Path) -> bool:
    """Return whether a record is in a point's folder, but not in one of a launch, as in r0-old: it does not count."""
    point, run = path.parts[-3:-1] if len(path.parts) > 2 else ("", "")
    return bool(re.fullmatch("[0-9a-f]{8}", point) and not RUN_FOLDER.fullmatch(run))


def find(results: Path) -> list[Path]:
    """Return all record files below the folder `results`, sorted, without those that are backups."""
    paths = (path for path in results.glob(f"*/*/*/*/{RECORD_NAME}") if not is_backup(path))
    return sorted(paths, key=lambda path: path.parts)  # faster than by themselves


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))
