"""The tidy table of what the reports printed, and of one's own records."""

import hashlib
import json
import os
import statistics
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from analysis import TableError, control, schema
from train.config.schema import scaled_learning_rate
from train.record import record as records
from train.record import usage
from train.record.record import Rank, RunRecord

PUBLISHED = Path(__file__).with_name("published")

_FEW = 400  # records that one process reads sooner than others start

# What the points of one curve differ in. Where the batch per rank is kept, the global batch follows the ranks. Of
# accuracies, runs with other seeds are the repeats: with one seed all are the same.
_TRAINING = {"nodes", "global_batch", "seed"}
_VARIED = {
    "strong_scaling": {"nodes", "batch_per_rank"},
    "batch_sweep": {"batch_per_rank", "global_batch"},
    "ranks_threads": {"ranks_per_node", "threads_per_rank", "batch_per_rank"},
    "bnl_throughput": {"nodes", "ranks_per_node", "global_batch"},
    "tf_benchmarks": {"nodes", "ranks_per_node", "global_batch"},
    "accuracy_digits": {"nodes", "batch_per_rank", "seed"},
    "fruit": _TRAINING,
    "caltech256": _TRAINING,
    "imdb_wiki": _TRAINING,
    "equivalence": {"nodes", "batch_per_rank", "global_batch"},
}
_VARIED_ELSE = {"nodes", "global_batch"}
# What changes no measurement; of `measure` the steps count.
_NOT_MEASURED = {"results", "tracking", "launcher", "measure", "assumed"}
_OF_EPOCH = (
    *("train_accuracy", "validation_accuracy", "train_loss", "validation_loss"),
    "validation_mean_absolute_error",
)
_STEPS = ("warm_up_steps", "timed_steps", "total_steps", "epochs")


def published(folder: Path = PUBLISHED) -> pd.DataFrame:
    """Every number that the five reports state, as the tidy table of `analysis.schema`.

    Raises TableError naming the file, the line and what is wrong with it.
    """
    parts = [schema.read_csv(path, schema.COLUMNS) for path in sorted(folder.glob("*.csv"))]
    if not parts:
        raise TableError(f"{folder}: no CSV file there")
    return schema.check(pd.concat(parts, ignore_index=True), str(folder))


@dataclass(frozen=True)
class Own:
    """One's own records: the tidy table of the complete ones, and what is not in it."""

    table: pd.DataFrame
    left_out: list[str]  # files that are no trustworthy record: path and reason
    failed: list[str]  # runs that did not complete: path and reason


class _Value(NamedTuple):
    quantity: str
    value: float
    epoch: int | None = None
    message_bytes: int | None = None
    step: int | None = None
    time_s: int | None = None


@dataclass(frozen=True)
class _Run:
    identity: tuple[str, str, str, int]  # the newest generation of each counts
    generation: int
    columns: dict[str, Any]
    values: list[_Value]


def series(config: dict[str, Any], machine: str) -> str:
    """A short digest that all points and repeats of one scaling curve share: of all that does not vary along it."""
    varied = _VARIED.get(config["experiment"], _VARIED_ELSE) | _NOT_MEASURED
    kept = {key: value for key, value in config.items() if key not in varied}
    kept["dataset"] = {key: value for key, value in config["dataset"].items() if key != "data_dir"}
    steps = {key: config["measure"].get(key) for key in _STEPS}
    if config["experiment"] == "network_sweep":
        kept["system"] = {key: value for key, value in config["system"].items() if key != "link_mbit_per_s"}
    if steps["total_steps"] is not None:
        del steps["timed_steps"]  # shared out among the ranks
    return hashlib.sha256(json.dumps([kept, steps, machine], sort_keys=True).encode()).hexdigest()[:8]


def arms(config: dict[str, Any], machine: str) -> str:
    """A short digest that the arms of one comparison share: their series, were Horovod and its allreduce in all."""
    kept = {key: value for key, value in config["distribution"].items() if key not in ("backend", "allreduce")}
    return series(config | {"distribution": kept}, machine)


def _machine(run: RunRecord, device: str) -> str:
    if run.environment is None or not run.environment.hosts:
        return "machine not recorded"
    host = run.environment.hosts[0]
    processor = host.gpus[0] if device == "gpu" and host.gpus else host.cpu_model
    return f"{processor}, {host.cores} core{'s' if host.cores != 1 else ''}"


def _operations(run: RunRecord) -> str:
    """What carried the data between ranks: NCCL where Horovod has it and the data is on GPUs, else the controller's."""
    built = run.environment.horovod_built_with if run.environment else []
    return "nccl" if run.config["device"] == "gpu" and "nccl" in built else run.config["distribution"]["controller"]


