"""Random edits of run records: changes by more than 5 % of one field, and measurements that are copied over others."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.common import Rng
from train.record import summary
from train.record.record import RunRecord

LEAST = 0.05  # the smallest change
_MOST = 10.0  # a factor, either way

Place = tuple[Any, Any]  # a container, and the key, index or attribute in it


@dataclass(frozen=True)
class Field:
    """Fields of one meaning, in all the places where a record has them."""

    name: str
    places: Callable[[RunRecord], list[Place]]
    is_list: bool = False  # the edit is to the number of its values


def _leaves(containers: Iterator[tuple[Any, list[Any]]]) -> list[Place]:
    return [(container, key) for container, keys in containers for key in keys]


def _phases(run: RunRecord) -> list[Place]:
    return [(rank.phases_s, name) for rank in run.ranks for name, value in rank.phases_s.items() if value > 0]


def _windows(run: RunRecord, name: str) -> list[Place]:
    return [(window, name) for rank in run.ranks for window in rank.windows]


def _lists(run: RunRecord, name: str) -> list[Place]:
    return [(rank, name) for rank in run.ranks if getattr(rank, name)]


def _configured(name: str) -> Callable[[RunRecord], list[Place]]:
    return lambda run: [(run.config, name)]


def _arms(name: str) -> Callable[[RunRecord], list[Place]]:
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

# Single values of many, of which only a sum is known twice; and values that nothing else in the record tells.
OTHERS = (
    Field("learning_rate", lambda run: [(run, "learning_rate")] if run.learning_rate is not None else []),
    Field("one timed step", lambda run: _elements(rank.step_times_s for rank in run.ranks)),
    Field(
        "one step of a window",
        lambda run: _elements(window.step_times_s for rank in run.ranks for window in rank.windows),
    ),
    Field("one allreduce", lambda run: _elements(of.times_s for rank in run.ranks for of in rank.allreduces)),
    Field("one time of computing", lambda run: _elements(rank.compute_times_s for rank in run.ranks)),
    Field("one loss", lambda run: _elements([run.losses])),
    Field("epochs: train_accuracy", lambda run: [(epoch, "train_accuracy") for epoch in run.epochs]),
    Field("epochs: train_loss", lambda run: [(epoch, "train_loss") for epoch in run.epochs]),
    Field("peak_memory_bytes", lambda run: [(rank, "peak_memory_bytes") for rank in run.ranks]),
)


def _elements(lists: Any) -> list[Place]:
    return [(values, i) for values in lists for i in range(len(values))]


def _read(place: Place) -> Any:
    container, key = place
    return getattr(container, key) if isinstance(key, str) and not isinstance(container, dict) else container[key]


def _write(place: Place, value: Any) -> None:
    container, key = place
    if isinstance(key, str) and not isinstance(container, dict):
        setattr(container, key, value)
    else:
        container[key] = value


def edit(run: RunRecord, of: Field, rng: Rng) -> RunRecord | None:
    """A copy of the record with one random edit of a field; None where the record has no such field."""
    changed = copy.deepcopy(run)
    places = of.places(changed)
    if not places:
        return None
    place = places[int(rng.integers(len(places)))]
    _write(place, _resized(_read(place), rng) if of.is_list else _other(_read(place), rng))
    return changed


def _factor(rng: Rng) -> float:
    """How many times as much: between 1.05 and 10, or one over that."""
    logarithm = float(rng.uniform(math.log(1 + LEAST), math.log(_MOST)))
    return math.exp(logarithm if rng.random() < 0.5 else -logarithm)


def _other(value: float, rng: Rng) -> float:
    if isinstance(value, float):
        return value * _factor(rng)
    changed = max(1, round(value * _factor(rng)))
    return changed if changed != value else value + 1


def _resized(values: list[Any], rng: Rng) -> list[Any]:
    """With more or fewer values, by at least one and 5 %; those that are added are some of the others."""
    count = int(_other(len(values), rng))
    return [values[i % len(values)] for i in range(count)] if count else values[:1]


def _window_again(run: RunRecord, rng: Rng) -> RunRecord | None:
    """The window of one round in place of that of another, of one arm, on all ranks."""
    changed = copy.deepcopy(run)
    turns = sorted({(window.arm, window.round) for window in changed.ranks[0].windows})
    if not turns:
        return None
    arm = int(rng.choice([arm for arm, _ in turns]))
    here, there = rng.permutation([number for of, number in turns if of == arm])[:2]
    for rank in changed.ranks:
        windows = {window.round: window for window in rank.windows if window.arm == arm}
        for name in ("window_s", "step_times_s", "compute_times_s") if windows else ():
            setattr(windows[there], name, copy.copy(getattr(windows[here], name)))
    return changed


def _steps_again(run: RunRecord, rng: Rng) -> RunRecord | None:
    """Three timed steps once more in place of three others, on all ranks; what was won or lost goes to the exit."""
    changed = copy.deepcopy(run)
    if run.epochs or len(run.ranks[0].step_times_s) < 6:
        return None
    here, there = (3 * int(place) for place in rng.permutation(len(run.ranks[0].step_times_s) // 3)[:2])
    for rank in changed.ranks:
        before_s = sum(rank.step_times_s)
        for times in (rank.step_times_s, rank.compute_times_s):
            times[there : there + 3] = times[here : here + 3]
        longer_s = sum(rank.step_times_s) - before_s
        rank.phases_s["timed"] += longer_s
        rank.phases_s["exit"] -= longer_s
    changed.summary = summary.record_summary(changed)
    return changed


def _steps_of_another_rank(run: RunRecord, rng: Rng) -> RunRecord | None:
    changed = copy.deepcopy(run)
    if len(run.ranks[0].step_times_s) < 3:
        return None
    one, other = rng.permutation(len(run.ranks))[:2]
    changed.ranks[other].step_times_s = [*changed.ranks[one].step_times_s]
    return changed


# What was measured once stands there twice; every sum follows. None where the record has no such thing.
COPIES: dict[str, Callable[[RunRecord, Rng], RunRecord | None]] = {
    "a window and its steps, from another round": _window_again,
    "three steps in a row, from elsewhere": _steps_again,
    "the steps of another rank": _steps_of_another_rank,
}
