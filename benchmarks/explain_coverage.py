"""How often the intervals of `explain` hold the truth, and its false alarms on curves without a fault.

    python -m benchmarks.explain_coverage [--curves 200] [--only WORDS]

Each line simulates curves of one design, as many under additive noise as under proportional noise and both: a fixed
cost of 7 s, 170 images/s on one rank, 500 steps of 64 images shared out among the ranks unless the design says
otherwise. Measured speeds have noise of 0.5 %, except in lines that say exact. `fixed cost`, `speed` and `speedup` are
the shares of curves whose interval holds the fixed cost, the speed that the wall times imply, and the speedup without
the fixed cost on the most ranks. `misfit`, `undecided` and `finding` are the shares of curves with a point that does
not fit, is not decidable, or contradicts itself. In the lines of twice the steps one point ran them: `misfit` is the
share in which only that point is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis import explain
from benchmarks.common import Rng, Row, options, show
from train.record import affinity

FIXED_S, SPEED, BATCH, STEPS = 7.0, 170.0, 64, 500


@dataclass(frozen=True)
class Noise:
    """Standard deviations. Of a wall time: additive [s] and proportional; of a measured speed: proportional."""

    name: str
    additive_s: float = 0.0
    proportional: float = 0.0
    speed_deviation: float = 0.005
    tails: float = math.inf  # degrees of freedom of Student's t; infinite: normal

    def draw(self, deviation: float, n: int, rng: Rng) -> np.ndarray:
        """Return the noise of n values with this standard deviation."""
        if math.isinf(self.tails):
            return rng.normal(0, deviation, n)
        return deviation * rng.standard_t(self.tails, n) / math.sqrt(self.tails / (self.tails - 2))


ADDITIVE = Noise("additive, 0.3 s", additive_s=0.3)
PROPORTIONAL = Noise("proportional, 1 %", proportional=0.01)
BOTH = Noise("0.15 s and 0.5 %", 0.15, 0.005)
HEAVY = Noise("the same, Student's t with 3 degrees", 0.15, 0.005, tails=3)
EXACT = [
    Noise(f"{noise.name}, exact speeds", noise.additive_s, noise.proportional, 0) for noise in (ADDITIVE, PROPORTIONAL)
]


def same(ranks: np.ndarray) -> np.ndarray:
    """Return the time per image over that of one rank: the same on any number of ranks."""
    return np.ones_like(ranks)


def doubling(ranks: np.ndarray) -> np.ndarray:
    """Return the same, growing by 10 % of one rank's at each doubling."""
    return 1 + 0.1 * np.log2(ranks)


def ring(ranks: np.ndarray) -> np.ndarray:
    """Return the same, growing as a ring allreduce does: by 10 % x 2 (n - 1) / n."""
    return 1 + 0.1 * 2 * (ranks - 1) / ranks


@dataclass(frozen=True)
class Design:
    """The measured points, and whether their speeds are measured."""

    name: str
    ranks: tuple[int, ...]
    grows: Callable[[np.ndarray], np.ndarray] = same
    speeds: bool = True
    steps: tuple[int, ...] = ()  # of each point; none: STEPS shared out
    repeats: int = 1
    twice: int | None = None  # the point that ran twice its steps
    fixed_s: float = FIXED_S


SIX = (1, 2, 4, 8, 16, 32)
SQUARE = {"ranks": (1, 1, 1, 2, 2, 2, 4, 4, 4), "steps": (50, 100, 200) * 3, "speeds": False}
DESIGNS = [
    Design("speeds, 1 to 8 ranks", SIX[:4]),
    Design("speeds, 1 to 32 ranks", SIX),
    Design("speeds, 1 to 32, time per image + 10 % a doubling", SIX, doubling),
    Design("speeds, 1 to 8, 3 repeats, + 10 % a doubling", SIX[:4], doubling, repeats=3),
    Design("speeds, 1 to 8, equal work a rank, + 10 % a doubling", SIX[:4], doubling, steps=(100,) * 4),
    Design("wall times alone, 1 to 32", SIX, speeds=False),
    Design("wall times alone, 1 to 32, + 10 % a doubling", SIX, doubling, speeds=False),
    Design("wall times alone, 1 to 32, + 10 % as a ring", SIX, ring, speeds=False),
    Design("wall times alone, 1 to 8", SIX[:4], speeds=False),
    Design("wall times alone, 1 to 8, + 10 % a doubling", SIX[:4], doubling, speeds=False),
    Design("3 works each on 1, 2 and 4, + 10 % a doubling", grows=doubling, **SQUARE),  # type: ignore[arg-type]
    Design("speeds, 1 to 32, twice the steps on 32", SIX, twice=5),
    Design("speeds, 1 to 32, twice the steps on 1", SIX, twice=0),
    Design("speeds, 1 to 4 ranks", SIX[:3]),
    Design("speeds, 1 to 128 ranks, fixed cost 20 s", (*SIX, 64, 128), fixed_s=20.0),
]
KINDS = (ADDITIVE, PROPORTIONAL, BOTH)  # of noise; `explain` does not know which it is
LINES = [(design, KINDS) for design in DESIGNS]
LINES += [(replace(design, name=f"{design.name}, exact speeds"), EXACT) for design in DESIGNS[:2]]
LINES += [
    (replace(design, name=f"{design.name}, heavy tails"), (HEAVY,))
    for design in DESIGNS
    if design.name in ("speeds, 1 to 32 ranks", "wall times alone, 1 to 32")
]


