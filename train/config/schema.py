"""The schema of conf/: every value of a run with its type, unit and allowed values, and which values go together.

A field's metadata states its allowed values (train/config/checks.py). Checks of several fields at once are in the
method `rules` of their class. record/recorded_config.py lists the fields that do not change what is measured.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Self, get_type_hints

import msgspec

from record.recorded_config import ASYNCHRONOUS, STRATEGIES, TOWERS, has_batch, is_measured
from train.config import printed, program
from train.config.backends import BACKENDS
from train.config.checks import LeftOut, Rule, allow, check, check_section
from train.models import MODELS
from train.models.applications import PRETRAINED

STATED_ROLES = ("base", "control", "point")  # those that the file of an experiment can give an arm


@dataclass(frozen=True)
class Model:
    """A network, and the sizes that estimates of memory and traffic need."""

    name: str = field(metadata=allow(names=tuple(sorted(MODELS))))
    image_size: int = field(metadata=allow(minimum=8, unit="pixels"))  # height and width
    parameters: int  # trainable and not, at 1000 classes and 3 channels
    activation_bytes_per_image: int  # of one training step in fp32
    # classifier: the dense layers only; the layers below keep their initial weights
    train_layers: str = field(default="all", metadata=allow(names=("all", "classifier")))


@dataclass(frozen=True)
class Augmentation:
    """How training images are varied. Each amount is a maximum; each sample draws uniformly up to it."""

    flip: bool = False  # left to right, with probability 1/2
    # Up to this fraction of the height up or down and of the width left or right, in whole pixels.
    shift_fraction: float = field(default=0.0, metadata=allow(minimum=0, maximum=1))
    zoom_in_fraction: float = field(default=0.0, metadata=allow(minimum=0, maximum=1))  # 0.2: up to 1.2 times larger
    rotation_degrees: float = field(default=0.0, metadata=allow(minimum=0, maximum=180, unit="degrees"))  # either way
    # Pixels from outside the image: nearest (the pixel at the edge) or zero.
    fill: str = field(default="nearest", metadata=allow(names=("nearest", "zero")))
    # Below 1: a random crop of at least this fraction of the area, stretched to the full size.
    crop_area_fraction: float = field(default=1.0, metadata=allow(above=0, maximum=1))


@dataclass(frozen=True)
class Dataset:
    """The data that the ranks read."""

    name: str
    classes: int = field(metadata=allow(minimum=1))
    channels: int = field(metadata=allow(minimum=1))
    # The classes are the integers from 0, such as ages: the error of the expected class is in these units.
    ordered: bool = False
    # The share of the samples that is split off with a fixed seed, if the dataset comes without a split.
    validation_fraction: float = field(default=0.0, metadata=allow(minimum=0, below=1))
    # At most this many, chosen with a fixed seed.
    training_samples: int | None = field(default=None, metadata=allow(minimum=1, null="all"))
    validation_samples: int | None = field(default=None, metadata=allow(minimum=1, null="all"))
    files: bool = False  # read from files below data_dir, which the user provides
    data_dir: str | None = None
    # skip: damaged samples are counted and named in the record
    on_damaged: str = field(default="skip", metadata=allow(names=("skip", "error")))
    augmentation: Augmentation | None = None  # of the training images; null: none

    def rules(self) -> Iterator[Rule]:
        """Yield that a dataset in files has a folder."""
        why = f"give the folder that holds {self.name}, as DATA_DIR=/data/{self.name}; "
        why += "docs/data.md says where to get it and which layout it needs"
        yield bool(self.data_dir) or not self.files, "data_dir", why


@dataclass(frozen=True)
class Optimizer:
    """The loss and the update rule, with the usual measures against the effects of large batches.

    The learning rate of a job is learning_rate, scaled with its ranks and backward passes by learning_rate_scaling
    (`record.recorded_config`).
    """

    name: str = field(metadata=allow(names=("sgd", "adam", "adadelta")))
    learning_rate: float = field(metadata=allow(above=0))
    momentum: float = field(metadata=allow(minimum=0, below=1))  # of SGD; Adam's beta_1, Adadelta's rho
    # none | linear (times ranks x backward passes) | sqrt (times its square root)
    learning_rate_scaling: str = field(metadata=allow(names=("none", "linear", "sqrt")))
    # The learning rate rises linearly, step by step, from 1/ranks of its value.
    warm_up_epochs: float = field(default=0.0, metadata=allow(minimum=0, unit="epochs"))
    label_smoothing: float = field(default=0.0, metadata=allow(minimum=0, below=1))  # spread over all classes
    # Decoupled: each step shrinks the weights by learning rate x this; not biases and normalisation.
    weight_decay: float = field(default=0.0, metadata=allow(minimum=0))


@dataclass(frozen=True)
class Distribution:
    """The backend that joins the ranks, how they exchange gradients, and Horovod's settings."""

    # mwms: TensorFlow's MultiWorkerMirroredStrategy; ps: its ParameterServerStrategy; ps_cpu: one process with a tower
    # for each rank, and variables on the CPU
    backend: str = field(metadata=allow(names=tuple(BACKENDS)))
    allreduce: bool  # false: the ranks run side by side without exchanging gradients, as a control
    controller: str = field(metadata=allow(names=("gloo", "mpi")))
    # flat: as one tensor; grouped: as one group of tensors; separate: one by one
    gradients: str = field(metadata=allow(names=("flat", "grouped", "separate")))
    # Between two cycles of Horovod's background thread.
    cycle_time_ms: float = field(metadata=allow(above=0, unit="ms"))
    fusion_threshold_bytes: int = field(metadata=allow(minimum=0, unit="bytes"))
    # fp16: gradients are cast to 16 bits, summed in 16 bits, and cast back.
    compression: str = field(default="none", metadata=allow(names=("none", "fp16")))
    # The number of batches whose local gradients are averaged, then exchanged and applied, in one step.
    backward_passes_per_step: int = field(default=1, metadata=allow(minimum=1))
    # average | adasum (Maleki et al. 2020, 2006.02924), for each tensor
    op: str = field(default="average", metadata=allow(names=("average", "adasum")))
    # Horovod tries cycle times and fusion thresholds in the first steps, and keeps the best: give it enough warm-up.
    autotune: bool = False
    # Horovod writes what happens to each tensor, which makes each exchange slower: for `make timeline` alone.
    timeline: bool = False
    # always: oneDNN also on processors where TensorFlow leaves it off; tensorflow: its own choice
    onednn: str = field(default="always", metadata=allow(names=("always", "tensorflow")))
    # ps: how many parameter servers
    servers: int = field(default=1, metadata=allow(minimum=1))
    # workers: in the processes of the first ranks, on their cores; nodes: each on a separate node
    servers_on: str = field(default="workers", metadata=allow(names=("workers", "nodes")))
    # mwms, ps: the port of the first rank of a host; the next ranks take the ports after it, with ps three each.
    port: int | None = field(default=None, metadata=allow(minimum=1024, maximum=65535, null="free ones"))

    def rules(self) -> Iterator[Rule]:
        """Yield what Adasum needs, and what a strategy of TensorFlow cannot do."""
        for key, (allowed, why) in BACKENDS[self.backend].items():
            yield getattr(self, key) in allowed, key, why
        if self.op == "adasum" and self.backend == "horovod":
            why = "op=adasum needs another; "
            yield self.controller == "mpi", "controller", why + "set mpi: Gloo has no Adasum"
            yield self.gradients == "separate", "gradients", why + "set separate: it weighs tensor by tensor"

    @property
    def is_strategy(self) -> bool:
        """Return whether TensorFlow joins the ranks, which exchange addresses before it is imported."""
        return self.backend in STRATEGIES

    @property
    def asynchronous(self) -> bool:
        """Return whether each rank applies its gradients by itself: not synchronous SGD."""
        return self.backend in ASYNCHRONOUS

    @property
    def server_nodes(self) -> int:
        """Return the number of nodes that hold nothing but a parameter server."""
        return self.servers if self.asynchronous and self.servers_on == "nodes" else 0

    @property
    def in_one_process(self) -> bool:
        """Return whether one process computes for all ranks of a point, each on a separate device."""
        return self.backend in TOWERS


