"""The schema of conf/: every value that a run can be given, its type, its unit, and what may stand together."""

import math
from dataclasses import dataclass, field

from train.models import MODELS

# Models whose ImageNet weights tf_keras.applications has: its module, and the name there.
PRETRAINED = {
    "inceptionv3": ("inception_v3", "InceptionV3"),
    "resnet101v2": ("resnet_v2", "ResNet101V2"),
    "resnet50": ("resnet", "ResNet50"),
    "vgg16": ("vgg16", "VGG16"),
    "vgg19": ("vgg19", "VGG19"),
}
REMOTE = ("ssh", "slurm")  # launchers whose nodes are hosts of their own; else all nodes share this machine


class ConfigError(Exception):
    """A wrong name, type, unit or combination: says which key, what was given, what is allowed."""


class DoesNotDivide(ConfigError):
    """The ranks cannot share the global batch equally; an experiment goes on with its other points."""


def _check(condition: bool, key: str, given: object, allowed: str) -> None:
    if not condition:
        raise ConfigError(f"{key}={given}: {allowed}")


def _check_choice(key: str, given: str, allowed: tuple[str, ...]) -> None:
    _check(given in allowed, key, given, f"allowed are {', '.join(allowed)}")


@dataclass
class Model:
    """A network, and the sizes that estimates of memory and traffic need."""

    name: str
    image_size: int  # pixels, height and width
    parameters: int  # trainable and not, at 1000 classes and 3 channels
    activation_bytes_per_image: int  # of one training step in fp32
    train_layers: str = "all"  # all | classifier: the dense layers alone; those below stay as they start

    def __post_init__(self) -> None:
        """Check the name, the input size and what is trained."""
        _check_choice("model.name", self.name, tuple(sorted(MODELS)))
        _check_choice("model.train_layers", self.train_layers, ("all", "classifier"))
        _check(self.image_size >= 8, "model.image_size", self.image_size, "at least 8 pixels")


@dataclass
class Augmentation:
    """How training images are varied. Each amount is the largest; every sample draws its own below it, uniformly."""

    flip: bool = False  # left to right, every second image
    shift_fraction: float = 0.0  # of the height up or down and of the width to either side, in whole pixels
    zoom_in_fraction: float = 0.0  # 0.2: up to 1.2 times larger
    rotation_degrees: float = 0.0  # to either side
    fill: str = "nearest"  # what comes in from outside: nearest (the pixel at the edge) | zero
    crop_area_fraction: float = 1.0  # below 1: a random part of the image, at least as much of its area, is stretched

    def __post_init__(self) -> None:
        """Check names and ranges."""
        _check_choice("dataset.augmentation.fill", self.fill, ("nearest", "zero"))
        for key in ("shift_fraction", "zoom_in_fraction", "crop_area_fraction"):
            _check(0 <= getattr(self, key) <= 1, f"dataset.augmentation.{key}", getattr(self, key), "must be 0 to 1")
        _check(self.crop_area_fraction > 0, "dataset.augmentation.crop_area_fraction", 0, "must be above 0")
        _check(
            0 <= self.rotation_degrees <= 180,
            "dataset.augmentation.rotation_degrees",
            self.rotation_degrees,
            "must be 0 to 180 degrees",
        )


@dataclass
class Dataset:
    """What the ranks read."""

    name: str
    classes: int
    channels: int
    ordered: bool = False  # the classes are the whole numbers from 0, as ages: their expectation has an error
    validation_fraction: float = 0.0  # of the samples, split off by a fixed seed where the data comes unsplit
    training_samples: int | None = None  # at most so many, chosen by a fixed seed; null: all
    validation_samples: int | None = None
    files: bool = False  # it is read from files that the user has, below data_dir
    data_dir: str | None = None
    on_damaged: str = "skip"  # skip (counted and named in the record) | error
    augmentation: Augmentation | None = None  # of the training images; null: as they are

    def __post_init__(self) -> None:
        """Check names and ranges."""
        _check_choice("dataset.on_damaged", self.on_damaged, ("skip", "error"))
        _check(
            0 <= self.validation_fraction < 1,
            "dataset.validation_fraction",
            self.validation_fraction,
            "must be 0 or more and below 1",
        )
        for key in ("training_samples", "validation_samples"):
            given = getattr(self, key)
            _check(given is None or given >= 1, f"dataset.{key}", given, "must be 1 or more, or null for all")
        _check(
            bool(self.data_dir) or not self.files,
            "dataset.data_dir",
            self.data_dir,
            f"give the folder that holds {self.name}; docs/data.md says where to get it and how it must look",
        )


