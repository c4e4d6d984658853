"""The configuration in a record, for its readers: types and ranges of its values, derived values, its hash.

A record may come from anybody. Missing keys are not checked: readers have defaults for them. Two runs with the same
hash are repeats. The hash is computed from the values in a record, so that a reader can compute it again.
"""

import hashlib
import json
import math
import re
from collections.abc import Container, Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

# Values of `distribution.backend`.
# Each rank applies its gradients by itself: this is not synchronous SGD, and steps of different ranks are independent.
ASYNCHRONOUS = frozenset({"ps"})
# Data between the ranks is carried over gRPC, on CPUs: these are strategies of TensorFlow.
STRATEGIES = frozenset({"mwms", "ps"})
# One process computes for all ranks of a point, each on a separate device (a tower); variables are on the CPU.
TOWERS = frozenset({"ps_cpu"})
PROGRAM = "program"  # in tables: a user's own program, which joins its processes itself

# An upper bound, so that loops and lists of a reader end.
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
_Positive = Annotated[int, Meta(ge=1, le=1_000_000)]
Size = Annotated[int, Meta(ge=0, le=2**53)]  # of images, parameters, bytes
_Number = Annotated[float, Meta(ge=0, le=1e15)]
_Name = Annotated[str, Meta(max_length=1000)]
Swept = dict[str, str | int | float | bool | list[Any] | None]
# Names, paths, estimates, repeats: dotted keys (a section: all keys in it) that do not change what is measured.
NOT_MEASURED = frozenset(
    (
        *("rounds_end_s", "experiment", "tracking", "results", "assumed", "derived", "distribution.port"),
        *("rounds.role", "model.parameters", "model.activation_bytes_per_image", "dataset.ordered", "dataset.data_dir"),
        *("measure.name", "measure.repeats", "measure.batch_per_rank", "measure.global_batch", "measure.total_steps"),
        *("measure.usage_period_s", "measure.design", "measure.precision_fraction", "measure.budget_s"),
        *("measure.controls", "measure.curve_budget_s", "measure.compete", "measure.separate_launches"),
        *(
            "launcher.timeout_s",
            "launcher.starts",
            "launcher.by_hand",
            "launcher.cores_fraction",
            "launcher.flat_within_fraction",
        ),
        *("launcher.hosts", "launcher.order", "launcher.split", "launcher.assumed_run_s", "launcher.time_limit_s"),
        *("container.image", "container.mpi_home"),
        *("program.name", "program.rate", "program.time", "program.time_of", "program.unit", "program.scaling"),
        *("program.pick", "program.skip", "program.decimal", "program.each_rank", "program.version"),
        *("program.problem", "program.folder", "program.here", "program.confirmed", "program.file"),
        *("program.exit_status", "system.name", "system.emulate"),
        *("system.trust_others", "system.account", "system.longest_s", "system.remark"),
    )
)
# Today's name of a key -> its name in hashes, which keep the first one: a new name is no other measurement.
_HASHED_NAMES = {"system.cpu_quota_per_node": "system.cpus_per_node"}
# Keys that a launcher adds to a configuration that measures several points in one launch.
LAUNCH_PLAN = frozenset({"rounds", "rank_groups", "rank_groups_at_once", "join_in_turn"})
# Keys that an allreduce sweep does not use.
TRAINING_ONLY = LAUNCH_PLAN.union(
    ("model", "dataset", "optimizer", "measure", "precision", "batch_per_rank", "global_batch", "seed", "weights"),
    ("distribution.compression", "distribution.backward_passes_per_step", "distribution.op", "distribution.autotune"),
    ("distribution.timeline", "distribution.onednn"),
)


# Keys that a user's program does not use: it has no model, data or exchange of the kit.
_OF_TRAINING = frozenset({"model", "dataset", "optimizer", "precision", "weights", "assumed", "allreduce_sweep"})
BATCHES = ("batch_per_rank", "global_batch")
_GIVEN_BATCH = re.compile(rf"\{{(?:{'|'.join(BATCHES)})\}}")  # placeholders of a program's command


