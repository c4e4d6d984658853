"""One record as rows of the tidy table: the identity of each point that it measured, and its numbers."""

import functools
import math
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import Any, NamedTuple

import msgspec

from analysis import metrics
from analysis.table import hardware, record_checks, tidy_columns
from analysis.table.swept_axis import Facts, leaves
from common.grouping import gathered
from common.terminal import counted
from record import clock, record_summary, recorded_config, rounds
from record import schema as records
from record.disturbance import run_selection
from record.schema import WITHOUT_ALLREDUCE, Failure, Rank, RunRecord

_EPOCH_QUANTITIES = (
    "train_accuracy", "validation_accuracy", "train_loss", "validation_loss", "validation_mean_absolute_error",
)  # fmt: skip
_LAUNCHED = records.PHASES[: records.PHASES.index("warm_up")]  # phases that occur once, before the second step


class RunValue(NamedTuple):
    """One number of a run, with its location in the run."""

    quantity: str
    value: float
    epoch: int | None = None
    message_bytes: int | None = None
    step: int | None = None
    time_s: int | None = None
    round: int | None = None


RunKey = tuple[str, str, str, int, int]  # experiment, point, configuration, repeat; generation of a failed run, else -1


class Measured(NamedTuple):
    """The measurements of one point by one launch."""

    facts: Facts
    cells: tuple[Any, ...]  # shared by all its values, one of each column of the table
    values: dict[str, tuple[Any, ...]]  # used fields of RunValue, as columns: these pass quickly between processes


class TabulatedRun(NamedTuple):
    """One record for the table: one point, or each arm of a launch in rounds."""

    key: RunKey  # the newest generation of each key counts
    generation: int
    points: list[Measured]
    notice: "Notice | None" = None  # of a launch that failed after whole rounds
    launch: clock.ProgramLaunch | None = None  # of a user's program


@dataclass(frozen=True)
class Notice:
    """A record that is not in the table, or not in full, and why."""

    failed: bool  # a run that failed; else a file that cannot be read or trusted
    path: str
    reason: str
    rounds: int = 0  # whole rounds that a failed launch had measured: they count
    settled: int = 0  # of a folder: how many launches failed whose runs are complete since
    key: RunKey | None = field(default=None, compare=False)  # of a failed run
    unconfirmed: bool = False  # the numbers of a user's program, which the clock does not confirm; path: the experiment

    def __str__(self) -> str:
        """Return path and reason, as the commands print them."""
        rounds = f"; it counts with its {counted(self.rounds, 'whole round')}" if self.rounds else ""
        return f"{self.path}: {self.reason}{rounds}"


def tabulate(run: RunRecord, path: str, all_rounds: bool = False) -> TabulatedRun | Notice:
    """Return the run in the record from the file `path`, or a notice of why it is left out.

    all_rounds: also those that do not count, because others disturbed them.
    """
    failed, in_rounds = run.status == "failed", run.config.get("rounds")
    notice = Notice(True, path, _failed(run.failure), key=_key(run)) if failed else None
    if notice and not in_rounds:
        return notice
    try:
        faults = record_checks.faults(run)
        points: list[Measured] = []
        if not (faults or has_timeline(run)):
            points = [*_arms(run, path, all_rounds)] if in_rounds else [_point(run, path, _values(run))]
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        return notice or Notice(False, path, f"a complete run must have it: {type(error).__name__} {error}")
    if faults:
        return Notice(False, path, "; ".join(faults))
    if wrong := [text for point in points for text in _impossible(point)]:
        return Notice(False, path, f"impossible: {', '.join(wrong)}")
    if notice:
        notice = replace(notice, rounds=points[0].values["quantity"].count("images_per_s"))
    return TabulatedRun(_key(run), run.generation, points, notice, clock.program_launch(run))


def has_timeline(run: RunRecord) -> bool:
    """Return whether Horovod wrote its timeline, which slows it down, so that the run is no point."""
    return bool(run.config["distribution"].get("timeline"))


