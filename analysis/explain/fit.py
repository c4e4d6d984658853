"""The fit: a line through the wall times of one curve, checked point by point.

Each rank of a run pays once for what does not depend on how long it trains (sending the variables to all ranks, the
first, traced step, warm-up, saving), and then for each step:

    wall_s = fixed_s + steps_per_rank x batch_per_rank x s_per_image

A regression over the points of one curve finds both costs from work and wall time alone. It does not use the measured
speed, so that the speed which it implies (1 / s_per_image) can be compared with the measured one. It takes the time
per image as the same at every point. One rank alone exchanges no gradients: its steps are of another kind, and its run,
the longest by far, would pull the line; it is left out where there are enough other points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import TableError, metrics
from analysis.explain.tidy import PHASES
from analysis.metrics import Estimate

# A point does not fit where all the others together predict it this badly. The level is for the whole curve (each
# point is tested at MISFIT_LEVEL / points): of ten curves whose points all fit, about one names a point by mistake.
# A stricter level finds next to nothing in the five or six points that a scaling curve has. Choosing what to leave out
# makes the interval of what is left a little too narrow: for five points it covers the truth 89 times in 100, not 95.
MISFIT_LEVEL = 0.10
# Fewer points are not tested: the line through the others would have no more than one degree of freedom.
MIN_TESTED = 5
# Two numbers are fitted; a third point is the minimum that says how well.
MIN_POINTS = 3
# With so many points of two ranks and more, the point of one rank is not needed to fit the line, and to test it.
ENOUGH_WITHOUT_ONE_RANK = 4


@dataclass(frozen=True)
class Fit:
    """A line through the points of one curve: wall time [s] over images per rank."""

    ranks: tuple[int, ...]  # of the points it was made from
    fixed_s: Estimate
    s_per_image: Estimate  # of one rank

    @property
    def images_per_s_per_rank(self) -> Estimate:
        """The speed that the cost per image implies; its error by first-order propagation."""
        cost = self.s_per_image
        return Estimate(1 / cost.value, cost.standard_error / cost.value**2, cost.degrees, cost.n)

    def wall_s(self, images_per_rank: pd.Series) -> pd.Series:
        """The wall time [s] on the line for each of `images_per_rank`."""
        return self.fixed_s.value + self.s_per_image.value * images_per_rank


@dataclass(frozen=True)
class Explanation:
    """What the wall times of one curve say. `points` has one row a number of ranks; see `explain` for its columns."""

    name: str
    points: pd.DataFrame
    fits: dict[str, Fit]  # by what they were made from, from all points to those that were kept

    @property
    def fit(self) -> Fit:
        """The line through the points that were kept."""
        return list(self.fits.values())[-1]

    @property
    def misfits(self) -> pd.DataFrame:
        """The points that the others do not predict."""
        return self.points[self.points["misfit"]]


def fit(points: pd.DataFrame) -> Fit:
    """The line of wall time over images per rank, by ordinary least squares over `points`, one row a rank count.

    Columns: ranks, images_per_rank, wall_s [s]. The intervals are Student's t with len(points) - 2 degrees.
    Raises TableError where there are fewer than three points, or all did the same work a rank: then no regression
    can tell the fixed cost from the cost per step.
    """
    from scipy.stats import linregress  # it takes longer to import than most commands to run

    x, y = points["images_per_rank"].to_numpy(float), points["wall_s"].to_numpy(float)
    if len(x) < MIN_POINTS:
        raise TableError(f"{len(x)} points: a fixed cost and a cost per step need {MIN_POINTS} or more")
    if np.ptp(x) == 0:
        raise TableError(
            f"every point did the same work per rank ({x[0]:g} images): the fixed cost cannot be told from the cost "
            "per step; measure points with different steps per rank"
        )
    line = linregress(x, y)
    if line.slope <= 0:
        raise TableError(
            f"wall time does not grow with the work per rank ({line.slope:.3g} s per image): no cost per step"
        )
    degrees = len(x) - 2
    return Fit(
        tuple(int(rank) for rank in points["ranks"]),
        Estimate(float(line.intercept), float(line.intercept_stderr), degrees, len(x)),
        Estimate(float(line.slope), float(line.stderr), degrees, len(x)),
    )


def _misfit_probability(points: pd.DataFrame) -> pd.Series:
    """For each point, how likely the others would leave it so far off by chance, for the curve as a whole.

    The externally studentized residual: the point is predicted from a line through the others, and its distance
    divided by the standard error of that prediction; Student's t with n - 3 degrees, times n (Bonferroni).
    NaN where the others cannot predict it, or are too few.
    """
    found = [
        _away(points.drop(points.index[position]), points.iloc[position]) if len(points) >= MIN_TESTED else math.nan
        for position in range(len(points))
    ]
    return (len(points) * pd.Series(found, points.index, dtype=float)).clip(upper=1.0)


def _away(others: pd.DataFrame, point: pd.Series) -> float:
    """How likely a point is so far from the line through the others by chance; NaN where they predict nothing."""
    from scipy.stats import linregress, t

    x, y = others["images_per_rank"].to_numpy(float), others["wall_s"].to_numpy(float)
    if np.ptp(x) == 0:
        return math.nan
    line = linregress(x, y)
    spread = float(((x - x.mean()) ** 2).sum())
    variance = float(line.stderr) ** 2 * spread
    reach = (float(point["images_per_rank"]) - x.mean()) ** 2 / spread
    away = abs(float(point["wall_s"]) - line.intercept - line.slope * float(point["images_per_rank"]))
    # Rounding leaves a perfect line about 1e-13 off: that is no distance.
    negligible = 1e-9 * max(float(y.max()), float(point["wall_s"]))
    error = max(math.sqrt(variance * (1 + 1 / len(x) + reach)), negligible)
    return 2 * float(t.sf(away / error, len(x) - 2)) if away > negligible else 1.0


def explain(points: pd.DataFrame, name: str = "") -> Explanation:
    """The split of one curve, checked point by point. `points` as `read` gives them; repeats are averaged.

    The columns of the explanation's points: ranks, repeats, steps_per_rank, batch_per_rank, images_per_rank, wall_s,
    images_per_s_per_rank (NaN: not known), fitted_s, misfit_p, misfit, fixed_fraction (of wall_s),
    beyond_speed_s = wall_s - images_per_rank / images_per_s_per_rank (what the measured speed leaves unexplained),
    speedup_throughput, speedup_wall_time, speedup_without_fixed (with _low and _high, from the interval of the fixed
    cost; NaN where no time is left), all over the smallest point; used (by the fit).
    Raises TableError where the curve cannot be split (see `fit`).
    """
    found = _averaged(points)
    fits = {"all points": fit(found)}
    several = found["ranks"].gt(1)
    found["used"] = several if several.sum() >= ENOUGH_WITHOUT_ONE_RANK else True
    if not found["used"].all():
        fits["2+ ranks"] = fit(found[found["used"]])
    found["misfit_p"] = _misfit_probability(found[found["used"]]).reindex(found.index)
    # The worst one only: with five or six points a second test would have no degrees of freedom left.
    found["misfit"] = found["misfit_p"].rank(method="first").eq(1) & found["misfit_p"].lt(MISFIT_LEVEL)
    found["used"] &= ~found["misfit"]
    if found["misfit"].any():
        fits[f"{list(fits)[-1]}, not {found.loc[found['misfit'], 'ranks'].item()}"] = fit(found[found["used"]])
    return Explanation(name, _split(found, list(fits.values())[-1]), fits)


def _averaged(points: pd.DataFrame) -> pd.DataFrame:
    """One row a number of ranks: means over repeats, and the images of one rank."""
    averaged = ["steps_per_rank", "batch_per_rank", "wall_s", "images_per_s_per_rank"]
    by_ranks = points.groupby("ranks", sort=True)
    found = by_ranks[averaged].mean().astype(float).reset_index()
    found.insert(1, "repeats", by_ranks.size().to_numpy())
    return found.assign(images_per_rank=found["steps_per_rank"] * found["batch_per_rank"])


def _split(found: pd.DataFrame, chosen: Fit) -> pd.DataFrame:
    """The points with what the chosen line makes of them: fixed share, time beyond the speed, speedups."""
    cost, ranks = chosen.fixed_s, found["ranks"].astype(float)
    speed_s = metrics.step_s(found["images_per_rank"], found["images_per_s_per_rank"])
    found = found.assign(
        fitted_s=chosen.wall_s(found["images_per_rank"]),
        fixed_fraction=cost.value / found["wall_s"],
        beyond_speed_s=found["wall_s"] - speed_s,
    )
    images = metrics.whole_job(found["images_per_rank"], ranks)
    rates = {
        "speedup_throughput": metrics.whole_job(found["images_per_s_per_rank"], ranks),
        "speedup_wall_time": metrics.rate(images, found["wall_s"]),
    }
    for end, fixed_s in (("", cost.value), ("_low", max(cost.low, 0.0)), ("_high", cost.high)):
        left_s = (found["wall_s"] - fixed_s).where(lambda left: left > 0)
        rates[f"speedup_without_fixed{end}"] = metrics.rate(images, left_s)
    return found.assign(**{column: metrics.speedup(rate, rate.iloc[0]) for column, rate in rates.items()})


def phases(points: pd.DataFrame) -> pd.DataFrame:
    """Where the fixed cost of local records went [s], one row a rank count, mean over repeats; empty without phases.

    With `step` = batch_per_rank / images_per_s_per_rank, the time of one steady step: the broadcast; the first step
    less `step`; warm-up and timed steps less `step` each; what the four phases do not account for (ranks that waited in
    different phases); and their sum, the fixed cost that was measured.
    """
    columns = [f"phase_{name}_s" for name in PHASES]
    if any(column not in points for column in columns):
        return pd.DataFrame()
    step = metrics.step_s(points["batch_per_rank"].astype(float), points["images_per_s_per_rank"])
    broadcast, first, warm_up, timed = (points[column] for column in columns)
    split = pd.DataFrame(
        {
            "ranks": points["ranks"],
            "broadcast_s": broadcast,
            "first_step_s": first - step,
            "warm_up_s": warm_up + timed - (points["steps_per_rank"] - 1) * step,
            "other_s": points["wall_s"] - broadcast - first - warm_up - timed,
        }
    )
    split["fixed_s"] = split.drop(columns="ranks").sum(axis=1, skipna=False)
    return split.groupby("ranks", sort=True).mean().dropna().reset_index()