def scaled_learning_rate(learning_rate: float, scaling: str, ranks: int) -> float:
    """The learning rate of a run: the configured one, times what the rule makes of the number of ranks."""
    return learning_rate * {"none": 1.0, "linear": float(ranks), "sqrt": math.sqrt(ranks)}[scaling]


@dataclass
class Optimizer:
    """The objective and the update rule, with the usual remedies for large batches.

    A run's learning rate is learning_rate times what learning_rate_scaling makes of the ranks.
    """

    name: str  # sgd | adam | adadelta
    learning_rate: float
    momentum: float  # sgd's; of adam beta_1, of adadelta rho
    learning_rate_scaling: str  # none | linear (x ranks) | sqrt (x square root of ranks)
    warm_up_epochs: float = 0.0  # the learning rate rises from 1/ranks of its value to it, step by step
    label_smoothing: float = 0.0  # the share of the target that goes to all classes alike
    weight_decay: float = 0.0  # weights shrink by learning rate x this each step; biases and normalisation do not

    def __post_init__(self) -> None:
        """Check names and ranges."""
        _check_choice("optimizer.name", self.name, ("sgd", "adam", "adadelta"))
        _check_choice("optimizer.learning_rate_scaling", self.learning_rate_scaling, ("none", "linear", "sqrt"))
        for key, allowed, words in (
            ("learning_rate", 0 < self.learning_rate < math.inf, "must be above 0 and finite"),
            ("momentum", 0 <= self.momentum < 1, "must be 0 or more and below 1"),
            ("warm_up_epochs", 0 <= self.warm_up_epochs < math.inf, "must be 0 or more epochs"),
            ("label_smoothing", 0 <= self.label_smoothing < 1, "must be 0 or more and below 1"),
            ("weight_decay", 0 <= self.weight_decay < math.inf, "must be 0 or more"),
        ):
            _check(allowed, f"optimizer.{key}", getattr(self, key), words)


@dataclass
class Distribution:
    """How the ranks exchange gradients, and Horovod's settings."""

    backend: str  # horovod | none
    allreduce: bool  # false: the ranks run side by side without exchanging gradients, as a control
    controller: str  # gloo | mpi
    gradients: str  # flat: as one tensor | grouped: as one group of tensors | separate: one by one
    cycle_time_ms: float  # how often Horovod's background thread wakes
    fusion_threshold_bytes: int
    elastic: bool = False  # training over epochs goes on with the hosts that live, and takes in those that come back
    commit_steps: int = 10  # elastic: how many steps are lost at most when a host dies

    def __post_init__(self) -> None:
        """Check names and ranges."""
        _check_choice("distribution.backend", self.backend, ("horovod", "none"))
        _check_choice("distribution.controller", self.controller, ("gloo", "mpi"))
        _check_choice("distribution.gradients", self.gradients, ("flat", "grouped", "separate"))
        _check(self.cycle_time_ms > 0, "distribution.cycle_time_ms", self.cycle_time_ms, "must be above 0 ms")
        _check(
            self.fusion_threshold_bytes >= 0,
            "distribution.fusion_threshold_bytes",
            self.fusion_threshold_bytes,
            "must be 0 bytes or more",
        )
        _check(self.commit_steps >= 1, "distribution.commit_steps", self.commit_steps, "must be 1 or more")
        if self.elastic:
            for key, allowed in (("backend", "horovod"), ("controller", "gloo"), ("allreduce", True)):
                given = getattr(self, key)
                _check(given == allowed, f"distribution.{key}", given, f"elastic training needs {str(allowed).lower()}")