def _failed(failure: Failure | None) -> str:
    """Return why a run failed, with rank, host, phase and step if they are known."""
    if failure is None:
        return "no reason recorded"
    location = {"rank": failure.rank, "host": failure.host, "phase": failure.phase, "step": failure.step}
    parts = [f"{name} {value}" for name, value in location.items() if value is not None]
    return failure.reason + (f" ({', '.join(parts)})" if parts else "")


def _key(run: RunRecord) -> RunKey:
    """Return the key of a repeat, whose newest launch counts; failed launches with whole rounds all count."""
    return run.experiment, run.point, run.config_hash, run.repeat, run.generation if run.status == "failed" else -1


def _point(run: RunRecord, path: str, values: Iterable[RunValue]) -> Measured:
    """Return the numbers of a launch of one point, or of an arm as if it had been launched alone."""
    machine = _machine(run)
    columns = _columns(run, path, machine)
    content = (run.experiment, machine, run.config, run.swept, run.arm, run.arm_keys)
    facts = _facts(msgspec.json.encode(content))
    return Measured(facts, tuple(map(columns.get, tidy_columns.LOCAL_NAMES)), _in_columns(values))


def _arms(run: RunRecord, path: str, all_rounds: bool) -> Iterator[Measured]:
    """Yield the arms of a launch in rounds, with the throughputs of whole rounds that count, or of all of them.

    Raises ValueError without any. Each arm also has the disturbance of all rounds, also of those that do not count.

    On emulated nodes a point of one rank is a control too: it exchanges nothing. If images are read, arms with a batch
    in memory are left out: they only serve to split a step. But controls show whether emulated nodes disturb each
    other: these have their rate a rank alone, as they are no bound of points that read.
    """
    arms, selection = rounds.arms(run.config), run_selection(run)
    complete = rounds.complete_rounds(run).items()
    whole = {number: rates for number, rates in complete if all_rounds or number in selection.counting}
    if not whole:
        raise ValueError("no whole round")
    joules = hardware.window_energy_per_image(run)
    reading = any(arm["reads"] for arm in run.config["rounds"])
    for index, arm in enumerate(arms):
        stated = run.config["rounds"][index]
        in_memory = reading and not stated["reads"]
        if stated["name"] in run.arms_left_out or (in_memory and not (run.emulated and arm.role == "control")):
            continue
        measured = [(number, rates[index]) for number, rates in whole.items() if index in rates]
        if in_memory:
            name = "images_per_s_per_rank"
            by_rank = [RunValue(name, metrics.per_rank(rate, arm.ranks), round=number) for number, rate in measured]
            yield _point(_alone(run, index), path, by_rank)
            continue
        disturbances = selection.disturbances.items()
        values = [RunValue("disturbance_fraction", d, round=number) for number, d in disturbances if d is not None]
        values += [RunValue("disturbance_bound_fraction", selection.bound)] if math.isfinite(selection.bound) else []
        for number, rate in measured:
            values += _rates(rate, arm.ranks, number)
            values += [RunValue(name, value, round=number) for name, value in joules.get((number, index), {}).items()]
        values += starmap(RunValue, hardware.throughput_bounds(run, index).items())
        point = _alone(run, index)
        if index == _full_size_arm(run):
            values += _job(point, metrics.rate(1.0, statistics.fmean(1.0 / rates[index] for rates in whole.values())))
        yield _point(point, path, values)
        if run.emulated and arm.ranks == 1 and stated["allreduce"] and not reading:
            config = point.config | {"distribution": point.config["distribution"] | {"allreduce": False}}
            control = replace(point, config=config, arm=WITHOUT_ALLREDUCE, role="control")
            yield _point(control, path, values)


