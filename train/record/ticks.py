"""Lists of times as a record's file has them: whole ticks of the clock that they were read from.

Nine tenths of the record of a thousand ranks are the times of their steps. In seconds, with all digits of the clock,
each takes 13 bytes; in ticks 6 to 10, with the same digits. Records from before have lists of seconds: both are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

# How finely each list's clock counts. `step_times_s` are differences of time.perf_counter, which counts nanoseconds.
# `compute_times_s` end at a tf.timestamp, which counts microseconds: any further digit would be of no clock.
PER_S = {"step_times_s": 1_000_000_000, "warm_up_step_times_s": 1_000_000_000, "compute_times_s": 1_000_000}


@dataclass
class Ticks:
    """Times: the number of ticks of each. In seconds they are ticks / ticks_per_s."""

    ticks_per_s: Annotated[int, msgspec.Meta(gt=0)]
    ticks: list[int]


def pack(record: dict[str, Any]) -> None:
    """Replace the lists of seconds in a record's fields by ticks."""
    for holder in _holders(record):
        for name, per_s in PER_S.items():
            if times_s := holder.get(name):
                holder[name] = {"ticks_per_s": per_s, "ticks": [round(time_s * per_s) for time_s in times_s]}


def unpack(record: dict[str, Any]) -> None:
    """Replace the ticks in a record's fields by lists of seconds. Raises msgspec.ValidationError for what is neither.

    A division of whole numbers is rounded once: 300,000,000 ticks of a nanosecond are 0.3 s to the last digit.
    """
    for holder in _holders(record):
        for name in PER_S.keys() & holder.keys():
            if isinstance(holder[name], dict):
                packed = msgspec.convert(holder[name], Ticks)
                holder[name] = [number / packed.ticks_per_s for number in packed.ticks]


def _holders(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All that has such lists: the ranks of a record, and their windows."""
    for rank in _objects(record, "ranks"):
        yield rank
        yield from _objects(rank, "windows")
        yield from _objects(rank, "exchanges")


def _objects(of: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects in a list of a file that may be damaged."""
    found = of.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