@dataclass(frozen=True)
class Measure:
    """The measurement protocol: the steps of a launch, and the number of launches."""

    name: str
    warm_up_steps: int = field(metadata=allow(minimum=0))  # after the first step, before the timed ones
    timed_steps: int = field(metadata=allow(minimum=1))
    repeats: int = field(metadata=allow(minimum=1))  # independent launches of each point or curve
    batch_per_rank: int  # default of experiments that keep the batch per rank
    global_batch: int  # default of experiments that keep the global batch
    total_steps: int | None = None  # divided among the ranks: timed_steps = this // ranks
    epochs: int = field(default=0, metadata=allow(minimum=0))  # above 0: train for this many, without timed_steps
    # Between two samples of a rank's CPU, memory and GPU use.
    usage_period_s: float | None = field(default=1.0, metadata=allow(minimum=0.1, unit="s", null="no samples"))

    # rounds: all points of a curve in one launch, if possible; launches: each point in separate launches.
    design: str = field(default="rounds", metadata=allow(names=("rounds", "launches")))
    # Launches end when half the width of the 95 % interval of each speedup is at most this fraction of it.
    precision_fraction: float = field(default=0.05, metadata=allow(above=0, below=1))
    # The time of a command that measures curves in rounds, with all its launches.
    budget_s: float | None = field(
        default=None, metadata=allow(above=0, unit="s", null="curve_budget_s for each curve")
    )
    curve_budget_s: float = field(default=160.0, metadata=allow(above=0, unit="s"))
    # The smaller points of a curve over nodes also have separate launches, for the wall time of a job.
    separate_launches: bool = False
    # The numbers of nodes with a control without allreduce: the largest, all, or none.
    controls: str = field(default="largest", metadata=allow(names=("largest", "all", "none")))
    # Rounds also measure the parts of a step: each point's exchange alone, and each point with its batch in memory.
    split: bool = False
    # The arms compete (train/launch/plan/launches.py): those that are significantly slower are not launched again.
    compete: bool = False