def _full_size_arm(run: RunRecord) -> int | None:
    """Return the arm that starts like the job of a launch in rounds: the largest point of a curve over nodes.

    None if nodes are emulated, as they start without quotas, or if the launch failed.
    """
    arms = run.config["rounds"]
    if run.status != "complete" or run.arm_keys or run.emulated:
        return None
    largest = (i for i, arm in enumerate(arms) if arm["allreduce"] and arm["nodes"] == run.config["nodes"])
    return next((i for i in largest if "nodes" in arms[i]["swept"] and arms[i]["role"] == "point"), None)


def _job(point: RunRecord, images_per_s: float) -> Iterator[RunValue]:
    """Yield the times of a job of the largest point of a curve, from its launch in rounds, without its other arms.

    Until the first step both do the same. Then follow as many steps as in launches of single points, at the rate in
    rounds [images/s].
    """
    measure, images = point.config["measure"], point.config["global_batch"]
    step_s = images / images_per_s
    slowest = max(point.ranks, key=lambda rank: sum(rank.phases_s[name] for name in _LAUNCHED))
    phases_s = {name: slowest.phases_s[name] for name in _LAUNCHED}
    phases_s |= {"warm_up": measure["warm_up_steps"] * step_s, "timed": measure["timed_steps"] * step_s}
    phases_s |= {"exit": slowest.phases_s.get("exit", 0.0)}
    yield RunValue("wall_s", sum(phases_s[name] for name in records.WALL_PHASES))
    yield RunValue("job_s", sum(phases_s.values()))
    yield RunValue("images", images * (1 + measure["warm_up_steps"] + measure["timed_steps"]))
    yield RunValue("steps_per_rank", measure["timed_steps"])
    yield from _phases(phases_s)


def _phases(phases_s: Mapping[str, float]) -> Iterator[RunValue]:
    return (RunValue(sys.intern(f"phase_{name}_s"), seconds) for name, seconds in phases_s.items())


def _alone(run: RunRecord, index: int) -> RunRecord:
    """Return the record as if one arm had been launched alone, in the fields that identify the point."""
    arm, config = run.config["rounds"][index], rounds.config_of(run.config, index)
    ranks = [run.ranks[rank] for rank in rounds.ranks_of(run.config, index)]
    return replace(run, config=config, swept=run.swept | arm["swept"], arm=arm["arm"], role=arm["role"], ranks=ranks)


@functools.lru_cache(maxsize=256)
def _facts(content: bytes) -> Facts:
    """Return the facts of a point; its repeats share them."""
    experiment, machine, config, swept, arm, arm_keys = msgspec.json.decode(content)
    return Facts(experiment, machine, leaves(config), config.get("derived", []), swept, arm, arm_keys)


def _machine(run: RunRecord) -> str:
    if run.environment is None or not run.environment.hosts:
        return "machine not recorded"
    host = run.environment.hosts[0]
    processor = host.gpus[0] if run.config["device"] == "gpu" and host.gpus else host.cpu_model
    name = f"{processor}, {counted(host.cores, 'hardware thread' if run.config['system'].get('smt') else 'core')}"
    cpus = run.config["system"].get("cpu_quota_per_node")
    return name if cpus is None else f"{name}; emulated: {100 * cpus:.4g} % of a core a node"