@dataclass
class Measure:
    """The measurement protocol: steps of one launch, and launches."""

    name: str
    warm_up_steps: int  # after the first step, before the timed ones
    timed_steps: int
    repeats: int  # independent launches of each point
    batch_per_rank: int  # what experiments that keep the batch per rank take, unless they say otherwise
    global_batch: int  # what experiments that keep the global batch take
    total_steps: int | None = None  # shared out: timed_steps = total_steps // ranks
    epochs: int = 0  # above 0: train that many passes over the data instead of timed_steps
    usage_period_s: float | None = 1.0  # between two samples of a rank's CPU, memory and GPU use; null: none

    def __post_init__(self) -> None:
        """Check ranges."""
        _check(self.warm_up_steps >= 0, "measure.warm_up_steps", self.warm_up_steps, "must be 0 or more")
        _check(self.timed_steps >= 1, "measure.timed_steps", self.timed_steps, "must be 1 or more")
        _check(self.repeats >= 1, "measure.repeats", self.repeats, "must be 1 or more")
        _check(self.epochs >= 0, "measure.epochs", self.epochs, "must be 0 or more")
        period_s = self.usage_period_s
        _check(
            period_s is None or 0.1 <= period_s < math.inf,
            "measure.usage_period_s",
            period_s,
            "must be 0.1 s or more, or null for no samples",
        )


@dataclass
class AllreduceSweep:
    """Allreduces to time instead of training steps: message sizes that double from the smallest to the largest."""

    smallest_bytes: int
    largest_bytes: int
    warm_up: int  # allreduces of each size before the timed ones
    most_timed: int  # timed allreduces of each size
    least_timed: int  # as few as this, where more would take longer than time_per_size_s
    time_per_size_s: float
    probe_s: float  # how long each of the link's and the memory's limits is measured

    def __post_init__(self) -> None:
        """Check ranges."""
        for key in ("smallest_bytes", "largest_bytes"):
            given = getattr(self, key)
            power = given >= 32 and given.bit_count() == 1
            _check(power, f"allreduce_sweep.{key}", given, "must be a power of two, 32 bytes or more")
        _check(
            self.smallest_bytes <= self.largest_bytes,
            "allreduce_sweep.smallest_bytes",
            self.smallest_bytes,
            f"must not be above largest_bytes={self.largest_bytes}",
        )
        _check(self.warm_up >= 1, "allreduce_sweep.warm_up", self.warm_up, "must be 1 or more")
        _check(
            1 <= self.least_timed <= self.most_timed,
            "allreduce_sweep.least_timed",
            self.least_timed,
            f"must be 1 or more, and not above most_timed={self.most_timed}",
        )
        for key in ("time_per_size_s", "probe_s"):
            _check(getattr(self, key) > 0, f"allreduce_sweep.{key}", getattr(self, key), "must be above 0 s")

    @property
    def sizes_bytes(self) -> list[int]:
        """The message sizes, ascending."""
        return [1 << k for k in range(self.smallest_bytes.bit_length() - 1, self.largest_bytes.bit_length())]


@dataclass
class Tracking:
    """Where records are mirrored to."""

    name: str  # wandb | none
    project: str
    entity: str | None
    sync: bool  # upload at the end of an experiment; while it runs nothing touches the network

    def __post_init__(self) -> None:
        """Check names."""
        _check_choice("tracking.name", self.name, ("wandb", "none"))