class RoundArm(msgspec.Struct, frozen=True):
    """One of the points that a launch measures in rounds: the first `nodes` nodes of the job, or of a rank group."""

    name: str
    nodes: int
    ranks: int
    batch_per_rank: int
    allreduce: bool
    arm: str | None = None  # the name of an arm of the experiment, or of a control
    role: str = "point"  # as Role of record/schema.py
    swept: dict[str, Any] = {}  # swept key -> this point's value
    rank_group: int = 0  # the rank group that measures it
    link_mbit_per_s: float | None = None  # as system.link_mbit_per_s
    reads: bool = False  # each batch is read from files; else the same one stays in memory
    backward_passes_per_step: int = 1  # as distribution.backward_passes_per_step


class RankGroup(msgspec.Struct, frozen=True):
    """Ranks of a launch that are joined only among themselves: for arms that cannot share a process."""

    settings: dict[str, Any]  # dotted key -> value: where its ranks differ from the launch's configuration
    first_rank: int  # its ranks are consecutive ranks of the job
    ranks: int


class LaunchPlan(msgspec.Struct, frozen=True):
    """The additions of the launcher to the configuration of a launch that measures several points in rounds."""

    rounds: tuple[RoundArm, ...] = ()  # the base of the speedups first; empty: the launch is one point
    rank_groups: tuple[RankGroup, ...] = ()  # empty: all ranks are joined
    # The rank groups measure at the same time, on separate cores that they swap; else one after the other.
    rank_groups_at_once: bool = False
    # Horovod joins the ranks of one arm at a time: in each cycle, ranks that wait would use their nodes' quotas.
    join_in_turn: bool = False
    rounds_end_s: float = 0.0  # after the start of the launch: the launcher divides the budget


@dataclass(frozen=True)
class AllreduceSweep:
    """Allreduces to time instead of training steps: message sizes that double from the smallest to the largest."""

    smallest_bytes: int
    largest_bytes: int
    rounds: int = field(metadata=allow(minimum=1))  # each has all sizes, in a new random order
    warm_up: int = field(metadata=allow(minimum=1))  # allreduces of each size before its first timed ones
    max_timed: int  # timed allreduces of each size, in all rounds
    min_timed: int = field(metadata=allow(minimum=1))  # the number if more would take longer than time_per_size_s
    time_per_size_s: float = field(metadata=allow(above=0, unit="s"))
    probe_s: float = field(metadata=allow(above=0, unit="s"))  # to measure each limit of the link and of the memory

    def rules(self) -> Iterator[Rule]:
        """Yield that sizes are powers of two, and that no minimum is above its maximum."""
        for key in ("smallest_bytes", "largest_bytes"):
            size = getattr(self, key)
            yield size >= 32 and size.bit_count() == 1, key, "must be a power of two, 32 bytes or more"
        for smaller, larger in (("smallest_bytes", "largest_bytes"), ("min_timed", "max_timed")):
            limit = getattr(self, larger)
            yield getattr(self, smaller) <= limit, smaller, f"must not be above {larger}={limit}"

    @property
    def sizes_bytes(self) -> list[int]:
        """Return the message sizes, ascending."""
        return [1 << k for k in range(self.smallest_bytes.bit_length() - 1, self.largest_bytes.bit_length())]


