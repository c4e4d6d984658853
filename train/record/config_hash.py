"""What does not count as another measurement, and the hash of a configuration: two runs with the same hash are repeats.

The hash is computed from the values as a record keeps them, so that a reader of a record can compute it again.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

# Names, paths, estimates, repeats: dotted keys (of a section, all below it) that do not change what is measured.
NOT_MEASURED = frozenset(
    {
        "experiment",
        "tracking",
        "results",
        "assumed",
        "derived",
        "model.parameters",
        "model.activation_bytes_per_image",
        "dataset.ordered",
        "dataset.data_dir",
        "measure.name",
        "measure.repeats",
        "measure.batch_per_rank",
        "measure.global_batch",
        "measure.total_steps",
        "measure.usage_period_s",
        "measure.design",
        "measure.precision_fraction",
        "measure.budget_s",
        "measure.control",
        "measure.curve_budget_s",
        "measure.compete",
        "launcher.timeout_s",
        "launcher.by_hand",
        "launcher.cores_fraction",
        "launcher.flat_within_fraction",
        "launcher.hosts",
        "launcher.order",
        "launcher.split",
        "launcher.assumed_run_s",
        "launcher.time_limit_s",
        "container.image",
        "container.mpi_home",
        "system.name",
        "system.emulate",
        "system.account",
        "system.longest_s",
        "system.remark",
        "distribution.port",
        "rounds.role",
    }
)
# What a launcher adds to a configuration that measures several points in one launch.
LAUNCH_PLAN = frozenset({"rounds", "rank_groups", "rank_groups_at_once", "join_in_turn"})
# Keys that a run does not use that only sweeps allreduces.
TRAINING_ONLY = LAUNCH_PLAN | frozenset(
    {
        "model",
        "dataset",
        "optimizer",
        "measure",
        "precision",
        "batch_per_rank",
        "global_batch",
        "seed",
        "weights",
        "distribution.compression",
        "distribution.backward_passes_per_step",
        "distribution.op",
        "distribution.autotune",
        "distribution.timeline",
        "distribution.onednn",
    }
)


def is_measured(key: str) -> bool:
    """Return whether a dotted key counts: neither it nor a section that it is in is among NOT_MEASURED."""
    return not any(key == listed or key.startswith(f"{listed}.") for listed in NOT_MEASURED)


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
    left = {name: inner for name, inner in value.items() if f"{prefix}{name}" not in unused}
    return {name: _without(inner, unused, f"{prefix}{name}.") for name, inner in left.items()}