def _columns(run: RunRecord, path: str) -> dict[str, Any]:
    config = run.config
    trains = config.get("allreduce_sweep") is None
    cpus = config["system"].get("cpus_per_node")
    machine = _machine(run, config["device"])
    if cpus is not None:
        machine += f"; emulated: {100 * cpus:.4g} % of a core a node"
    distribution = config["distribution"]
    controls = cpus is not None and distribution["backend"] == "horovod" and not distribution["allreduce"]
    gpu = next((host.gpus[0] for host in run.environment.hosts if host.gpus), "") if run.environment else ""
    threads = config["threads_per_rank"] or min(len(rank.cores) for rank in run.ranks) or None
    return {
        "source": "own",
        "report": "",
        "place": path,
        "experiment": run.experiment,
        "run": run.config_hash[:8],
        "model": config["model"]["name"] if trains else "",
        "dataset": config["dataset"]["name"] if trains else "",
        "device": config["device"],
        "gpu": gpu if config["device"] == "gpu" else "",
        "machine": machine,
        "nodes": config["nodes"],
        "ranks_per_node": config["ranks_per_node"],
        "threads_per_rank": threads,
        "ranks": len(run.ranks),
        "batch_per_rank": config["batch_per_rank"] if trains else None,
        "global_batch": config["global_batch"] if trains else None,
        "repeat": run.repeat,
        "kind": "control" if controls else "measured",
        "note": "; ".join(run.notes),
        "record": path,
        "series": series(config, machine),
        "arms": arms(config, machine),
        "cores_shared": run.cores_shared,
        "started_at": run.started_at,
        "generation": run.generation,
        "measure": config["measure"]["name"],
        "backend": config["distribution"]["backend"],
        "allreduce": config["distribution"]["allreduce"],
        "precision": config["precision"] if trains else "",
        "operations": _operations(run),
        "cycle_time_ms": config["distribution"].get("cycle_time_ms"),
        "gradients": config["distribution"].get("gradients", ""),
        "optimizer": config["optimizer"]["name"] if trains else "",
        "learning_rate": scaled_learning_rate(
            config["optimizer"]["learning_rate"], config["optimizer"]["learning_rate_scaling"], len(run.ranks)
        )
        if trains
        else None,
        "image_size": config["model"].get("image_size") if trains else None,
        "parameters": config["model"].get("parameters") if trains else None,
        "cpus_per_node": cpus,
        "link_mbit_per_s": config["system"].get("link_mbit_per_s"),
        "assumed": ", ".join(config.get("assumed", [])),
        "flat_within_fraction": config["launcher"]["flat_within_fraction"] if cpus is not None else None,
    }


def _quantities(run: RunRecord) -> Iterator[_Value]:
    """What follows from one complete record. Phases are those of the rank with the longest wall time: they add up."""
    sweeps = bool(run.ranks[0].allreduces)
    # Training over epochs has no warm-up.
    needed = [phase for phase in records.WALL_PHASES if phase != "warm_up" or not run.epochs]
    wall = [sum(rank.phases_s[phase] for phase in (("timed",) if sweeps else needed)) for rank in run.ranks]
    slowest = run.ranks[wall.index(max(wall))]
    if sweeps:
        yield from _allreduces(run)
    else:
        yield from _training(run, slowest)
        yield _Value("wall_s", max(wall))
    yield _Value("job_s", run.job_s)
    yield _Value("peak_memory_bytes", max(rank.peak_memory_bytes for rank in run.ranks))
    for name, seconds in slowest.phases_s.items():
        yield _Value(f"phase_{name}_s", seconds)


def _training(run: RunRecord, slowest: Rank) -> Iterator[_Value]:
    steps = len(slowest.step_times_s)
    done = run.config["global_batch"] * (1 + len(slowest.warm_up_step_times_s) + steps)
    if not run.resizes:  # else the global batch changed on the way
        images_per_s = run.config["global_batch"] * steps / max(rank.phases_s["timed"] for rank in run.ranks)
        yield _Value("images_per_s", images_per_s)
        yield _Value("images_per_s_per_rank", images_per_s / len(run.ranks))
        yield _Value("images", done)
    yield _Value("steps_per_rank", steps)
    for epoch in run.epochs:
        yield _Value("epoch_s", epoch.duration_s, epoch.epoch)
        for name in _OF_EPOCH:
            if (value := getattr(epoch, name)) is not None:
                yield _Value(name, value, epoch.epoch)
    if run.epochs:  # what a job of timed steps used of its cores says little about training: its record keeps it
        yield from _usage(run)
    if run.config["dataset"]["name"] != "synthetic" and not run.epochs:  # random images have nothing to learn
        for step, loss in enumerate(run.losses, 2 + len(slowest.warm_up_step_times_s)):
            yield _Value("step_loss", loss, step=step)