@dataclass(frozen=True)
class Program:
    """A user's own command, which the kit starts and whose printed rate it records (docs/program.md)."""

    name: str  # stands for a model in tables and figures
    command: str  # with placeholders (train/config/program.py); no shell reads it
    rate: str | None = None  # a pattern with {rate}, the rate of the whole job; null, and no time: a known log
    time: str | None = None  # a pattern with {time}, of a step or of the whole run
    time_of: str = field(default="step", metadata=allow(names=("step", "run")))
    unit: str | None = None  # of the rate, as tokens/s; of the time, as ms, if none is printed after it
    # Whether each rank adds work, or all share one problem; null: the batch in the command decides.
    scaling: str | None = field(default=None, metadata=allow(names=("weak", "strong"), null="what its batch says"))
    pick: str | None = field(default=None, metadata=allow(names=tuple(printed.PICKS), null="one rate is printed"))
    skip: int = field(default=0, metadata=allow(minimum=0))  # the first rates, as warm-up
    decimal: str | None = field(default=None, metadata=allow(names=(".", ","), null="as the number shows"))
    each_rank: bool | None = field(default=None, metadata=allow(null="not stated"))  # it is the rate of one rank
    confirmed: str | None = None  # the code with which the user confirms what was read (record/clock.py)
    file: str | None = None  # with the number, which the program writes where it runs; null: its output
    exit_status: int = field(default=0, metadata=allow(minimum=0, maximum=255))  # of a success
    until: str | None = None  # a regular expression: after a line that it matches the program is ended
    until_s: float | None = field(default=None, metadata=allow(above=0, unit="s", null="its end"))
    folder: str | None = None  # where it runs; null: the folder of the launch
    version: str | None = None  # a command whose first line of output is recorded
    problem: str | None = None  # what it computes, in words, for a proposal
    here: str = ""  # the folder that {here} stands for; "": that of the kit

    def rules(self) -> Iterator[Rule]:
        """Yield that the commands and the patterns have no problem, and that the kind of scaling is known."""
        yield not (why := program.command_problem(self.command)), "command", why
        if self.version is not None:
            yield not (why := program.command_problem(self.version)), "version", why
        key = "time" if self.rate is None else "rate"
        yield not (why := printed.problem(self.rate, self.time)), key, why
        yield not (why := program.pattern_problem(self.until)), "until", why
        asked = (
            "the command has no {batch_per_rank} and no {global_batch}: ARGS=program.scaling=weak if each rank adds "
            "work of its own, ARGS=program.scaling=strong if all ranks share one problem"
        )
        yield self.scaling is not None or has_batch(self.command), "scaling", asked
        asked = "how many steps a run has is not known: ARGS=program.scaling=weak if each rank adds work, or strong"
        yield self.scaling is not None or self.time is None or self.time_of != "run", "scaling", asked


@dataclass(frozen=True)
class Tracking:
    """The destination of mirrored records, and which runs are logged while they are in progress."""

    name: str = field(metadata=allow(names=("wandb", "none")))
    project: str
    entity: str | None
    sync: bool  # upload runs that were written offline at the end of an experiment
    # How runs are logged while they train. Offline: nothing connects to a server before `make wandb-sync`.
    mode: str = field(default="offline", metadata=allow(names=("offline", "online")))
    # Log runs while they are in progress, not after the experiment.
    live: bool | None = None  # null: only those that train over epochs
    tags: tuple[str, ...] = ()
    notes: str | None = None
    group: str | None = None  # null: the experiment


# Horovod's launcher takes plain names. Advice on a host with a user, with slots, or of another form.
_HOST_ADVICE = {
    r".*@": "give the name alone, and the user in ~/.ssh/config: Host NAME, User USER",
    r"[^:]+:\d+$": "give the name alone, and the ranks of each host as ranks_per_node",
    "": "a host is a name or an IPv4 address, over which ranks exchange, of letters, digits, dots, hyphens and _",
}