def curve(design: Design, noise: Noise, rng: Rng) -> tuple[pd.DataFrame, float]:
    """Return the runs of one curve, and the true speedup of its last point over its first."""
    ranks = np.tile(np.array(design.ranks, float), design.repeats)
    stated = np.tile(np.array(design.steps or [max(1, STEPS // n) for n in design.ranks], float), design.repeats)
    steps_run = stated.copy()
    if design.twice is not None:
        steps_run[design.twice] *= 2
    per_image = design.grows(ranks) / SPEED
    deviations = (noise.proportional, noise.additive_s, noise.speed_deviation)
    proportional, additive_s, speed_deviation = (noise.draw(deviation, len(ranks), rng) for deviation in deviations)
    wall_s = (design.fixed_s + steps_run * BATCH * per_image) * (1 + proportional) + additive_s
    speed = 1 / per_image * (1 + speed_deviation)
    runs = pd.DataFrame(
        {
            "ranks": ranks.astype(int),
            "steps_per_rank": stated,
            "batch_per_rank": BATCH,
            "wall_s": wall_s,
            "images_per_s_per_rank": speed if design.speeds else np.nan,
        }
    )
    return runs, float(ranks.max() / ranks.min() * per_image[ranks.argmin()] / per_image[ranks.argmax()])


def simulate(design: Design, kinds: Sequence[Noise], curves: int, rng: Rng) -> Row:
    """Return a line of the table: over all kinds of noise, with as many curves of each."""
    judged = [_judge(design, *curve(design, noise, rng)) for noise in kinds for _ in range(curves)]
    shares = pd.DataFrame(judged).mean()
    texts = {name: "-" if math.isnan(share) else f"{share:.3f}" for name, share in shares.items()}
    return {"design": design.name, **texts}


def _judge(design: Design, runs: pd.DataFrame, speedup: float) -> dict[str, float]:
    """Return the conclusions on one curve: 1 for true, 0 for false, NaN for none."""
    conclusion = explain.conclude(runs)
    implied, true_speed = conclusion.fit.images_per_s_per_rank, conclusion.fit.measured_images_per_s
    last = conclusion.points[~conclusion.points["misfit"]].iloc[-1]
    misfits = conclusion.points.index[conclusion.points["misfit"]]
    wrong = len(misfits) > 0 if design.twice is None else misfits.tolist() == [design.twice]
    return {
        "fixed cost": float(_holds(conclusion.fit.fixed_s.low, design.fixed_s, conclusion.fit.fixed_s.high)),
        "speed": _holds(implied.low, SPEED if math.isnan(true_speed) else true_speed, implied.high),
        "speedup": _holds(last["speedup_without_fixed_low"], speedup, last["speedup_without_fixed_high"])
        if design.twice is None
        else math.nan,
        "misfit": float(wrong),
        "undecided": float(conclusion.points["misfit_undecided"].any()),
        "finding": float(bool(conclusion.findings)),
    }


def _holds(low: float, truth: float, high: float) -> float:
    """Return whether an interval, of which one end may be unknown, holds the truth; NaN if both are unknown."""
    if math.isnan(low) and math.isnan(high):
        return math.nan
    return float(not (truth < low or truth > high))


def main() -> None:
    parser = options("explain_coverage", __doc__, curves=(200, "of each line and kind of noise"))
    parser.add_argument("--only", default="", help="the designs whose name contains this text")
    arguments = parser.parse_args()
    with ProcessPoolExecutor(len(affinity.usable_cores())) as pool:
        jobs = [
            pool.submit(simulate, design, kinds, arguments.curves, np.random.default_rng([0, number]))
            for number, (design, kinds) in enumerate(LINES)
            if arguments.only in design.name
        ]
        show(job.result() for job in jobs)
    print(f"\nnominal 95 %; {arguments.curves} curves of each kind of noise")


if __name__ == "__main__":
    main()