@dataclass
class Launcher:
    """What starts the ranks."""

    name: str  # local | emulated | ssh | slurm
    timeout_s: int  # a job that takes longer has failed
    cores_fraction: float = 1.0  # emulated: of the machine's cores, what all nodes get together at the largest point
    flat_within_fraction: float = 0.10  # emulated: how far the runs without allreduce may lie from that on fewest nodes
    separate_networks: bool = False  # emulated: each node in a network of its own, linked at system.link_mbit_per_s
    hosts: list[str] = field(default_factory=list)  # ssh: one per node; a point of n nodes takes the first n
    interface: str | None = None  # of the network that carries the allreduce, as ib0; null: that towards the peers
    order: str = "small_first"  # slurm: small_first | large_first, of the points that one allocation runs
    split: bool = False  # slurm: one job a point instead of one allocation for all
    assumed_run_s: int = 300  # slurm: what a run is taken to last where nothing like it was measured yet
    time_limit_s: int | None = None  # slurm: of a job; null: twice the estimate, and ten minutes

    def __post_init__(self) -> None:
        """Check names and ranges."""
        _check_choice("launcher.name", self.name, ("local", "emulated", "ssh", "slurm"))
        _check_choice("launcher.order", self.order, ("small_first", "large_first"))
        for key in ("timeout_s", "assumed_run_s"):
            _check(getattr(self, key) > 0, f"launcher.{key}", getattr(self, key), "must be above 0 seconds")
        for key in ("cores_fraction", "flat_within_fraction"):
            given = getattr(self, key)
            _check(0 < given <= 1, f"launcher.{key}", given, "must be above 0 and at most 1")
        _check(
            self.name == "emulated" or not self.separate_networks,
            "launcher.separate_networks",
            self.separate_networks,
            "needs launcher=emulated",
        )
        _check(
            self.time_limit_s is None or self.time_limit_s >= 60,
            "launcher.time_limit_s",
            self.time_limit_s,
            "must be 60 seconds or more, or null",
        )
        twice = {host for host in self.hosts if self.hosts.count(host) > 1}
        _check(not twice, "launcher.hosts", ",".join(self.hosts), f"named twice: {', '.join(sorted(twice))}")
        _check(
            self.name == "ssh" or not self.hosts,
            "launcher.hosts",
            ",".join(self.hosts),
            f"launcher={self.name} takes none; choose launcher=ssh",
        )


@dataclass
class Container:
    """What the ranks run in: on one machine one container for the whole job, across hosts one for each rank."""

    name: str  # none | docker | podman | singularity
    image: str | None = None  # its name, or the path of the SIF; null: what make image, make sif make for the device
    mpi_home: str | None = None  # folder of a host's MPI, of the image's ABI, in place of the image's own

    def __post_init__(self) -> None:
        """Check names."""
        _check_choice("container.name", self.name, ("none", "docker", "podman", "singularity"))
        for key in ("image", "mpi_home"):
            _check(
                self.name != "none" or getattr(self, key) is None,
                f"container.{key}",
                getattr(self, key),
                "there is no container; choose container=docker, podman or singularity",
            )
        _check(
            self.mpi_home is None or self.mpi_home.startswith("/"),
            "container.mpi_home",
            self.mpi_home,
            "must be an absolute path",
        )


def default_image(engine: str, device: str, mpi_home: str | None) -> str:
    """What `make image` and `make sif` call the image of this engine for that device and MPI."""
    variant = "cuda" if device == "gpu" else "mvapich2" if mpi_home else "cpu"
    return f"images/kit-{variant}.sif" if engine == "singularity" else f"kit:{variant}"


@dataclass
class System:
    """The machine: what one node gives to a job, and what its Slurm wants to know."""

    name: str
    cores_per_node: int | None  # null: all that a host has; where nodes share this machine, its cores // largest number
    cpus_per_node: float | None = None  # cores' worth of time that a node is held to; null: no quota
    link_mbit_per_s: float | None = None  # what a node's link carries in each direction; null: no limit
    emulate: bool = False  # hold nodes to a quota, where it can be had, once they need more cores than there are
    gpus_per_node: int = 0
    partition: str | None = None
    account: str | None = None
    mpi: str = "pmix"  # what srun's --mpi takes for distribution.controller=mpi: see `srun --mpi=list`
    sbatch: list[str] = field(default_factory=list)  # further options of the batch script, as --constraint=haswell
    setup: list[str] = field(default_factory=list)  # shell lines before the run, as module load cuda
    longest_s: int | None = None  # the longest job that the site allows
    remark: str | None = None  # shown before a job is submitted

    def __post_init__(self) -> None:
        """Check ranges."""
        for key in ("cpus_per_node", "link_mbit_per_s"):
            given = getattr(self, key)
            _check(given is None or given > 0, f"system.{key}", given, "must be above 0, or null for no limit")
        _check(
            self.cores_per_node is None or self.cores_per_node >= 1,
            "system.cores_per_node",
            self.cores_per_node,
            "must be 1 or more, or null",
        )
        _check(self.gpus_per_node >= 0, "system.gpus_per_node", self.gpus_per_node, "must be 0 or more")


