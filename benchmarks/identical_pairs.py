"""How often `compare` and `history` call two measurements of the same thing different.

    python -m benchmarks.identical_pairs [--pairs 2000]

Prints a table of docs/validation.md. Each pair is two sets of launches of the same curves on one machine. The
values of launches differ by a lognormal factor. At most 5 in 100 may be called different.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np

from analysis.compare.launches import mean_ratio
from analysis.stats import Number
from benchmarks.common import Rng, Row, merged, options, show

_MIN_SCATTER = 0.005  # of the value of a launch, at least


@dataclass(frozen=True)
class Pair:
    """The truth of a pair: how much launches differ, their number in either set, and the number of curves."""

    between: float
    a: int
    b: int
    curves: int


PAIRS = [
    Pair(between, *launches, curves)
    for launches in ((1, 1), (2, 2), (1, 3), (3, 3))
    for curves in (1, 3)
    for between in (0.0, 0.01, 0.02, 0.03)
]


def ratio(rng: Rng, pair: Pair) -> Number:
    """Return the ratio of the mean values of the first curve, as `compare` and `history` do."""
    scatter = max(pair.between, _MIN_SCATTER)
    sides = [[np.exp(rng.normal(0, scatter, n)).tolist() for _ in range(pair.curves)] for n in (pair.a, pair.b)]
    others = [group for side in sides for group in side[1:]] if min(pair.a, pair.b) < 3 else []
    return mean_ratio(sides[0][0], sides[1][0], others)


def share(ratios: list[Number]) -> str:
    """Return the share of the judged ratios that are called different; "not judged" without any."""
    judged = [ratio for ratio in ratios if ratio.has_interval]
    if not judged:
        return "not judged"
    return f"{statistics.fmean(not ratio.contains(1.0) for ratio in judged):.3f}"


def line(pair: Pair, pairs: int) -> Row:
    rng = np.random.default_rng(7)
    return {
        "launches": f"{pair.a} and {pair.b}",
        "curves": str(pair.curves),
        "launches differ by": f"{100 * pair.between:g} %",
        "called different": share([ratio(rng, pair) for _ in range(pairs)]),
    }


def main() -> None:
    pairs = options("identical_pairs", __doc__, pairs=(2000, "simulated for each line")).parse_args().pairs
    show(merged((line(pair, pairs) for pair in PAIRS), by=["launches", "curves"]))
    print(f"\n{pairs} pairs a line, standard error at most {0.5 / pairs**0.5:.3f}")


if __name__ == "__main__":
    main()