def check_hosts(hosts: tuple[str, ...]) -> None:
    """Raise ConfigError unless each host is a plain name, and named once."""
    duplicates = sorted({host for host in hosts if hosts.count(host) > 1})
    check(not duplicates, "launcher.hosts", ",".join(hosts), f"duplicate: {', '.join(duplicates)}")
    for host in hosts:
        why = next(advice for form, advice in _HOST_ADVICE.items() if re.match(form, host))
        check(re.fullmatch(r"[A-Za-z0-9_][\w.-]*", host, re.ASCII) is not None, "launcher.hosts", host, why)


@dataclass(frozen=True)
class Launcher:
    """The launcher of the ranks. train/launch checks its requirements on the other values."""

    name: str
    # A job that takes longer has failed.
    timeout_s: int = field(metadata=allow(above=0, unit="seconds"))
    # Where and how ranks are started: here, on this machine; over_ssh on others, from this one; by_scheduler on others.
    starts: str = field(default="here", metadata=allow(names=("here", "over_ssh", "by_scheduler")))
    by_hand: bool = True  # ranks can also be started by hand, without this launcher
    # emulated: the fraction of the machine's cores that all nodes together get at the largest point
    cores_fraction: float = field(default=1.0, metadata=allow(above=0, maximum=1))
    # emulated: how far runs without allreduce may differ from the run on the fewest nodes
    flat_within_fraction: float = field(default=0.10, metadata=allow(above=0, maximum=1))
    separate_networks: bool = False  # emulated: each node in its own network, linked at system.link_mbit_per_s
    hosts: tuple[str, ...] = ()  # ssh: one per node; n nodes take the first n
    interface: str | None = None  # network interface of the allreduce, as ib0; null: the one towards the peers
    # batch system: the order of the points in one allocation
    order: str = field(default="small_first", metadata=allow(names=("small_first", "large_first")))
    split: bool = False  # batch system: one job per point, not one allocation for all
    # batch system: the estimate for a run before anything similar is measured
    assumed_run_s: int = field(default=300, metadata=allow(above=0, unit="seconds"))
    # batch system: the limit of a job
    time_limit_s: int | None = field(
        default=None, metadata=allow(minimum=60, unit="seconds", null="twice the estimate and ten minutes")
    )

    def __post_init__(self) -> None:
        """Check the hosts."""
        check_hosts(self.hosts)


@dataclass(frozen=True)
class Container:
    """The container of the ranks: on one machine one container for the whole job, across hosts one for each rank."""

    name: str = field(metadata=allow(names=("none", "docker", "podman", "singularity")))
    # Its name, or the path of the SIF; null: the image that `make image` or `make sif` builds for the device.
    image: str | None = None
    # Folder of the host's MPI, ABI-compatible with the image's, to use in its place.
    mpi_home: str | None = None

    def rules(self) -> Iterator[Rule]:
        """Yield that image and MPI need a container."""
        for key in ("image", "mpi_home"):
            why = "there is no container; choose container=docker, podman or singularity"
            yield self.name != "none" or getattr(self, key) is None, key, why
        absolute = self.mpi_home is None or self.mpi_home.startswith("/")
        yield absolute, "mpi_home", "must be an absolute path"


def default_image(engine: str, device: str, mpi_home: str | None) -> str:
    """Return the name that `make image` and `make sif` give the image of this engine, device and MPI."""
    variant = "cuda" if device == "gpu" else "mvapich2" if mpi_home else "cpu"
    return f"images/kit-{variant}.sif" if engine == "singularity" else f"kit:{variant}"


