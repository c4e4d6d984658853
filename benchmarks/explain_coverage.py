"""How often `explain` answers, how often its intervals hold the truth, and how often it is confidently wrong.

    python -m benchmarks.explain_coverage [--curves 100]

Each line simulates one kind of work with one kind of noise, on three designs: "divided" shares 512 steps out among 1 to
32 ranks, half of the curves with measured speeds; "run added" is the same with the runs that `explain` names; "best"
has 3 numbers of steps on 1, 2 and 4 ranks. A rank without others trains 170 images/s in batches of 64; each run pays 12
s once unless the kind says otherwise. Measured speeds count the steps alone, with noise of 0.5 %.

`yes`, `no`: the share of curves with this answer; `holds`: of the answers yes, the share whose interval holds the cost
that is paid once; `wrong`: the share of all curves with a yes whose interval does not, or with a no although the cost
is more than `graded_serious` of the shortest wall time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import explain
from analysis.thresholds import limit
from benchmarks.common import Rng, Row, in_parallel, options, show

FIXED_S, BATCH, IMAGE_S = 12.0, 64, 1 / 170
Values = np.ndarray


# Standard deviations of wall times: proportional and additive [s]; with the tails of Student's t or of a normal one.
ONE_PER_CENT = "1 %"
HEAVY_TAILS = "1 %, Student's t with 3 degrees"
NOISES = {
    ONE_PER_CENT: (0.01, 0.0), "3 %": (0.03, 0.0), "5 %": (0.05, 0.0), "0.3 s": (0.0, 0.3),
    "0.5 % and 0.15 s": (0.005, 0.15), HEAVY_TAILS: (0.01, 0.0),
}  # fmt: skip


def noisy(exact_s: Values, noise: str, rng: Rng) -> Values:
    """Return wall times with one of NOISES."""
    (proportional, additive_s), shape = NOISES[noise], (2, len(exact_s))
    unit = rng.standard_t(3, shape) / math.sqrt(3) if noise == HEAVY_TAILS else rng.normal(size=shape)
    return exact_s * (1 + proportional * unit[0]) + additive_s * unit[1]


@dataclass(frozen=True)
class Kind:
    """One kind of work: `grows`, the time of a step over that of one rank; `recurs_s`, what speeds do not count."""

    name: str
    grows: Callable[[Values], Values] = np.ones_like
    recurs_s: Callable[[Values, Values, Rng], Values] = lambda ranks, steps, rng: np.zeros_like(ranks)
    fixed_s: Callable[[Values], Values] = lambda ranks: np.full_like(ranks, FIXED_S)
    batch: Callable[[Values], Values] = lambda ranks: np.full_like(ranks, BATCH)


def _stragglers(ranks: Values, steps: Values, rng: Rng) -> Values:
    """Return the delay of runs in which one rank is 10 % slower, as every tenth rank is."""
    return 0.1 * steps * BATCH * IMAGE_S * (rng.random(len(ranks)) < 1 - 0.9**ranks)


def _slower(ranks: Values, steps: Values, rng: Rng) -> Values:
    """Return the delay of steps that take 2 % longer at each doubling of the run, as of a hot processor."""
    return 0.02 * steps * BATCH * IMAGE_S * np.log2(steps / 16)


def _late(ranks: Values, steps: Values, rng: Rng) -> Values:
    """Return the delay of runs of which one in ten is 10 s late."""
    return 10 * (rng.random(len(ranks)) < 0.1)


def _epochs(ranks: Values, steps: Values) -> Values:
    return steps * ranks * BATCH / 6400


KINDS = (
    Kind("clean"),
    Kind("no fixed cost", fixed_s=np.zeros_like),
    Kind("1 s once", fixed_s=np.ones_like),
    Kind("+ 10 % a doubling", lambda n: 1 + 0.1 * np.log2(n)),
    Kind("+ 10 % as a ring", lambda n: 1 + 0.2 * (n - 1) / n),
    Kind("slower between nodes of 4 ranks", lambda n: 1 + 0.3 * (n > 4)),
    Kind("contention", lambda n: 1 + n / 16),
    Kind("contention, no fixed cost", lambda n: 1 + n / 4, fixed_s=np.zeros_like),
    Kind("superlinear", lambda n: 1 - 0.05 * np.log2(n)),
    Kind("a log line of one rank at each step", recurs_s=lambda n, steps, rng: 0.02 * steps),
    Kind("a log line of all ranks at each step", recurs_s=lambda n, steps, rng: 0.01 * steps * n),
    Kind("the same, no fixed cost", recurs_s=lambda n, steps, rng: 0.03 * steps * n, fixed_s=np.zeros_like),
    Kind("evaluation at each epoch", recurs_s=lambda n, steps, rng: 3 * _epochs(n, steps)),
    Kind("evaluation shared by the ranks", recurs_s=lambda n, steps, rng: 10 * _epochs(n, steps) / n),
    Kind("a checkpoint every 10 steps", recurs_s=lambda n, steps, rng: 0.2 * (steps // 10)),
    Kind("stragglers", recurs_s=_stragglers),
    Kind("one run in ten 10 s late", recurs_s=_late),
    Kind("one run in ten 10 s late, no fixed cost", recurs_s=_late, fixed_s=np.zeros_like),
    Kind("cold cache: 10 s over the ranks, once", fixed_s=lambda n: FIXED_S + 10 / n),
    Kind("the fixed cost grows by 1 s a doubling", fixed_s=lambda n: FIXED_S + np.log2(n)),
    Kind("batches that vary", lambda n: 1 + 0.2 * (n > 2), batch=lambda n: np.where(n > 2, 32.0, 64.0)),
    Kind("steps slow down by 2 % a doubling of the run", recurs_s=_slower),
)  # fmt: skip


def curve(kind: Kind, noise: str, ranks: Values, steps: Values, speeds: bool, rng: Rng) -> pd.DataFrame:
    """Return runs of one kind."""
    ranks, steps, batch = ranks.astype(float), steps.astype(float), kind.batch(ranks.astype(float))
    image_s = kind.grows(ranks) * IMAGE_S
    exact_s = kind.fixed_s(ranks) + steps * batch * image_s + kind.recurs_s(ranks, steps, rng)
    runs = {"ranks": ranks.astype(int), "steps_per_rank": steps, "batch_per_rank": batch}
    speed = 1 / image_s * (1 + 0.005 * rng.normal(size=len(ranks))) if speeds else math.nan
    return pd.DataFrame(runs | {"wall_s": noisy(exact_s, noise, rng), "images_per_s_per_rank": speed})


DIVIDED = np.array([1, 2, 4, 8, 16, 32])
BEST = np.repeat([1, 2, 4], 3), np.tile([50, 100, 200], 3)


def judged(kind: Kind, runs: pd.DataFrame, explained: explain.Explanation) -> dict[str, float]:
    """Return what was answered on one curve: 1 for true, 0 for false, NaN for no answer."""
    answer, truths = explained.has_fixed_cost, kind.fixed_s(runs["ranks"].to_numpy(float))
    least, most, matters_s = truths.min(), truths.max(), limit("graded_serious") * explained.shortest_s
    holds = explained.fixed_s.low <= most and explained.fixed_s.high >= least
    wrong = (answer is True and not holds) or (answer is False and least > matters_s)
    return {"yes": answer is True, "no": answer is False, "holds": holds if answer else math.nan, "wrong": wrong}


LINES = [(kind, ONE_PER_CENT) for kind in KINDS]
LINES += [(kind, noise) for kind in KINDS[:2] for noise in [*NOISES][1:]]


def line(number: int, curves: int) -> Row:
    """Return a line of the table."""
    (kind, noise), rng = LINES[number], np.random.default_rng([0, number])
    results: dict[str, list[dict[str, float]]] = {"divided": [], "run added": [], "best": []}
    for nth in range(curves):
        speeds = nth % 2 == 0
        runs = curve(kind, noise, DIVIDED, 512 // DIVIDED, speeds, rng)
        explained = explain.explain(runs)
        results["divided"].append(judged(kind, runs, explained))
        if (decider := explained.decider) is not None:
            ranks, steps = (np.repeat(x, decider.runs) for x in (decider.ranks, decider.steps_per_rank))
            more = curve(kind, noise, ranks, steps, speeds, rng)
            runs = pd.concat([runs, more], ignore_index=True)
            results["run added"].append(judged(kind, runs, explain.explain(runs)))
        runs = curve(kind, noise, *BEST, speeds, rng)
        results["best"].append(judged(kind, runs, explain.explain(runs)))
    return {"kind": kind.name, "noise": noise} | dict(_cells(results))


def _cells(results: dict[str, list[dict[str, float]]]) -> Iterator[tuple[str, str]]:
    for design, rows in results.items():
        for name, share in pd.DataFrame(rows, dtype=float).mean().items():
            if design != "divided" or name != "holds":
                yield f"{design}: {name}", "-" if math.isnan(share) else f"{share:.2f}"


def main() -> None:
    curves = options("explain_coverage", __doc__, curves=(100, "of each line")).parse_args().curves
    show(in_parallel(line, range(len(LINES)), [curves] * len(LINES)))
    print(f"\nnominal 95 %; {curves} curves a line")


if __name__ == "__main__":
    main()
