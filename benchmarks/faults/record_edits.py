"""Random edits of run records: changes by more than 5 % of one field, and measurements that are copied over others."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.common import Rng
from train.record import summary
from train.record.record import RunRecord

LEAST = 0.05  # the smallest change
_MOST = 10.0  # a factor, either way

Location = tuple[Any, Any]  # a container, and the key, index or attribute in it


@dataclass(frozen=True)
class Field:
    """Fields of one meaning, with all their locations in a record."""

    name: str
    locations: Callable[[RunRecord], list[Location]]
    is_list: bool = False  # the edit is to the number of its values


def _phases(run: RunRecord) -> list[Location]:
    return [(rank.phases_s, name) for rank in run.ranks for name, value in rank.phases_s.items() if value > 0]


def _windows(run: RunRecord, name: str) -> list[Location]:
    return [(window, name) for rank in run.ranks for window in rank.windows]


def _lists(run: RunRecord, name: str) -> list[Location]:
    return [(rank, name) for rank in run.ranks if getattr(rank, name)]


def _configured(name: str) -> Callable[[RunRecord], list[Location]]:
    return lambda run: [(run.config, name)]


def _arms(name: str) -> Callable[[RunRecord], list[Location]]:
    return lambda run: [(arm, name) for arm in run.config.get("rounds", [])]


# From these, images_per_s, wall_s, job_s, epoch_s and every phase are computed.
MADE_FROM = (
    Field("job_s", lambda run: [(run, "job_s")]),
    Field("phases_s", _phases),
    Field("window_s", lambda run: _windows(run, "window_s")),
    Field("steps of a window", lambda run: _windows(run, "step_times_s"), is_list=True),
    Field("windows of a rank", lambda run: _lists(run, "windows"), is_list=True),
    Field("timed steps", lambda run: _lists(run, "step_times_s"), is_list=True),
    Field("steps of the warm-up", lambda run: _lists(run, "warm_up_step_times_s"), is_list=True),
    Field("ranks", lambda run: [(run, "ranks")], is_list=True),
    Field("epochs: duration_s", lambda run: [(epoch, "duration_s") for epoch in run.epochs]),
    Field("epochs: steps", lambda run: [(epoch, "steps") for epoch in run.epochs]),
    *(
        Field(f"config: {name}", _configured(name))
        for name in ("global_batch", "batch_per_rank", "nodes", "ranks_per_node")
    ),
    *(Field(f"config: rounds: {name}", _arms(name)) for name in ("nodes", "batch_per_rank")),
)

# Single values of which a record has only the sum twice, and values that it has once.
NOT_REDUNDANT = (
    Field("learning_rate", lambda run: [(run, "learning_rate")] if run.learning_rate is not None else []),
    Field("one timed step", lambda run: _elements(rank.step_times_s for rank in run.ranks)),
    Field(
        "one step of a window",
        lambda run: _elements(window.step_times_s for rank in run.ranks for window in rank.windows),
    ),
    Field("one allreduce", lambda run: _elements(each.times_s for rank in run.ranks for each in rank.allreduces)),
    Field("one time of computing", lambda run: _elements(rank.compute_times_s for rank in run.ranks)),
    Field("one loss", lambda run: _elements([run.losses])),
    Field("epochs: train_accuracy", lambda run: [(epoch, "train_accuracy") for epoch in run.epochs]),
    Field("epochs: train_loss", lambda run: [(epoch, "train_loss") for epoch in run.epochs]),
    Field("peak_memory_bytes", lambda run: [(rank, "peak_memory_bytes") for rank in run.ranks]),
)


def _elements(lists: Any) -> list[Location]:
    return [(values, i) for values in lists for i in range(len(values))]


def _read(location: Location) -> Any:
    container, key = location
    return getattr(container, key) if isinstance(key, str) and not isinstance(container, dict) else container[key]


def _write(location: Location, value: Any) -> None:
    container, key = location
    if isinstance(key, str) and not isinstance(container, dict):
        setattr(container, key, value)
    else:
        container[key] = value


def edit(run: RunRecord, field: Field, rng: Rng) -> RunRecord | None:
    """Return a copy of the record with one random edit of a field; None if the record has no such field."""
    changed = copy.deepcopy(run)
    locations = field.locations(changed)
    if not locations:
        return None
    location = locations[int(rng.integers(len(locations)))]
    _write(location, _resized(_read(location), rng) if field.is_list else _changed(_read(location), rng))
    return changed


def _factor(rng: Rng) -> float:
    """Return a factor between 1.05 and 10, or its inverse."""
    logarithm = float(rng.uniform(math.log(1 + LEAST), math.log(_MOST)))
    return math.exp(logarithm if rng.random() < 0.5 else -logarithm)


def _changed(value: float, rng: Rng) -> float:
    if isinstance(value, float):
        return value * _factor(rng)
    changed = max(1, round(value * _factor(rng)))
    return changed if changed != value else value + 1


def _resized(values: list[Any], rng: Rng) -> list[Any]:
    """Return more or fewer values, by at least one and 5 %; added values repeat others."""
    count = int(_changed(len(values), rng))
    return [values[i % len(values)] for i in range(count)] if count else values[:1]


def _window_again(run: RunRecord, rng: Rng) -> RunRecord | None:
    """Replace the window of one arm in one round by that in another, on all ranks."""
    changed = copy.deepcopy(run)
    turns = sorted({(window.arm, window.round) for window in changed.ranks[0].windows})
    if not turns:
        return None
    arm = int(rng.choice([arm for arm, _ in turns]))
    source, target = rng.permutation([number for turn_arm, number in turns if turn_arm == arm])[:2]
    for rank in changed.ranks:
        windows = {window.round: window for window in rank.windows if window.arm == arm}
        for name in ("window_s", "step_times_s", "compute_times_s") if windows else ():
            setattr(windows[target], name, copy.copy(getattr(windows[source], name)))
    return changed


def _steps_again(run: RunRecord, rng: Rng) -> RunRecord | None:
    """Replace three timed steps by three others, on all ranks; the difference goes to the exit."""
    changed = copy.deepcopy(run)
    if run.epochs or len(run.ranks[0].step_times_s) < 6:
        return None
    source, target = (3 * int(n) for n in rng.permutation(len(run.ranks[0].step_times_s) // 3)[:2])
    for rank in changed.ranks:
        before_s = sum(rank.step_times_s)
        for times in (rank.step_times_s, rank.compute_times_s):
            times[target : target + 3] = times[source : source + 3]
        longer_s = sum(rank.step_times_s) - before_s
        rank.phases_s["timed"] += longer_s
        rank.phases_s["exit"] -= longer_s
    changed.summary = summary.record_summary(changed)
    return changed


def _steps_of_another_rank(run: RunRecord, rng: Rng) -> RunRecord | None:
    changed = copy.deepcopy(run)
    if len(run.ranks[0].step_times_s) < 3:
        return None
    source, target = rng.permutation(len(run.ranks))[:2]
    changed.ranks[target].step_times_s = [*changed.ranks[source].step_times_s]
    return changed


# Copies of measurements; every sum follows. None if the record has nothing to copy.
COPIES: dict[str, Callable[[RunRecord, Rng], RunRecord | None]] = {
    "a window and its steps, from another round": _window_again,
    "three steps in a row, from elsewhere": _steps_again,
    "the steps of another rank": _steps_of_another_rank,
}