@dataclass(frozen=True)
class System:
    """The machine: the resources of a node, and the settings that its batch system requires."""

    name: str
    # null: all cores of a host; if nodes share this machine, its cores // the largest number of nodes
    cores_per_node: int | None = field(default=None, metadata=allow(minimum=1, null="all cores of the node"))
    smt: bool = False  # count and use each hardware thread as a core; else a rank has whole cores, one thread of each
    # CPU quota of a node, in cores.
    cpu_quota_per_node: float | None = field(default=None, metadata=allow(above=0, null="no limit"))
    # Bandwidth of a node's link in each direction.
    link_mbit_per_s: float | None = field(default=None, metadata=allow(above=0, unit="Mbit/s", null="no limit"))
    # Emulate nodes with CPU quotas, where possible, when they need more cores than this machine has.
    emulate: bool = False
    trust_others: bool = False  # those who may write to the results folder, as the group of a project
    gpus_per_node: int = field(default=0, metadata=allow(minimum=0))  # 0: as the batch system or the hosts say
    partition: str | None = None  # of Slurm; a queue of another batch system; null: the site's default
    account: str | None = None
    mpi: str = "pmix"  # srun's --mpi with distribution.controller=mpi: see `srun --mpi=list`
    sbatch: tuple[str, ...] = ()  # further options of the batch script, of any system, as --constraint=haswell
    setup: tuple[str, ...] = ()  # shell lines before the run, as module load cuda
    longest_s: int | None = None  # the site's limit on a job's time
    remark: str | None = None  # shown before a job is submitted


