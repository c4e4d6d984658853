"""Whether the running times of a user's program confirm the number that was read in its output.

The kit did not measure that number: another one on the line, or another unit, may be meant. It did measure how long
each launch ran. Without such a confirmation by the clock the user is asked.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from record.schema import CoreUse, PrintedRate, RunRecord

LARGEST_FACTOR = 2.0  # between the speedup that was read and that of the running times
LEAST_CHANGE = 1.1  # a speedup below 1 / this, or above it, has a direction
# The keys of a program by which its number is read. Another value of one needs no new measurement.
READING = ("rate", "time", "time_of", "unit", "scaling", "pick", "skip", "decimal", "each_rank")
_LETTERS = "abcdefghijklmnop"  # a digit or an exponent would be a number in YAML


@dataclass(frozen=True)
class ProgramLaunch:
    """What was read and what was measured in one launch of a user's program.

    Attributes:
        series: equal for launches that differ in their size alone.
        size: the name of the point.
        running_s: the time of the whole command.
        work: how much work a whole run may have, in a unit of the series: several if it is not stated.
        cpu_s: of its processes on this host.
        cores: that it was bound to; 0: on other hosts.
        code: confirms this reading; confirmed: the user gave it.
    """

    series: str
    size: str
    ranks: int
    printed: PrintedRate
    running_s: float
    work: tuple[float, ...]
    cpu_s: float
    cores: int
    code: str
    confirmed: bool

    def text(self) -> str:
        """Return what was read and what was measured."""
        number = self.printed.number or f"{self.printed.value:g} {self.printed.unit}".strip()
        return f"{self.size}: {number} in '{self.printed.text}'; it ran {self.running_s:.3g} s{self.cores_text()}"

    def cores_text(self) -> str:
        """Return how many of its cores it used, as text; "" if that is not known."""
        return (
            f", used {self.cpu_s / self.running_s:.1f} of {self.cores} cores" if self.cores and self.running_s else ""
        )


def confirmation(program: Mapping[str, Any], found_by: str) -> str:
    """Return the code that confirms how the number of a program is read: six letters, others for another reading."""
    text = json.dumps([program.get("command"), found_by, *(program.get(key) for key in READING)])
    return "".join(_LETTERS[byte % 16] for byte in hashlib.sha256(text.encode()).digest()[:6])


def program_launch(record: RunRecord) -> ProgramLaunch | None:
    """Return what was read and measured in a launch; None without a number of a program, or the time that it ran."""
    program, printed = record.config.get("program"), record.printed
    use = record.program.cores if record.program else None
    use = use or CoreUse(wall_s=record.job_s, own_s=0.0, busy_s=0.0, steal_s=0.0)
    if not (program and printed and printed.value > 0 and use.wall_s > 0 and record.workers):
        return None
    swept = {key: value for key, value in record.swept.items() if key not in ("nodes", "ranks_per_node")}
    hosts = sorted({host.cpu_model for host in record.environment.hosts}) if record.environment else []
    code = confirmation(program, printed.found_by)
    return ProgramLaunch(
        series=json.dumps([record.experiment, program.get("command"), swept, hosts, record.config.get("device")]),
        size=record.point,
        ranks=record.workers,
        printed=printed,
        running_s=use.wall_s,
        work=_work(record, program.get("scaling")),
        cpu_s=use.own_s,
        cores=len({core for rank in record.ranks for core in rank.cores}) if use.own_s else 0,
        code=code,
        confirmed=program.get("confirmed") == code,
    )


def cores_used(records: Iterable[RunRecord]) -> str:
    """Return how many of its cores a program used at each size, in the last of these launches; "" if not known."""
    last = {launch.size: launch.cores_text() for launch in map(program_launch, records) if launch}
    return "; ".join(f"{size}{text}" for size, text in last.items() if text).replace(", used", " used")


def _work(record: RunRecord, scaling: str | None) -> tuple[float, ...]:
    """Return how much work a whole run may have: with a batch as many steps, or as many images, at each size."""
    if scaling is None and (batch := record.config.get("global_batch")):
        return (float(batch), 1.0)
    return (float(record.workers),) if scaling == "weak" else (1.0,)


def doubts(launches: Iterable[ProgramLaunch]) -> dict[str, list[str]]:
    """Return what is not confirmed, as lines that say what to do, by series; empty if all is."""
    by_series: dict[str, list[ProgramLaunch]] = {}
    for launch in launches:
        by_series.setdefault(launch.series, []).append(launch)
    lines = {series: _doubt(members) for series, members in by_series.items()}
    return {series: found for series, found in lines.items() if found}


def _doubt(launches: Sequence[ProgramLaunch]) -> list[str]:
    """Return the doubt in the number of one series, with what was read at each size; empty without one."""
    sizes = _by_size(launches)
    if len(sizes) < 2 or all(launch.confirmed for launch in launches):
        return []
    if not (reasons := [*_units(sizes), *_same(sizes)] or _disagreements(sizes)):
        return []
    return [
        "the number that was read is not confirmed, and nothing is computed from it:",
        *(f"  {reason}" for reason in reasons),
        *(f"  {size[0].text()}" for size in sizes),
        "If it is another number, or has another unit: give another RATE= or TIME=, which measures nothing again. "
        f"If it is right: ARGS=program.confirmed={launches[-1].code}, or the line  confirmed: {launches[-1].code}  in "
        "the file of PROGRAM=",
    ]


def _by_size(launches: Iterable[ProgramLaunch]) -> list[list[ProgramLaunch]]:
    """Return the launches of each number of ranks, the smallest first."""
    sizes: dict[int, list[ProgramLaunch]] = {}
    for launch in sorted(launches, key=lambda launch: launch.ranks):
        sizes.setdefault(launch.ranks, []).append(launch)
    return [*sizes.values()]


def _units(sizes: Sequence[Sequence[ProgramLaunch]]) -> list[str]:
    units = sorted({launch.printed.unit for size in sizes for launch in size})
    names = ", ".join(unit or "none" for unit in units)
    return [f"its unit differs between sizes: {names}; program.unit= with one converts"] if len(units) > 1 else []


def _same(sizes: Sequence[Sequence[ProgramLaunch]]) -> list[str]:
    """Return that the number is the same at all sizes, or a multiple of their ranks."""
    launches = [launch for size in sizes for launch in size]
    numbers = [launch.printed.value for launch in launches]
    each = [launch.printed.value / launch.ranks for launch in launches]
    for what, rates in (("number", numbers), ("multiple of the ranks", each)):
        if all(math.isclose(rate, rates[0]) for rate in rates):
            return [f"it is the same {what} at all sizes"]
    return []


def _disagreements(sizes: Sequence[Sequence[ProgramLaunch]]) -> list[str]:
    """Return the sizes whose speedup differs from that of the running times in direction, or more than twofold.

    Also those whose number does not grow, and agrees better with the running times as that of one rank.
    """
    base, lines = sizes[0][0], []
    for size, read, by_clock in _speedups(sizes):
        total = read * size[0].ranks / base.ranks  # if it is the number of one rank
        if not any(
            _same_direction(read, speedup) and _near(read, speedup) and not _agrees_better(total, read, speedup)
            for speedup in by_clock
        ):
            text = f"{size[0].size} over {base.size}: {read:.3g}x by the number, {by_clock[0]:.3g}x by the running time"
            hint = f"; if it is that of one rank, {total:.3g}x: ARGS=program.each_rank=true"
            lines.append(text + hint * _agrees_better(total, read, by_clock[0]))
    return lines


def moves_with_the_clock(launches: Iterable[ProgramLaunch]) -> bool:
    """Return whether a number differs between sizes, in one unit, and changes in the direction of running times."""
    sizes = _by_size(launches)
    alike = len(sizes) < 2 or _units(sizes) or _same(sizes)
    return not alike and all(
        any(_same_direction(read, speedup) for speedup in by_clock) for _, read, by_clock in _speedups(sizes)
    )


def _speedups(
    sizes: Sequence[Sequence[ProgramLaunch]],
) -> Iterator[tuple[Sequence[ProgramLaunch], float, list[float]]]:
    """Yield each size but the first, its speedup by the number, and those that the running times may mean."""
    base, *others = sizes
    for size in others:
        read = median(launch.printed.value for launch in size) / median(launch.printed.value for launch in base)
        times = median(launch.running_s for launch in base) / median(launch.running_s for launch in size)
        yield size, read, [times * work / first for work, first in zip(size[0].work, base[0].work, strict=True)]


def _same_direction(first: float, second: float) -> bool:
    return not (min(first, second) * LEAST_CHANGE <= 1 and max(first, second) >= LEAST_CHANGE)


def _agrees_better(total: float, read: float, by_clock: float) -> bool:
    return read < LEAST_CHANGE <= by_clock and abs(math.log(total / by_clock)) < abs(math.log(read / by_clock))


def _near(first: float, second: float) -> bool:
    return 1 / LARGEST_FACTOR <= first / second <= LARGEST_FACTOR