def _max_nodes(run: RunRecord) -> int | None:
    """Return how many nodes like these the machine holds; None where each node is a host, or if it is not known."""
    launcher, system = run.config["launcher"], run.config["system"]
    if not recorded_config.nodes_share_machine(run.config) or run.environment is None or not run.environment.hosts:
        return None
    host = run.environment.hosts[0]
    if run.config["device"] == "gpu":
        return max(1, len(host.gpus) // run.config["ranks_per_node"])
    cores = system.get("cpu_quota_per_node") or system.get("cores_per_node")
    return max(1, int(launcher["cores_fraction"] * host.cores / cores)) if cores else None


def _operations(run: RunRecord) -> str:
    """Return the library that carried data between ranks: NCCL if built in and on GPUs, else the controller.

    A strategy of TensorFlow brings its own NCCL and gRPC. Parameter servers have no NCCL. In-process replicas share
    memory.
    """
    backend = run.config["distribution"]["backend"]
    if backend in recorded_config.TOWERS:
        return "memory"
    strategy = backend in recorded_config.STRATEGIES
    if backend in recorded_config.ASYNCHRONOUS:
        return "grpc"
    built = ["nccl"] if strategy else run.environment.horovod_built_with if run.environment else []
    if run.config["device"] == "gpu" and "nccl" in built:
        return "nccl"
    return "grpc" if strategy else run.config["distribution"]["controller"]


def _gpu(run: RunRecord) -> str:
    hosts = run.environment.hosts if run.environment and run.config["device"] == "gpu" else []
    return next((host.gpus[0] for host in hosts if host.gpus), "")


# Columns that have the value of a field of the record, or of a key of its configuration.
_OF_RUN = ("experiment", "repeat", "role", "cores_shared", "started_at", "generation", "learning_rate")
_OF_CONFIG = ("device", "nodes", "ranks_per_node", "seed")


def _columns(run: RunRecord, path: str, machine: str) -> dict[str, Any]:
    config = run.config
    cpus = config["system"].get("cpu_quota_per_node")
    unit = (run.printed.unit if "/" in run.printed.unit else "1/s") if run.printed else ""
    trained = _training_columns(config, unit) if config.get("allreduce_sweep") is None else {}
    columns = trained | {name: getattr(run, name) for name in _OF_RUN} | {name: config[name] for name in _OF_CONFIG}
    return columns | {
        "source": "local",
        "report": "",
        "place": path,
        "run": run.config_hash[:8],
        "gpu": _gpu(run),
        "machine": machine,
        "threads_per_rank": config["threads_per_rank"] or min(len(rank.cores) for rank in run.ranks) or None,
        "ranks": run.workers,
        "kind": "control" if run.role == "control" else "measured",
        "note": "; ".join(run.notes),
        "record": path,
        "server_cores": sum(len(server.cores) for server in run.servers),
        "measure": config["measure"]["name"],
        "backend": recorded_config.PROGRAM if config.get("program") else config["distribution"]["backend"],
        "allreduce": config["distribution"]["allreduce"],
        "operations": _operations(run),
        "cycle_time_ms": config["distribution"].get("cycle_time_ms"),
        "gradients": config["distribution"].get("gradients", ""),
        "cpu_quota_per_node": cpus,
        "link_mbit_per_s": config["system"].get("link_mbit_per_s"),
        "max_nodes": _max_nodes(run),
        "assumed": ", ".join(config.get("assumed", [])),
        "flat_within_fraction": config["launcher"]["flat_within_fraction"] if cpus is not None else None,
    }


def _training_columns(config: dict[str, Any], unit: str) -> dict[str, Any]:
    """Return the columns that a run without a model leaves blank; a user's program has a name, a unit and batches."""
    if program := config.get("program"):
        return {"model": program["name"], "unit": unit} | _program_batch(config, program.get("scaling"))
    return {
        "model": config["model"]["name"],
        "dataset": config["dataset"]["name"],
        "batch_per_rank": recorded_config.step_batch(config),  # of all passes of a step
        "global_batch": config["global_batch"],
        "precision": config["precision"],
        "optimizer": config["optimizer"]["name"],
        "image_size": config["model"].get("image_size"),
        "parameters": config["model"].get("parameters"),
    }


def _program_batch(config: dict[str, Any], scaling: str | None) -> dict[str, Any]:
    """Return the batches of a user's program; without one a rank's share of the work, or the work, counts as one."""
    if "global_batch" in config:
        return {name: config[name] for name in ("batch_per_rank", "global_batch")}
    ranks = config["nodes"] * config["ranks_per_node"]
    return {"batch_per_rank": 1, "global_batch": ranks} if scaling == "weak" else {"global_batch": 1}


def _values(run: RunRecord) -> Iterator[RunValue]:
    """Yield the numbers of a complete record. Phases are of the rank with the longest wall time: they add up."""
    slowest = run.ranks[0]
    if run.printed:
        yield from _rates(run.printed.value, run.workers)
    elif slowest.allreduces:
        slowest = max(run.ranks, key=lambda rank: rank.phases_s["timed"])
        yield from _allreduces(run)
    else:
        # Training over epochs has no warm-up.
        needed = [name for name in records.WALL_PHASES if name != "warm_up" or not run.epochs]
        wall = [sum(map(rank.phases_s.__getitem__, needed)) for rank in run.ranks]
        slowest = run.ranks[wall.index(max(wall))]
        yield from _training(run, slowest)
        yield RunValue("wall_s", max(wall))
    yield RunValue("job_s", run.job_s)
    yield RunValue("peak_memory_bytes", max(rank.peak_memory_bytes for rank in run.ranks))
    yield from _phases(slowest.phases_s)


def _rates(images_per_s: float, ranks: int, number: int | None = None) -> Iterator[RunValue]:
    """Yield the rate of a job, or of one of its rounds, and that of a rank."""
    yield RunValue("images_per_s", images_per_s, round=number)
    yield RunValue("images_per_s_per_rank", metrics.per_rank(images_per_s, ranks), round=number)


def _training(run: RunRecord, slowest: Rank) -> Iterator[RunValue]:
    steps = len(slowest.step_times_s)
    yield from _rates(record_summary.images_per_s(run), run.workers)
    yield RunValue("images", run.config["global_batch"] * (1 + len(slowest.warm_up_step_times_s) + steps))
    yield from starmap(RunValue, (hardware.throughput_bounds(run) | hardware.energy(run)).items())
    yield RunValue("steps_per_rank", steps)
    for epoch in run.epochs:
        yield RunValue("epoch_s", epoch.duration_s, epoch.epoch)
        for name in _EPOCH_QUANTITIES:
            if (value := getattr(epoch, name)) is not None:
                yield RunValue(name, value, epoch.epoch)
    if run.epochs:  # the use of cores in a job of timed steps shows little about training: only its record has it
        yield from _usage(run)
    if run.config["dataset"]["name"] != "synthetic" and not run.epochs:  # random images have nothing to learn
        for step, loss in enumerate(run.losses, 2 + len(slowest.warm_up_step_times_s)):
            yield RunValue("step_loss", loss, step=step)


def _usage(run: RunRecord) -> Iterator[RunValue]:
    for second in record_summary.usage_by_second(run.ranks):
        for name in ("cpu_use_fraction", "memory_bytes", "gpu_use_fraction", "gpu_memory_bytes"):
            if (value := getattr(second, name)) is not None:
                yield RunValue(name, value, time_s=second.time_s)


def _allreduces(run: RunRecord) -> Iterator[RunValue]:
    """Yield the median time of each message size and round, on the slowest rank, and the rates of the bounds.

    The slowest receiver of a stream counts, and the slowest copy: an allreduce waits for it.
    """
    for entries in zip(*(rank.allreduces for rank in run.ranks), strict=True):
        times = [max(rank_times) for rank_times in zip(*(entry.times_s for entry in entries), strict=True)]
        size, number = entries[0].message_bytes, entries[0].round
        yield RunValue("allreduce_s", statistics.median(times), message_bytes=size, round=number)
    transfers = (transfer for rank in run.ranks for transfer in rank.transfers)
    rates = gathered((each.what, metrics.bandwidth(each.transferred_bytes, each.time_s)) for each in transfers)
    for name, received in rates.items():
        yield RunValue(f"{name}_bytes_per_s", min(received))


def _in_columns(values: Iterable[RunValue]) -> dict[str, tuple[Any, ...]]:
    columns = zip(RunValue._fields, zip(*values, strict=True), strict=True)
    return {name: cells for name, cells in columns if cells.count(None) < len(cells)}


def _impossible(point: Measured) -> Iterator[str]:
    for name, value in zip(point.values["quantity"], point.values["value"], strict=True):
        definition = tidy_columns.quantity(name)
        if definition is None or not definition.possible(value):
            yield f"{name} = {value:g}"