@dataclass
class Config:
    """One run of one point of an experiment, or, with `sweep` and `arms`, the experiment that spans the points."""

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
    device: str  # cpu | gpu
    precision: str  # fp32 | bf16 | fp16
    nodes: int
    ranks_per_node: int
    threads_per_rank: int | None  # null: the node's cores shared out among its ranks
    batch_per_rank: int | None  # this or global_batch; the other one follows
    global_batch: int | None
    seed: int
    results: str
    weights: str = "none"  # to start from: none (random, from the seed) | imagenet | path of an HDF5 file
    assumed: list[str] = field(default_factory=list)  # keys that the report behind an experiment does not state
    allreduce_sweep: AllreduceSweep | None = None  # null: the run trains
    when_emulated: list[str] = field(default_factory=list)  # overrides that the experiment takes on fractions of a core
    sweep: dict[str, str] = field(default_factory=dict)  # key -> Hydra's comma-separated choices, or a ${rule}
    arms: dict[str, list[str]] = field(default_factory=dict)  # name of an arm -> its overrides

    @property
    def ranks(self) -> int:
        """Horovod processes of the whole job."""
        return self.nodes * self.ranks_per_node

    def __post_init__(self) -> None:
        """Check what may stand together, and work out what follows."""
        _check_choice("device", self.device, ("cpu", "gpu"))
        _check_choice("precision", self.precision, ("fp32", "bf16", "fp16"))
        _check(
            not (self.device == "cpu" and self.precision == "fp16"),
            "precision",
            self.precision,
            "fp16 has no fast path on a CPU; with device=cpu allowed are fp32, bf16",
        )
        _check(self.nodes >= 1, "nodes", self.nodes, "must be 1 or more")
        _check(self.ranks_per_node >= 1, "ranks_per_node", self.ranks_per_node, "must be 1 or more")
        _check(
            self.threads_per_rank is None or self.threads_per_rank >= 1,
            "threads_per_rank",
            self.threads_per_rank,
            "must be 1 or more, or null",
        )
        _check(
            self.distribution.backend == "horovod" or self.ranks == 1,
            "distribution.backend",
            self.distribution.backend,
            f"{self.ranks} ranks need a backend that joins them: horovod",
        )
        _check(
            self.launcher.name != "ssh" or len(self.launcher.hosts) >= self.nodes,
            "launcher.hosts",
            ",".join(self.launcher.hosts) or "none",
            f"{self.nodes} nodes need as many hosts: make ... LAUNCHER=ssh HOSTS=a,b,c",
        )
        self._check_assumed()
        self._check_sweep()
        self._check_emulated()
        self._complete_batch()
        self._complete_image()
        if self.measure.total_steps is not None:
            _check(
                self.measure.total_steps >= self.ranks,
                "measure.total_steps",
                self.measure.total_steps,
                f"{self.ranks} ranks need at least one step each",
            )
            self.measure.timed_steps = self.measure.total_steps // self.ranks
        _check(
            self.launcher.name == "ssh" or not self.distribution.elastic,
            "distribution.elastic",
            self.distribution.elastic,
            "needs launcher=ssh: hosts that can be lost and come back",
        )
        _check(
            self.measure.epochs > 0 or not self.distribution.elastic,
            "distribution.elastic",
            self.distribution.elastic,
            "needs measure.epochs above 0: what is timed on a changing number of ranks is no measurement of scaling",
        )
        _check(self.seed >= 0, "seed", self.seed, "must be 0 or more")
        _check(
            self.weights != "imagenet" or self.container.name == "none",
            "weights",
            self.weights,
            "a container has no folder for them; give the path of a file, or container=none",
        )
        _check(
            self.weights != "imagenet" or (self.model.name in PRETRAINED and self.dataset.channels == 3),
            "weights",
            self.weights,
            f"there are some of three channels, for {', '.join(sorted(PRETRAINED))}; not for {self.model.name} with "
            f"{self.dataset.channels}. Allowed are none, the path of a file of weights",
        )
        if self.dataset.name == "synthetic":
            for key, epochs in (
                ("measure.epochs", self.measure.epochs),
                ("optimizer.warm_up_epochs", self.optimizer.warm_up_epochs),
            ):
                _check(epochs == 0, key, epochs, "synthetic data has no epochs")
            for key in ("training_samples", "validation_samples"):
                _check(getattr(self.dataset, key) is None, f"dataset.{key}", "", "synthetic data has no samples; null")

    def _check_assumed(self) -> None:
        for key in self.assumed:
            value: object = self
            for name in key.split("."):
                _check(value is None or hasattr(value, name), "assumed", key, "no such key of the configuration")
                value = getattr(value, name, None)

    def _complete_image(self) -> None:
        engine = self.container.name
        _check(
            engine not in ("docker", "podman") or self.launcher.name not in REMOTE,
            "container",
            engine,
            f"works on one machine; with launcher={self.launcher.name} allowed are none, singularity",
        )
        if engine != "none" and self.container.image is None:
            self.container.image = default_image(engine, self.device, self.container.mpi_home)

    def _check_sweep(self) -> None:
        if self.allreduce_sweep is None:
            return
        _check(self.ranks >= 2, "nodes", self.nodes, "an allreduce needs 2 ranks or more")
        _check(
            self.distribution.backend == "horovod" and self.distribution.allreduce,
            "distribution",
            f"{self.distribution.backend}, allreduce={self.distribution.allreduce}",
            "an allreduce sweep needs backend=horovod and allreduce=true",
        )

    def _check_emulated(self) -> None:
        _check(
            self.system.link_mbit_per_s is None or self.launcher.separate_networks,
            "system.link_mbit_per_s",
            self.system.link_mbit_per_s,
            "needs launcher=emulated launcher.separate_networks=true",
        )
        if self.launcher.name != "emulated":
            _check(
                self.system.cpus_per_node is None,
                "system.cpus_per_node",
                self.system.cpus_per_node,
                "needs launcher=emulated",
            )
            return
        _check(self.device == "cpu", "device", self.device, "launcher=emulated shares out CPU time; take device=cpu")
        _check(
            self.measure.epochs == 0 and self.allreduce_sweep is None,
            "launcher",
            self.launcher.name,
            "its quotas hold for timed training steps; for epochs and allreduces alone take launcher=local",
        )
        _check(
            not self.launcher.separate_networks
            or (self.distribution.controller == "gloo" and self.container.name == "none"),
            "launcher.separate_networks",
            True,
            "works with distribution.controller=gloo and container=none",
        )

    def _complete_batch(self) -> None:
        batch, total = self.batch_per_rank, self.global_batch
        if batch is None:
            _check(total is not None, "batch_per_rank", batch, "give batch_per_rank or global_batch")
            assert total is not None
            _check(total >= 1, "global_batch", total, "must be 1 or more")
            if total % self.ranks:
                raise DoesNotDivide(
                    f"global_batch={total}: must be a multiple of {self.ranks} ranks "
                    f"(nodes={self.nodes}, ranks_per_node={self.ranks_per_node})"
                )
            self.batch_per_rank = total // self.ranks
        else:
            _check(batch >= 1, "batch_per_rank", batch, "must be 1 or more")
            _check(
                total in (None, batch * self.ranks),
                "global_batch",
                total,
                f"contradicts batch_per_rank={batch} on {self.ranks} ranks; set one of the two to null",
            )
            self.global_batch = batch * self.ranks
