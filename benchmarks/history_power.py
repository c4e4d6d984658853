"""How often the verdicts of `compare` and `history` are wrong, and what they detect: launches whose truth is known.

    python -m benchmarks.history_power [--studies 2000]

A study has six points with three quantities each, a throughput, a wall time and a job time, measured by some launches
on each of some sessions; on the newest one all are slower by a factor, or the job times alone, as where a file system
is slow. Launches scatter, and so do sessions (one factor for all values of a session, as a machine has good and bad
days). The last column is the share of intervals that miss the true ratio. docs/validation.md has the results.
"""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from analysis.compare.launches import within
from analysis.stats.student import ratio_of_geometric_means
from analysis.stats.verdict import RatioVerdict, judge_all, ratio_verdict
from analysis.thresholds import limit
from benchmarks.common import Rng, Row, merged, options, show
from common import affinity

SEED = 19
POINTS = 6
TIMES = 2 * POINTS  # wall times and job times


@dataclass(frozen=True)
class Truth:
    """The truth of a study: launches in each session, sessions before the newest, scatter, and the change."""

    launches: int
    before: int
    scatter: float  # of launches, relative standard deviation
    drift: float = 0.0  # of sessions
    slower: float = 0.0  # the newest session, a fraction
    older: int = 0  # sessions of an older state of the machine, each with as many launches
    slowed: int = POINTS + TIMES  # how many values are slower: the last ones, the job times

    def cells(self) -> Row:
        """Return the truth as cells of a table."""
        return {
            "truly slower by": f"{self.slower:.0%}" + ("" if self.slowed == POINTS + TIMES else ", job times alone"),
            "sessions before": str(self.before),
            "older": str(self.older),
            "launches scatter": f"{self.scatter:.0%}",
            "sessions scatter": f"{self.drift:.0%}",
            "launches": str(self.launches),
        }


def study(rng: Rng, truth: Truth) -> tuple[list[RatioVerdict], list[bool]]:
    """Return the verdicts on the values of one simulated study, and whether each interval misses the true ratio."""
    number, values = truth.older + truth.before + 1, POINTS + TIMES
    days = np.exp(rng.normal(0, truth.drift, number)) if truth.drift else np.ones(number)
    speeds = days[:, None, None] * np.exp(rng.normal(0, truth.scatter, (number, values, truth.launches)))
    speeds[-1, values - truth.slowed :] *= 1 - truth.slower
    speeds[:, POINTS:] = 1 / speeds[:, POINTS:]  # times
    older, before, now = speeds[: truth.older], speeds[truth.older : -1], speeds[-1]
    ratios = {
        at: ratio_of_geometric_means(before[:, at].ravel().tolist(), now[at].tolist(), [older[:, at].ravel().tolist()])
        for at in range(values)
    }
    decided = [at for at, ratio in ratios.items() if not np.isnan(ratio.low)]
    judged = judge_all([ratios[at] for at in decided], within(limit("same")))
    slowed = [1 - truth.slower if at >= values - truth.slowed else 1.0 for at in range(values)]
    missed = [not ratios[at].contains(slowed[at] ** (-1 if at >= POINTS else 1)) for at in decided]
    return [ratio_verdict(verdict, at >= POINTS) for at, verdict in zip(decided, judged, strict=True)], missed


def line(truth: Truth, studies: int) -> Row:
    """Return the shares of studies that call any value slower or faster, and of values with each verdict."""
    rng = np.random.default_rng(SEED)
    verdicts_of_studies, misses = zip(*(study(rng, truth) for _ in range(studies)), strict=True)
    counts = Counter(itertools.chain.from_iterable(verdicts_of_studies))

    def studies_with(name: RatioVerdict) -> str:
        return f"{sum(name in verdicts for verdicts in verdicts_of_studies) / studies:.3f}"

    return {
        **truth.cells(),
        "studies: any value worse": studies_with("worse"),
        "any better": studies_with("better"),
        "values: alike": f"{counts['alike'] / max(counts.total(), 1):.2f}",
        "values: worse": f"{counts['worse'] / max(counts.total(), 1):.2f}",
        "intervals that miss": f"{sum(map(sum, misses)) / max(counts.total(), 1):.3f}",
    }


TRUTHS = (
    *(Truth(n, 1, 0.01) for n in (2, 3, 6)),
    *(Truth(n, 1, 0.03) for n in (2, 3, 6)),
    *(Truth(1, m, 0.01) for m in (3, 6)),
    *(Truth(n, 1, 0.01, older=6) for n in (1, 2, 3)),
    *(Truth(n, 3, 0.01, drift) for drift in (0.01, 0.02, 0.03) for n in (1, 3, 6)),
    *(Truth(n, 1, 0.01, slower=0.05) for n in (3, 6)),
    *(Truth(n, 1, 0.01, slower=0.10) for n in (2, 3, 6)),
    *(Truth(n, 1, 0.03, slower=0.10) for n in (3, 6)),
    *(Truth(1, m, 0.01, slower=0.10) for m in (3, 6)),
    *(Truth(n, 1, 0.01, slower=0.10, older=6) for n in (1, 2, 3)),
    *(Truth(3, 3, 0.01, drift, slower=0.10) for drift in (0.01, 0.02)),
    *(Truth(n, 1, 0.01, slower=0.20) for n in (2, 3)),
    Truth(3, 1, 0.03, slower=0.20),
    *(Truth(n, 1, 0.01, slower=0.10, slowed=POINTS) for n in (3, 6)),
    Truth(6, 1, 0.03, slower=0.20, slowed=POINTS),
)


def main() -> None:
    """Print the table; studies that differ in the number of launches alone share a row."""
    studies = options("history_power", __doc__, studies=(2000, "studies a line")).parse_args().studies
    with ProcessPoolExecutor(len(affinity.usable_cores())) as pool:
        lines = pool.map(line, TRUTHS, [studies] * len(TRUTHS))
        show(merged(lines, by=[name for name in TRUTHS[0].cells() if name != "launches"]))


if __name__ == "__main__":
    main()