def _usage(run: RunRecord) -> Iterator[_Value]:
    for use in usage.over_time(run.ranks):
        for name in ("cpu_use_fraction", "memory_bytes", "gpu_use_fraction", "gpu_memory_bytes"):
            if (value := getattr(use, name)) is not None:
                yield _Value(name, value, time_s=use.time_s)


def _allreduces(run: RunRecord) -> Iterator[_Value]:
    """The median time of each message size, every allreduce as its slowest rank saw it; and what link and memory gave.

    Of a stream that several ranks received, and of copies, the slowest counts: an allreduce waits for it.
    """
    for of_ranks in zip(*(rank.allreduces for rank in run.ranks), strict=True):
        times = [max(of_all) for of_all in zip(*(of.times_s for of in of_ranks), strict=True)]
        yield _Value("allreduce_s", statistics.median(times), message_bytes=of_ranks[0].message_bytes)
    rates: dict[str, list[float]] = {}
    for transfer in (transfer for rank in run.ranks for transfer in rank.transfers):
        rates.setdefault(transfer.what, []).append(transfer.transferred_bytes / transfer.time_s)
    for what, received in rates.items():
        yield _Value(f"{what}_bytes_per_s", min(received))


def _impossible(name: str, value: float) -> bool:
    known = schema.QUANTITIES.get(name) or schema.quantity(name)
    return known is None or not (known.minimum <= value <= known.maximum) or (value == 0 and not known.zero)


def _read(path: Path) -> _Run | tuple[str, str]:
    """What the table keeps of the record at `path`; else ("left_out" or "failed", the path and the reason)."""
    try:
        run = records.load(path)
        if run.status == "failed":
            return "failed", f"{path}: {run.failure.reason if run.failure else 'no reason recorded'}"
        values = list(_quantities(run))
        if wrong := [f"{v.quantity} = {v.value:g}" for v in values if _impossible(v.quantity, v.value)]:
            return "left_out", f"{path}: cannot be: {', '.join(wrong)}"
        identity = (run.experiment, run.point, run.config_hash, run.repeat)
        return _Run(identity, run.generation, _columns(run, str(path)), values)
    except records.RecordError as error:
        return "left_out", str(error)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        return "left_out", f"{path}: a complete run must have it: {type(error).__name__} {error}"


def _tidy(runs: list[_Run]) -> pd.DataFrame:
    """One row a value, built a column at a time: 10,000 records make a third of a million rows."""
    which = [i for i, run in enumerate(runs) for _ in run.values]
    values = (
        list(zip(*(value for run in runs for value in run.values), strict=True)) if runs else [()] * len(_Value._fields)
    )
    columns = [column for column in schema.COLUMNS + schema.OWN_COLUMNS]
    wide = pd.DataFrame([run.columns for run in runs], columns=[column.name for column in columns])
    table = wide.take(which).reset_index(drop=True)
    for name, column in zip(_Value._fields, values, strict=True):
        table[name] = list(column)
    unit = {name: known.unit for name in set(values[0]) if (known := schema.quantity(name))}
    table["unit"] = table["quantity"].map(unit)
    kinds = {"text": "str", "integer": "Int64", "number": "float64", "flag": "boolean"}
    return table.astype({column.name: kinds[column.kind] for column in columns})


def own(*places: Path) -> Own:
    """The complete records in `places` (results folders, record files), newest generation of each run, as tidy table.

    Beside the columns of the published numbers it has those of `schema.OWN_COLUMNS`. A file that cannot be read or
    trusted is left out and named with the reason, a failed run too. A folder that is not there has no records.
    """
    paths = sorted({path for place in places for path in ([place] if place.is_file() else records.find(place))})
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if len(paths) < _FEW or workers == 1:
        read = [_read(path) for path in paths]
    else:
        with ProcessPoolExecutor(workers) as pool:
            read = list(pool.map(_read, paths, chunksize=64))
    newest: dict[tuple[str, str, str, int], _Run] = {}
    notices: dict[str, list[str]] = {"left_out": [], "failed": []}
    for item in read:
        if isinstance(item, tuple):
            notices[item[0]].append(item[1])
        elif item.identity not in newest or newest[item.identity].generation < item.generation:
            newest[item.identity] = item
    return Own(control.attach(_tidy(list(newest.values()))), **notices)