@dataclass(frozen=True)
class Reproduced:
    """The part of a report that an experiment reproduces: figures or models by their numbers; neither: a text."""

    report: str  # 000 to 004
    figures: tuple[int, ...] = ()
    models: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunConfig:
    """One run of one point of an experiment."""

    experiment: str
    model: Model
    dataset: Dataset
    optimizer: Optimizer
    distribution: Distribution
    measure: Measure
    tracking: Tracking
    launcher: Launcher
    container: Container
    system: System
    device: str = field(metadata=allow(names=("cpu", "gpu")))
    precision: str = field(metadata=allow(names=("fp32", "bf16", "fp16")))
    nodes: int = field(metadata=allow(minimum=1))
    ranks_per_node: int = field(metadata=allow(minimum=1))
    threads_per_rank: int | None = field(metadata=allow(minimum=1, null="the node's cores // its ranks"))
    # The user gives one of these two, the other is derived.
    batch_per_rank: int | None = field(metadata=allow(minimum=1))
    global_batch: int | None = field(metadata=allow(minimum=1))  # of a step: of all ranks and passes
    seed: int = field(metadata=allow(minimum=0))
    results: str
    # Initial weights: none (random, from the seed) | imagenet | path of an HDF5 file
    weights: str = "none"
    # Keys whose value the report behind an experiment does not state.
    assumed: tuple[str, ...] = ()
    # Keys that the kit derived from others.
    derived: tuple[str, ...] = ()
    allreduce_sweep: AllreduceSweep | None = None  # null: the run trains
    program: Program | None = None  # null: the kit's own training; else the user's command
    launch: LaunchPlan = field(default_factory=LaunchPlan)  # not from conf/: the launcher's plan

    @property
    def ranks(self) -> int:
        """Return the ranks of a point, which share its global batch: all of the job, unless it has rank groups."""
        return self.nodes * self.ranks_per_node

    @property
    def towers(self) -> int:
        """Return the ranks that one process computes for: one, unless all share a process."""
        return self.ranks if self.distribution.in_one_process else 1

    @property
    def processes(self) -> int:
        """Return the processes of a point: its ranks, or one for all; and parameter servers that are no ranks."""
        return self.ranks // self.towers + self.distribution.server_nodes

    def workers_of(self, rank: int) -> int:
        """Return the number of workers, which share the global batch, in a process; 0: it holds a server."""
        return 0 if self.distribution.server_nodes and rank >= self.ranks else self.towers

    @property
    def all_nodes(self) -> int:
        """Return the nodes that a point needs: those of its ranks, and of parameter servers that are no ranks."""
        return self.nodes + self.distribution.server_nodes

    @property
    def step_batch(self) -> int:
        """Return the images that a process takes in a step: the batches of its ranks, for each backward pass."""
        return (self.batch_per_rank or 0) * self.distribution.backward_passes_per_step * self.towers

    @property
    def ranks_of_job(self) -> int:
        """Return the ranks of the whole job, and parameter servers that are no ranks."""
        return sum(group.ranks for group in self.launch.rank_groups) or self.ranks + self.distribution.server_nodes

    def __post_init__(self) -> None:
        """Check each value and each combination, here and in all sections."""
        check_section(self)
        for key in self.assumed:
            value: object = self
            for name in key.split("."):
                check(value is None or hasattr(value, name), "assumed", key, "no such key of the configuration")
                value = getattr(value, name, None)

    def rules(self) -> Iterator[Rule]:
        """Yield the rules between values of different sections."""
        yield from self._rules()
        yield from self._server_rules()
        yield from self._timeline_rules()
        yield from self._batch_rules()

    def _rules(self) -> Iterator[Rule]:
        settings, ranks, epochs = self.distribution, self.ranks, self.measure.epochs
        why = "fp16 has no fast path on a CPU; with device=cpu allowed are fp32, bf16"
        yield self.device != "cpu" or self.precision != "fp16", "precision", why
        linked = self.system.link_mbit_per_s is None or self.launcher.separate_networks
        yield linked, "system.link_mbit_per_s", "needs launcher=emulated launcher.separate_networks=true"
        if self.program:
            yield self.measure.design == "launches", "measure.design", "a program needs launches: each runs one point"
            why = "nodes share cores, and a program cannot be limited to a part of one; take at most one node a core"
            yield self.system.cpu_quota_per_node is None, "system.cpu_quota_per_node", why
        why = f"{ranks} ranks need distribution.backend=horovod, mwms, ps or ps_cpu"
        yield settings.backend != "none" or ranks == 1, "distribution.backend", why
        why = f"needs a power of two of ranks, not {ranks}; change nodes or ranks_per_node, or set op=average"
        yield settings.op != "adasum" or ranks.bit_count() == 1, "distribution.op", why
        if self.allreduce_sweep:
            yield ranks >= 2, "nodes", "an allreduce needs 2 ranks or more"
            why = "an allreduce sweep needs backend=horovod and allreduce=true"
            yield settings.backend == "horovod", "distribution.backend", why
            yield settings.allreduce, "distribution.allreduce", why
        why = (
            f"with distribution.backend={settings.backend} allowed is none: rank 0 alone would assign variables that "
            "all ranks share"
        )
        yield self.weights == "none" or not settings.is_strategy, "weights", why
        if self.weights == "imagenet":
            why = "a container has no folder for them; give the path of a file, or container=none"
            yield self.container.name == "none", "weights", why
            why = (
                f"there are such weights for three channels and {', '.join(sorted(PRETRAINED))}, not for "
                f"{self.model.name} with {self.dataset.channels}. Allowed are none, the path of a file of weights"
            )
            yield self.model.name in PRETRAINED and self.dataset.channels == 3, "weights", why
        if self.dataset.name == "synthetic":
            yield epochs == 0, "measure.epochs", "synthetic data has no epochs"
            yield self.optimizer.warm_up_epochs == 0, "optimizer.warm_up_epochs", "synthetic data has no epochs"
            for key in ("training_samples", "validation_samples"):
                why = "synthetic data has no samples; allowed is null"
                yield getattr(self.dataset, key) is None, f"dataset.{key}", why

    def _server_rules(self) -> Iterator[Rule]:
        """Yield what parameter servers need: asynchronous training has no epochs that all ranks end together."""
        settings, measure = self.distribution, self.measure
        if not settings.asynchronous:
            return
        why = f"allowed are 1 to the number of ranks, {self.ranks} with nodes={self.nodes}"
        yield settings.servers <= self.ranks, "distribution.servers", why, LeftOut
        why = f"distribution.backend={settings.backend} needs another; "
        yield measure.epochs == 0, "measure.epochs", why + "it measures timed steps: give 0"
        synthetic = self.dataset.name == "synthetic"
        yield synthetic, "dataset", why + "its coordinator gives each rank one batch: give synthetic"
        yield not measure.split, "measure.split", why + "no exchange can be measured by itself: give false"
        if settings.server_nodes:  # each is the only process of a node, on all of its cores
            why = "distribution.servers_on=nodes needs "
            yield self.ranks_per_node == 1, "ranks_per_node", why + "1: all nodes have as many processes"
            yield self.device == "cpu", "device", why + "cpu: a server computes nothing on a GPU"

    def _timeline_rules(self) -> Iterator[Rule]:
        """Yield what a timeline needs: timed steps of ranks that exchange, in a launch that measures nothing else."""
        if not self.distribution.timeline:
            return
        why = "distribution.timeline=true needs another; "
        horovod = self.distribution.backend == "horovod"
        yield horovod, "distribution.backend", why + "it is Horovod's: give horovod"
        yield self.ranks >= 2, "nodes", why + "it shows exchanges: give 2 ranks or more"
        yield self.measure.epochs == 0, "measure.epochs", why + "it shows timed steps: give 0"
        yield self.measure.design == "launches", "measure.design", why + "give launches: make timeline"
        yield self.allreduce_sweep is None, "allreduce_sweep", why + "it shows training: make timeline"

    def _batch_rules(self) -> Iterator[Rule]:
        passes, total = self.distribution.backward_passes_per_step, self.measure.total_steps
        times = f" x {passes} backward passes" if passes > 1 else ""
        if self.batch_per_rank is None:
            yield self.global_batch is not None, "batch_per_rank", "give batch_per_rank or global_batch"
            why = f"must be a multiple of {self.ranks} ranks{times} "
            why += f"(nodes={self.nodes}, ranks_per_node={self.ranks_per_node})"
            yield (self.global_batch or 0) % (self.ranks * passes) == 0, "global_batch", why, LeftOut
        elif self.global_batch is not None:
            why = f"contradicts batch_per_rank={self.batch_per_rank} on {self.ranks} ranks{times}; "
            fits = self.global_batch == self.step_batch * (self.ranks // self.towers)
            yield fits, "global_batch", why + "set one of the two to null"
        enough = total is None or total >= self.ranks
        yield enough, "measure.total_steps", f"{self.ranks} ranks need at least one step each"

    def completed(self) -> Self:
        """Return this configuration with the values that are derived from others; `derived` names their keys."""
        completed: dict[str, Any] = {}
        derived: list[str] = []
        if self.batch_per_rank is None:
            assert self.global_batch is not None
            completed["batch_per_rank"] = self.global_batch // (self.ranks * self.distribution.backward_passes_per_step)
            derived.append("batch_per_rank")
        elif self.global_batch is None:
            completed["global_batch"] = self.step_batch * (self.ranks // self.towers)
            derived.append("global_batch")
        if self.measure.total_steps is not None:
            completed["measure"] = replace(self.measure, timed_steps=self.measure.total_steps // self.ranks)
            derived.append("measure.timed_steps")
        if self.container.name != "none" and self.container.image is None:
            image = default_image(self.container.name, self.device, self.container.mpi_home)
            completed["container"] = replace(self.container, image=image)
        return replace(self, **completed, derived=tuple(dict.fromkeys([*self.derived, *derived])))

    def on_cores(self, cores_per_node: int, threads_per_rank: int) -> Self:
        """Return this configuration on nodes with so many cores; threads_per_rank is used if none is configured."""
        system = replace(self.system, cores_per_node=cores_per_node)
        if self.threads_per_rank is not None:
            return replace(self, system=system)
        derived = (*self.derived, "threads_per_rank")
        return replace(self, system=system, threads_per_rank=threads_per_rank, derived=derived)


@dataclass(frozen=True)
class ExperimentConfig:
    """The keys that an experiment varies, and its purpose: only its file sets them, and no record has them."""

    description: str = ""  # on one line: make help ALL=1 prints it
    reproduces: tuple[Reproduced, ...] = ()
    when_emulated: tuple[str, ...] = ()  # overrides that apply if nodes are emulated
    sweep: dict[str, str] = field(default_factory=dict)  # key -> Hydra's comma-separated choices, or a ${rule}
    arms: dict[str, list[str]] = field(default_factory=dict)  # name of an arm -> its overrides
    # Name of an arm -> base (the others are compared with it) or control (without allreduce); of other arms: point.
    roles: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the roles."""
        for arm, role in self.roles.items():
            check(arm in self.arms, f"roles.{arm}", role, f"no such arm; the arms are {', '.join(self.arms) or 'none'}")
            check(role in STATED_ROLES, f"roles.{arm}", role, f"allowed are {', '.join(STATED_ROLES)}")


def is_free_text(key: str) -> bool:
    """Return whether a key, as tracking.notes, holds any text, and changes nothing that is measured."""
    section: Any = RunConfig
    limited = False
    for name in key.split("."):
        metadata = {item.name: item.metadata for item in fields(section)} if is_dataclass(section) else {}
        if name not in metadata:
            return False
        limited = "allowed" in metadata[name]
        section = get_type_hints(section)[name]
    return not is_measured(key) and not limited and section in (str, str | None)