def nodes_share_machine(config: Mapping[str, Any]) -> bool:
    """Return whether the nodes of a recorded run shared the machine of its launcher.

    The first records do not say so: their launchers were local, emulated, ssh, slurm and pbs.
    """
    launcher = config["launcher"]
    return bool(launcher.get("starts", "here" if launcher["name"] in ("local", "emulated") else "") == "here")


class _Named(msgspec.Struct):
    name: _Name = ""


class _Model(_Named):
    image_size: Count | None = None
    parameters: Size | None = None


class _Distribution(msgspec.Struct):
    backend: _Name = ""
    allreduce: bool = True
    controller: _Name = ""
    gradients: _Name = ""
    cycle_time_ms: _Number | None = None
    backward_passes_per_step: _Positive = 1
    timeline: bool = False
    servers: Count = 1
    servers_on: _Name = ""


class _Measure(_Named):
    warm_up_steps: Size = 0
    timed_steps: Size = 0
    repeats: Count = 0
    total_steps: Size | None = None
    epochs: Count = 0
    budget_s: _Number | None = None
    compete: bool = False


class _Launcher(_Named):
    cores_fraction: Annotated[float, Meta(gt=0, le=1)] = 1.0
    flat_within_fraction: _Number = 0.0


class _Program(_Named):
    command: str = ""
    rate: str | None = None
    scaling: _Name | None = None
    confirmed: _Name | None = None


class _System(_Named):
    cores_per_node: Count | None = None
    cpu_quota_per_node: Annotated[float, Meta(ge=1e-6, le=1e6)] | None = None
    link_mbit_per_s: _Number | None = None


class RoundArm(msgspec.Struct, frozen=True):
    """One of the points that a launch measures in rounds: the first `nodes` nodes of the job, or of a rank group."""

    name: _Name
    nodes: _Positive
    ranks: _Positive
    batch_per_rank: _Positive
    allreduce: bool = True
    arm: _Name | None = None  # the name of an arm of the experiment, or of a control
    role: str = "point"  # as Role of record/schema.py
    swept: Swept = {}  # swept key -> this point's value
    rank_group: Count = 0  # the rank group that measures it
    link_mbit_per_s: _Number | None = None  # as system.link_mbit_per_s
    reads: bool = False  # each batch is read from files; else the same one stays in memory
    backward_passes_per_step: _Positive = 1  # as distribution.backward_passes_per_step


class RankGroup(msgspec.Struct, frozen=True):
    """Ranks of a launch that are joined only among themselves: for arms that cannot share a process."""

    settings: dict[str, Any]  # dotted key -> value: where its ranks differ from the launch's configuration
    first_rank: Count  # its ranks are consecutive ranks of the job
    ranks: _Positive


class _AllreduceSweep(msgspec.Struct):
    rounds: Count = 0


class _Config(msgspec.Struct):
    model: _Model | None = None
    dataset: _Named | None = None
    optimizer: _Named | None = None
    distribution: _Distribution = msgspec.field(default_factory=_Distribution)
    measure: _Measure = msgspec.field(default_factory=_Measure)
    launcher: _Launcher = msgspec.field(default_factory=_Launcher)
    container: _Named | None = None
    system: _System = msgspec.field(default_factory=_System)
    tracking: _Named | None = None
    device: _Name = ""
    precision: _Name = ""
    nodes: _Positive = 1
    ranks_per_node: _Positive = 1
    threads_per_rank: Count | None = None
    batch_per_rank: _Positive | None = None
    global_batch: Size | None = None
    seed: Annotated[int, Meta(ge=-(2**53), le=2**53)] = 0  # a column of the table is read as floating point
    rounds: list[RoundArm] | None = None
    rank_groups: list[RankGroup] | None = None
    rank_groups_at_once: bool = False
    allreduce_sweep: _AllreduceSweep | None = None
    program: _Program | None = None
    assumed: list[_Name] = []
    derived: list[_Name] = []


def check(config: dict[str, Any]) -> None:
    """Raise msgspec.ValidationError, which names the key, if a value has another type or is out of its range."""
    msgspec.convert(config, _Config)


