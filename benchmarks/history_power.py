"""How often the verdicts of a history are wrong, and what they find: made-up launches whose truth is known.

    python -m benchmarks.history_power [--studies 2000]

Prints the tables of docs/history.md. A study has six points with three quantities each, a throughput, a wall time and
a job time, measured by some launches on each of some sessions; on the newest one all are slower by a factor, or the
job times alone, as where a file system is slow. Launches scatter, and so do sessions (one factor for all values of an
session, as a machine has good and bad days). In brackets the 95 % interval of the share (Clopper and Pearson).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from tabulate import tabulate

from analysis.history import verdicts
from benchmarks.audit_power import share

SEED = 19
POINTS = 6
TIMES = 2 * POINTS  # wall times and job times


@dataclass(frozen=True)
class Truth:
    """What is true of a study: launches on each session, sessions before the newest, scatter, and the change."""

    launches: int
    before: int
    scatter: float  # of launches, relative standard deviation
    drift: float = 0.0  # of sessions
    slower: float = 0.0  # the newest session, a fraction
    older: int = 0  # sessions of an older state of the machine, each with as many launches
    lost: int = POINTS + TIMES  # how many of the values are slower: the last ones, which are the job times

    def words(self) -> list[object]:
        """The truth as cells of a table."""
        scatter = [f"{self.scatter:.0%}", f"{self.drift:.0%}"]
        loses = f"{self.slower:.0%}" + ("" if self.lost == POINTS + TIMES else ", job times alone")
        return [loses, self.launches, self.before, self.older, *scatter]


def study(rng: np.random.Generator, truth: Truth) -> list[verdicts.VerdictName]:
    """The verdicts on the values of one made-up study."""
    number, values = truth.older + truth.before + 1, POINTS + TIMES
    days = np.exp(rng.normal(0, truth.drift, number)) if truth.drift else np.ones(number)
    speeds = days[:, None, None] * np.exp(rng.normal(0, truth.scatter, (number, values, truth.launches)))
    speeds[-1, values - truth.lost :] *= 1 - truth.slower
    speeds[:, POINTS:] = 1 / speeds[:, POINTS:]  # times
    older, before, now = speeds[: truth.older], speeds[truth.older : -1], speeds[-1]
    ratios = {
        at: verdicts.mean_ratio(before[:, at].ravel().tolist(), now[at].tolist(), [older[:, at].ravel().tolist()])
        for at in range(values)
    }
    decided = [at for at, one in ratios.items() if not np.isnan(one.low)]
    judged = verdicts.judge_ratios([ratios[at] for at in decided], verdicts.default_tolerance())
    return [verdicts.verdict_name(verdict, at >= POINTS) for at, verdict in zip(decided, judged, strict=True)]


def line(truth: Truth, studies: int) -> list[object]:
    """How many studies call any point slower, any faster, and how many values each verdict has."""
    rng = np.random.default_rng(SEED)
    slower = faster = 0
    counts = {name: 0 for name in verdicts.VERDICTS}
    for _ in range(studies):
        found = study(rng, truth)
        slower += "slower" in found
        faster += "faster" in found
        for verdict in found:
            counts[verdict] += 1
    every = sum(counts.values()) or 1
    points = [f"{counts[name] / every:.2f}" for name in ("as before", "not decidable", "slower")]
    return [*truth.words(), share(slower, studies), share(faster, studies), *points]


TRUTHS = (
    *(Truth(n, 1, 0.01) for n in (2, 3, 6)),
    *(Truth(n, 1, 0.03) for n in (3, 6)),
    *(Truth(1, m, 0.01) for m in (3, 6)),
    Truth(3, 1, 0.01, older=6),
    *(Truth(n, 3, 0.01, drift) for n in (1, 3, 6) for drift in (0.01, 0.02, 0.03)),
    *(Truth(n, 1, 0.01, slower=0.05) for n in (3, 6)),
    *(Truth(n, 1, 0.01, slower=0.10) for n in (2, 3, 6)),
    *(Truth(n, 1, 0.03, slower=0.10) for n in (3, 6)),
    *(Truth(1, m, 0.01, slower=0.10) for m in (3, 6)),
    *(Truth(n, 1, 0.01, slower=0.10, older=6) for n in (1, 2, 3)),
    *(Truth(3, 3, 0.01, drift, slower=0.10) for drift in (0.01, 0.02)),
    *(Truth(n, 1, 0.01, slower=0.20) for n in (2, 3)),
    Truth(3, 1, 0.03, slower=0.20),
    *(Truth(n, 1, 0.01, slower=0.10, lost=POINTS) for n in (3, 6)),
    Truth(6, 1, 0.03, slower=0.20, lost=POINTS),
)
HEADERS = (
    "truly slower by", "launches", "sessions before", "older", "launches scatter", "sessions scatter",
    "studies: any value slower", "any faster", "values: as before", "not decidable", "slower",
)  # fmt: skip


def lines(studies: int) -> Iterator[list[object]]:
    """One line a truth."""
    with ProcessPoolExecutor() as pool:
        yield from pool.map(line, TRUTHS, [studies] * len(TRUTHS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=2000, help="studies a line")
    options = parser.parse_args()
    print(tabulate(lines(options.studies), HEADERS, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
