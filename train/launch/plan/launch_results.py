"""The results of curves in rounds: whether their speedups are precise, and what is missing.

A curve is launched again until its speedups are precise, or the time is over.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from common.number import Number
from common.terminal import counted
from record import intervals, rounds
from record import run_files as files
from record.disturbance import run_selection, selection_text
from record.progress import duration
from record.schema import RECORD_NAME, RunRecord, load
from train.launch.plan.planned_runs import PlannedPoint

STOP_LEVEL = 0.99
MIN_LAUNCHES = 3  # of every arm that is not dropped
Speedups = Mapping[str, Number | None]


@dataclass
class CurveState:
    """A curve in rounds, its complete launches that count, and how many are planned."""

    point: PlannedPoint
    launches: list[RunRecord]
    planned: int


def curve_records(home: Path) -> list[RunRecord]:
    """Return the complete records in the folder of a curve, of every generation."""
    return [load(folder / RECORD_NAME) for folders in files.completed(home).values() for folder in folders]


def result(curve: CurveState) -> str:
    """Return the result of a curve with launches as text: each speedup, from two launches on with its interval."""
    records = curve.launches
    labels = rounds.labels(records[-1].config)
    texts = [f"{labels[name]} {_text(speedup)}" for name, speedup in rounds.speedups(records).items()]
    disturbed = filter(None, [selection_text(run_selection(record) for record in records)])
    left_out = [f"left out: {labels[name]}, {why}" for name, why in records[-1].arms_left_out.items()]
    return (
        f"{curve.point.name}, {counted(len(records), 'launch')}: {'; '.join([', '.join(texts), *disturbed, *left_out])}"
    )


def _text(speedup: Number | None) -> str:
    if speedup is None:
        return "no complete round"
    if speedup.variation != "between launches":
        return f"{speedup.value:.3g}x"
    return f"{speedup.value:.3g}x ({speedup.low:.3g} to {speedup.high:.3g} between launches)"


@dataclass(frozen=True)
class Shortfall:
    """A result that is less precise than asked for: what it is, why, and how much longer to measure it, in s."""

    text: str
    reasons: list[str]
    more_s: float

    def line(self) -> str:
        """Return it as one line of text."""
        return f"{self.text}: {'; '.join([*self.reasons, f'needs {duration(self.more_s)} more'])}"


def described_shortfall(
    name: str, goal: float, measured: Speedups, times_s: Sequence[float], reasons: Sequence[str]
) -> Shortfall:
    """Return the shortfall of a result, with the width of each ratio if they differ. times_s: of its launches."""
    halves = {key: number.half_width_fraction() if number else math.inf for key, number in measured.items()}
    worst = max(halves.values())
    texts = {key: f"± {100 * half:.2g} %" if math.isfinite(half) else "no interval" for key, half in halves.items()}
    same = len(set(texts.values())) == 1
    width = next(iter(texts.values())) if same else ", ".join(f"{key} {text}" for key, text in texts.items())
    more = len(times_s) * ((worst / goal) ** 2 - 1) if math.isfinite(worst) else MIN_LAUNCHES - len(times_s)
    more_s = max(1, math.ceil(more)) * fmean(times_s)
    return Shortfall(f"{name}: {width}", [*reasons], more_s)


def is_precise(measured: Speedups, fraction: float, level: float = intervals.LEVEL) -> bool:
    """Return whether every speedup has an interval that allows for other launches, as narrow as this fraction of it.

    Measuring goes on until that holds at STOP_LEVEL: who stops as soon as an interval looks good claims more than was
    measured.
    """
    known = [speedup for speedup in measured.values() if speedup and speedup.variation == "between launches"]
    return len(known) == len(measured) and all(speedup.half_width_fraction(level) <= fraction for speedup in known)


def shortfall(curve: CurveState) -> Shortfall | None:
    """Return how a curve is less precise than asked for; None if it is not."""
    records = curve.launches
    measured, goal = rounds.point_speedups(records), curve.point.config.measure.precision_fraction
    if is_precise(measured, goal):
        return None
    labels = rounds.labels(records[-1].config)
    by_label = {labels[name]: speedup for name, speedup in measured.items()}
    return described_shortfall(
        curve.point.name, goal, by_label, [record.job_s for record in records], _reasons(measured, records)
    )


def _reasons(measured: Speedups, records: Sequence[RunRecord]) -> list[str]:
    """Return why the speedups of a curve are not more precise: too little was measured, or what scatters most."""
    n = min(speedup.n if speedup else 0 for speedup in measured.values())
    reasons = [f"only {n} of {intervals.MIN_VALUES} rounds that an interval needs"] if n < intervals.MIN_VALUES else []
    reasons += dict.fromkeys(why for speedup in measured.values() if speedup and (why := speedup.no_interval))
    if len(records) < MIN_LAUNCHES:
        reasons.append(f"only {len(records)} of {MIN_LAUNCHES} launches that show how launches differ")
    selections = [run_selection(record) for record in records]
    if sum(len(selection.left_out) for selection in selections) > sum(len(s.counting) for s in selections) / 2:
        reasons.append(selection_text(selections))
    worst = max(filter(None, measured.values()), key=lambda speedup: speedup.half_width_fraction(), default=None)
    if worst and not reasons:
        scatter = f"single rounds scatter by {100 * worst.scatter:.2g} %"
        reasons.append(scatter if worst.rounds_share >= 0.5 else "launches differ by more than their rounds explain")
    return reasons