def has_batch(command: str) -> bool:
    """Return whether a program's command is given the batch: then its work is known, and how it changes with ranks."""
    return bool(_GIVEN_BATCH.search(command))


def recorded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration as a record keeps it: that of run.json, without the keys that the run does not use.

    With autotune Horovod chooses the tuned settings itself. The end of the rounds is beside the configuration.
    """
    if program := values.get("program"):
        unused = _OF_TRAINING.union(() if has_batch(program["command"]) else BATCHES, ("rounds_end_s",))
        used = {key: value for key, value in values.items() if key not in unused}
        return used | {"distribution": {"backend": PROGRAM, "controller": "", "allreduce": True}}
    settings = values["distribution"]
    not_used = {
        "dataset": () if values["dataset"].get("files") else ("data_dir", "on_damaged", "augmentation"),
        "distribution": (
            *(("cycle_time_ms", "fusion_threshold_bytes") if settings.get("autotune") else ()),
            "commit_steps",  # of elastic training, which older kits had
            *(() if settings.get("timeline") else ("timeline",)),
            *(() if settings["backend"] in ASYNCHRONOUS else ("servers", "servers_on")),
        ),
    }
    recorded = {name: value for name, value in values.items() if name not in ("program", "rounds_end_s")}
    for name, keys in not_used.items():
        recorded[name] = {key: value for key, value in values[name].items() if key not in keys}
    return recorded


def backward_passes(config: Mapping[str, Any]) -> int:
    """Return the backward passes of a step: each takes a batch of the rank."""
    return int(config["distribution"].get("backward_passes_per_step", 1))


def step_batch(config: Mapping[str, Any]) -> int:
    """Return the images that a rank takes in a step."""
    return int(config["batch_per_rank"] * backward_passes(config))


def arm_step_batch(arm: Mapping[str, Any]) -> int:
    """Return the images that a rank takes in a step of an arm of a launch in rounds."""
    return int(arm["batch_per_rank"] * arm.get("backward_passes_per_step", 1))


def scaled_learning_rate(learning_rate: float, scaling: str, batches: int) -> float:
    """Return the learning rate of a job: the configured one, scaled (none, linear, sqrt) with the batches of a step.

    batches: one for each rank and each of its backward passes.
    """
    return learning_rate * {"none": 1.0, "linear": float(batches), "sqrt": math.sqrt(batches)}[scaling]


def is_measured(key: str) -> bool:
    """Return whether a dotted key changes what is measured: neither it nor its section is in NOT_MEASURED."""
    return not any(key == listed or key.startswith(f"{listed}.") for listed in NOT_MEASURED)


def flat(nested: Mapping[str, Any], unused: Container[str] = (), prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted key, without the keys and sections `unused`."""
    leaves: dict[str, Any] = {}
    for name, value in nested.items():
        if (key := f"{prefix}{name}") not in unused:
            leaves |= flat(value, unused, f"{key}.") if isinstance(value, Mapping) and value else {key: value}
    return leaves


def hashed_name(key: str) -> str:
    """Return the name of a dotted key in hashes."""
    return _HASHED_NAMES.get(key, key)


def values_hash(values: Mapping[str, Any], without: Iterable[str] = ()) -> str:
    """Return the hexadecimal SHA-256 of the values of a resolved configuration that change what is measured.

    without: further dotted keys to leave out.
    """
    unused = NOT_MEASURED.union(without, () if values.get("allreduce_sweep") is None else TRAINING_ONLY)
    return hashlib.sha256(json.dumps(_without(values, unused), sort_keys=True).encode()).hexdigest()


def _without(value: Any, unused: frozenset[str], prefix: str = "") -> Any:
    """Return the value without the keys whose dotted name is among `unused`; the items of a list share its name."""
    if isinstance(value, list):
        return [_without(item, unused, prefix) for item in value]
    if not isinstance(value, Mapping):
        return value
    used = {f"{prefix}{name}": inner for name, inner in value.items() if f"{prefix}{name}" not in unused}
    return {hashed_name(key).rpartition(".")[2]: _without(inner, unused, f"{key}.") for key, inner in used.items()}
