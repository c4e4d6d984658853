"""Lists of times in a record's file: whole ticks of the clock that they were read from.

Nine tenths of the record of a thousand ranks are the times of their steps. In seconds, with all digits of the clock,
each takes 13 bytes; in ticks 6 to 10, with the same digits. The parts that ranks leave have seconds.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

# The resolution of each list's clock. `step_times_s` are differences of time.perf_counter, which counts nanoseconds.
# `compute_times_s` end at a tf.timestamp, which counts microseconds: further digits would mean nothing.
PER_S = {"step_times_s": 1_000_000_000, "warm_up_step_times_s": 1_000_000_000, "compute_times_s": 1_000_000}


@dataclass(slots=True)
class Ticks:
    """Times: the number of ticks of each. In seconds they are ticks / ticks_per_s."""

    ticks_per_s: Annotated[int, msgspec.Meta(gt=0)]
    ticks: list[int]


if TYPE_CHECKING:
    Times = list[float]  # s, as in a loaded record
else:
    Times = Ticks | list[float]  # as in the file of a record, or of a part


def pack(fields: dict[str, Any]) -> None:
    """Replace the lists of seconds in the fields of a rank or a window by ticks."""
    for name, per_s in PER_S.items():
        if times_s := fields.get(name):
            fields[name] = {"ticks_per_s": per_s, "ticks": [round(time_s * per_s) for time_s in times_s]}


def rounded(times_s: Times, per_s: int) -> Times:
    """Return times in seconds as a loaded record has them: of whole ticks."""
    return [round(time_s * per_s) / per_s for time_s in times_s]


def seconds(packed: Ticks | Times) -> Times:
    """Return the times in seconds.

    A division of whole numbers is rounded once: 300,000,000 ticks of a nanosecond are 0.3 s to the last digit.
    """
    if not isinstance(packed, Ticks):
        return packed
    per_s = packed.ticks_per_s
    return [number / per_s for number in packed.ticks]
