"""The swept axis of a curve, and the settings that its points share: derived from the swept keys of each record.

No experiment is known by name here: a new file in conf/experiment/, sweeping any key, gets its axis and its series.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import msgspec

from common.grouping import grouped
from record.recorded_config import BATCHES, LAUNCH_PLAN, NOT_MEASURED, flat, hashed_name

# Axes of scaling: more ranks do the work.
SCALING = ("nodes", "ranks_per_node")
LINK = "system.link_mbit_per_s"
# Runs with other seeds are repeats of one point.
_SEED = "seed"
# Keys that do not distinguish series: `measure` counts with its numbers of steps. No experiments share a series.
_NOT_IN_SERIES = (NOT_MEASURED - {"experiment"}) | LAUNCH_PLAN | {"launcher", "measure", _SEED}
_STEPS = ("warm_up_steps", "timed_steps", "total_steps", "epochs")
# The text of a value in labels, by the last part of its key; any other key as "momentum 0.9".
PHRASES = {
    **dict.fromkeys(("model", "dataset", "device", "precision", "machine", "measure", "arm", "swept"), "{}"),
    "optimizer": "{}",
    "link_mbit_per_s": "{:g} Mbit/s",
    "batch_per_rank": "batch {:g}",
    "global_batch": "global batch {:g}",
    "backend": "distribution {}",
    "gradients": "{} gradients",
    "controller": "{}",
    "cycle_time_ms": "cycle {:g} ms",
}


@dataclass(frozen=True)
class Facts:
    """The facts that identify one run. `config` is flat: dotted key -> value."""

    experiment: str
    machine: str
    config: Mapping[str, Any]
    derived: Sequence[str] = ()
    swept: Mapping[str, Any] = field(default_factory=dict)
    arm: str | None = None
    arm_keys: Sequence[str] = ()


def leaves(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a configuration by dotted key, without those that do not distinguish series."""
    return flat(config, _NOT_IN_SERIES) | {f"measure.{name}": config["measure"].get(name) for name in _STEPS}


def phrase(key: str, value: Any) -> str:
    """Return a value of a key as text: "momentum 0.9", "batch 32"."""
    name = key.rpartition(".")[2]
    if value is None:
        return f"{name.replace('_', ' ')} none"
    return PHRASES.get(name, name.replace("_", " ") + (" {:g}" if _is_number(value) else " {}")).format(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def axis(swept: Sequence[Mapping[str, Any]]) -> str:
    """Return the key that varies along the curves of an experiment, from its runs' swept keys; "" if none does.

    The nodes, else the ranks of a node, else the last key whose values are numbers (null: no limit). A config group
    (model, dataset, ...) is never one, nor the seed.
    """
    keys = [key for key in swept[0] if key != _SEED]
    numbers = [key for key in keys if all(values[key] is None or _is_number(values[key]) for values in swept)]
    return next((key for key in SCALING if key in keys), numbers[-1] if numbers else "")


def identify(runs: Sequence[Facts]) -> list[dict[str, Any]]:
    """Return the columns axis, axis_value, swept, arm, kept, series and arms of `tidy_columns` for each run."""
    points: dict[bytes, Facts] = {}  # a point is identified once, however often it was repeated
    shared = {id(run): run for run in runs}  # by repeats that one process read
    point_by_run = {run_id: points.setdefault(msgspec.json.encode(run), run) for run_id, run in shared.items()}
    run_points = [point_by_run[id(run)] for run in runs]
    axes = {group: axis([facts.swept for facts in alike]) for group, alike in grouped(points.values(), _sweep).items()}
    varied = {group: _varied(alike) for group, alike in grouped(points.values(), _comparison).items()}
    columns = {id(point): _columns(point, axes[_sweep(point)], varied[_comparison(point)]) for point in points.values()}
    return [columns[id(point)] for point in run_points]


def _sweep(run: Facts) -> tuple[Any, ...]:
    return run.experiment, *run.swept


def _comparison(run: Facts) -> tuple[Any, ...]:
    return run.experiment, *run.arm_keys


def _varied(runs: Sequence[Facts]) -> frozenset[str]:
    """Return the leaves in which the arms of these runs differ.

    Two arms differ in a leaf if they have no value in common, or only one has the leaf. An arm that chooses another
    file of a group, as distribution=none, may differ in any leaf. A change in all arms alike makes another comparison.
    """
    keys = set(runs[0].arm_keys)
    groups = tuple(f"{key}." for key in keys)
    values: dict[str, dict[str | None, set[str]]] = defaultdict(lambda: defaultdict(set))
    leaves = {leaf for run in runs for leaf in run.config if groups and leaf.startswith(groups)}
    for run in runs:
        for leaf in leaves:
            values[leaf][run.arm].add(repr(run.config[leaf]) if leaf in run.config else "")
    pairs = {leaf: combinations(by_arm.values(), 2) for leaf, by_arm in values.items()}
    return frozenset(keys | {leaf for leaf in pairs if any(a.isdisjoint(b) for a, b in pairs[leaf])})


def _columns(run: Facts, axis: str, varied: frozenset[str]) -> dict[str, Any]:
    along = {axis, *run.derived}
    others = [phrase(key, value) for key, value in run.swept.items() if key not in (axis, "model", _SEED)]
    return {
        "axis": axis,
        "axis_value": run.config.get(axis, run.swept.get(axis)),
        "swept": ", ".join(others),
        "arm": run.arm or "",
        "kept": "" if axis in BATCHES else "global_batch" if "batch_per_rank" in run.derived else "batch_per_rank",
        "series": _digest(run, along),
        "arms": _digest(run, along | varied),
    }


def _digest(run: Facts, without: Iterable[str]) -> str:
    """Return a short digest of the configuration without these keys."""
    values = {hashed_name(key): value for key, value in run.config.items() if key not in without}
    text = json.dumps([values, run.machine], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
