"""How often the verdicts of `compare` and `history` are wrong, and what they detect: launches whose truth is known.

    python -m benchmarks.history_power [--studies 2000]

A study has six points with three quantities each, a throughput, a wall time and a job time, measured by some launches
on each of some sessions; on the newest one all are slower by a factor. Launches scatter, and so do sessions (one factor
for all values of a session, as a machine has good and bad days). The last column is the share of intervals that miss
the true ratio. docs/validation.md has the results.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.compare.launch_values import within
from analysis.stats.student import ratio_of_geometric_means
from analysis.stats.verdict import RatioVerdict, judge_all, ratio_verdict
from analysis.thresholds import limit
from benchmarks.common import Rng, Row, in_parallel, options, show

RATES, VALUES = 6, 18  # values of a study: the first ones are rates, the others times


@dataclass(frozen=True)
class HistoryTruth:
    """The truth of a study: launches in each session, sessions before the newest, scatter, and the change."""

    launches: int
    before: int
    scatter: float  # of launches, relative standard deviation
    drift: float = 0.0  # of sessions
    slower: float = 0.0  # the newest session, a fraction
    older: int = 0  # sessions of an older state of the machine, each with as many launches


def study(rng: Rng, truth: HistoryTruth) -> tuple[list[RatioVerdict], list[bool]]:
    """Return the verdicts on the values of one simulated study, and whether each interval misses the true ratio."""
    number = truth.older + truth.before + 1
    days = np.exp(rng.normal(0, truth.drift, number)) if truth.drift else np.ones(number)
    speeds = days[:, None, None] * np.exp(rng.normal(0, truth.scatter, (number, VALUES, truth.launches)))
    speeds[-1] *= 1 - truth.slower
    speeds[:, RATES:] = 1 / speeds[:, RATES:]
    older, before, now = speeds[: truth.older], speeds[truth.older : -1], speeds[-1]
    ratios = {
        at: ratio_of_geometric_means(before[:, at].ravel().tolist(), now[at].tolist(), [older[:, at].ravel().tolist()])
        for at in range(VALUES)
    }
    decided = {at: ratio for at, ratio in ratios.items() if ratio.has_interval}
    judged = judge_all([*decided.values()], within(limit("same")))
    missed = [not ratio.contains((1 - truth.slower) ** (-1 if at >= RATES else 1)) for at, ratio in decided.items()]
    return [ratio_verdict(verdict, at >= RATES) for at, verdict in zip(decided, judged, strict=True)], missed


def line(truth: HistoryTruth, studies: int) -> Row:
    """Return the share of studies that call any value slower, and of intervals that miss the true ratio."""
    rng = np.random.default_rng(19)
    verdicts, misses = zip(*(study(rng, truth) for _ in range(studies)), strict=True)
    return {
        "truly slower by": f"{truth.slower:.0%}",
        "sessions before": str(truth.before),
        "older": str(truth.older),
        "launches scatter": f"{truth.scatter:.0%}",
        "sessions scatter": f"{truth.drift:.0%}",
        "launches": str(truth.launches),
        "studies: any value worse": f"{sum('worse' in names for names in verdicts) / studies:.3f}",
        "intervals that miss": f"{sum(map(sum, misses)) / max(sum(map(len, misses)), 1):.3f}",
    }


TRUTHS = (
    *(HistoryTruth(n, 1, scatter) for scatter in (0.01, 0.03) for n in (2, 3, 6)),
    *(HistoryTruth(1, m, 0.01) for m in (3, 6)),
    *(HistoryTruth(n, 1, 0.01, older=6) for n in (1, 2, 3)),
    *(HistoryTruth(n, 3, 0.01, drift) for drift in (0.01, 0.02, 0.03) for n in (1, 3, 6)),
    *(HistoryTruth(n, 1, 0.01, slower=0.05) for n in (3, 6)),
    *(HistoryTruth(n, 1, 0.01, slower=0.10) for n in (2, 3, 6)),
    *(HistoryTruth(n, 1, 0.03, slower=0.10) for n in (3, 6)),
    HistoryTruth(1, 6, 0.01, slower=0.10),
    HistoryTruth(1, 1, 0.01, slower=0.10, older=6),
    HistoryTruth(3, 3, 0.01, 0.02, slower=0.10),
    HistoryTruth(3, 1, 0.03, slower=0.20),
)


def main() -> None:
    studies = options("history_power", __doc__, studies=(2000, "studies a line")).parse_args().studies
    show(in_parallel(line, TRUTHS, [studies] * len(TRUTHS)))


if __name__ == "__main__":
    main()
