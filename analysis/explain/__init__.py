"""Why speedup by throughput and by wall time differ: wall times of one curve, split into a fixed cost and the steps.

    wall_s = fixed_s + steps_per_rank x batch_per_rank x time per image

A fixed cost does not depend on how long a run trains: sending the variables to all ranks, the first, traced step,
warm-up, saving. Measured speeds show how much of a wall time is beyond the steps. Whether that is paid once, or again
and again with the steps, only several works at one number of ranks show (`line.paid_once`), or the phases of local
records. Without them it is not decidable, and the run that would decide is named.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis import TableError, metrics
from analysis.explain import line, wall_time_runs
from analysis.explain.line import EQUAL, FACTOR, OWN, SPEEDS, WallTimeLine, WallTimeModel
from analysis.explain.wall_time_runs import POINT, SPEED, Contradiction, steps_s
from analysis.stats import Number, from_ends, repeats, unknown
from analysis.stats.student import exponential
from analysis.thresholds import limit
from common.terminal import counted

_FEWER, _MORE = 8, 4  # a deciding run has so many times fewer steps than the shortest one; more, if that has few
_LEAST_RUNS, _MOST_RUNS = 4, 9  # of fewer, one that something delayed decides too much


@dataclass(frozen=True)
class Decider:
    """The runs that would show what is paid once: how many, and the wall time that each explanation predicts [s]."""

    runs: int
    ranks: int
    steps_per_rank: float
    if_fixed_s: float
    if_recurring_s: float


@dataclass(frozen=True)
class Explanation:
    """The result for one curve. `points` has one row a point; see `explain` for its columns."""

    name: str
    model: WallTimeModel
    points: pd.DataFrame
    findings: tuple[Contradiction, ...]
    modelled_s: Number  # the fixed cost by the model: with speeds, the cost beyond the steps
    once_s: Number | None  # the cost that is paid once; None: these runs do not determine it
    by_phases: bool  # whether the phases of local records show it
    images_per_s_per_rank: Number  # the speed that the wall times imply; NaN if there is none
    decider: Decider | None = None

    @property
    def fixed_s(self) -> Number:
        """Return the fixed cost: the one that is paid once if it is known, else the one by the model."""
        return self.modelled_s if self.once_s is None else self.once_s

    @property
    def has_fixed_cost(self) -> bool | None:
        """Return whether each run pays a cost once; None if that is not decidable.

        No cost is paid once if measured speeds leave none.
        """
        if self.once_s is not None:
            return self._matters(self.once_s)
        return False if self.model.speeds and self._matters(self.modelled_s) is False else None

    @property
    def has_cost_beyond_steps(self) -> bool | None:
        """Return whether the wall times have a cost that measured speeds do not count; None: not decidable."""
        return self._matters(self.modelled_s) if self.model.speeds else self.has_fixed_cost

    def _matters(self, cost: Number) -> bool | None:
        """Return whether a cost is above zero; False only if its interval excludes what would matter."""
        if cost.low > 0:
            return True
        least_s = limit("graded_serious") * self.shortest_s
        return False if -least_s < cost.low and cost.high < least_s else None

    @property
    def shortest_s(self) -> float:
        """Return the shortest wall time of a point [s], as `wall_time_runs.shortest_s`."""
        return wall_time_runs.shortest_s(self.points)

    @property
    def misfits(self) -> pd.DataFrame:
        """Return the points that the others do not predict."""
        return self.points[self.points["misfit"]]


def explain(table: pd.DataFrame, name: str = "") -> Explanation:
    """Return the split of one curve, checked point by point. `table`: its runs, as from `wall_time_runs.table_runs`.

    A point has one number of ranks, of steps per rank and a batch; its runs are repeats. The explanation's points, in
    the order of ranks and of falling work, have the columns of `explanation_text.CurvePoint` (NaN: null), used (by the
    fit), misfit (see `line.misfits`), and the ends speedup_without_fixed_low and _high (NaN if no time is left). A
    point whose runs are all contradicted has no speedup. Raises TableError if the curve cannot be split.
    """
    all_runs = wall_time_runs.prepared(table)
    findings = wall_time_runs.contradictions(all_runs)
    trusted = wall_time_runs.trusted_runs(all_runs, findings)
    model = choose(trusted)
    tested = line.misfits(model, trusted)
    fitting = trusted[~trusted["point"].isin(tested.index[tested["misfit"]])]
    fit = model.fit(model.usable(fitting), fitting)
    assert fit is not None, "the test of misfits leaves more than half of the points"
    by_phases = not wall_time_runs.phases(model.usable(fitting)).empty
    once = fit if by_phases else line.paid_once(fitting)

    points = _means(wall_time_runs.without_contradicted_speeds(all_runs, findings)).join(tested)
    points["misfit"] = points["misfit"].eq(True)
    points["used"] = points.index.isin(model.usable(fitting)["point"])
    points["fitted_s"] = line.predicted_s(model, fit, points, model.usable(fitting))
    points["possible"] = points.index.isin(trusted["point"])
    points = _speedups(points.sort_values(["ranks", "images_per_rank"], ascending=[True, False]), once or fit, fitting)
    points, once_s = points.reset_index(drop=True), once.cost(0) if once else None
    implied = _implied_speed(model, fit, fitting)
    explained = Explanation(name, model, points, tuple(findings), fit.cost(0), once_s, by_phases, implied)
    undecided = explained.has_fixed_cost is None
    return replace(explained, decider=_decider(fitting, explained.fixed_s.value) if undecided else None)


def choose(table: pd.DataFrame) -> WallTimeModel:
    """Return the model with the weakest assumption that the runs determine. Raises TableError if there is none."""
    if table[SPEED].notna().sum() >= 2:
        factor = FACTOR.fit(FACTOR.usable(table))
        if factor and factor.noise.degrees >= line.DEGREES + 2 and line.p(factor.cost(1), 1.0) < limit("speeds_level"):
            return FACTOR  # wall times contradict the level of the speeds
        return SPEEDS
    if len(OWN.usable(table)):
        return OWN
    if len(table) < 3:
        text = counted(len(table), "run")
        raise TableError(f"{text}: a fixed cost and a cost per step need 3, or 2 whose speed was measured")
    fit = EQUAL.fit(table)
    if fit is None:
        raise TableError(
            f"every run did the same work per rank ({table['images_per_rank'].iloc[0]:g} images), and fewer than 2 "
            "have a measured speed: fixed cost and cost per step cannot be separated; measure different steps per rank"
        )
    if fit.costs[1] <= 0:
        raise TableError(
            f"wall time does not grow with the work per rank in these runs ({fit.costs[1]:.3g} s per image): no cost "
            "per step can be separated"
        )
    return EQUAL


def _implied_speed(model: WallTimeModel, fit: WallTimeLine, table: pd.DataFrame) -> Number:
    """Return the speed of one rank that wall times imply without the level of measured speeds [images/s].

    With measured speeds it is their median over the factor by which the wall times grow faster than the speeds imply;
    else it is the speed at the fewest ranks. Unknown if the wall times do not grow with the work.
    """
    by_factor = FACTOR.fit(FACTOR.usable(table)) if model.speeds else fit
    if by_factor is None or by_factor.cost(1).value <= 0:
        return unknown(n=len(table))
    cost, numerator = by_factor.cost(1), float(model.usable(table)[SPEED].median()) if model.speeds else 1.0
    high = numerator / cost.low if cost.low > 0 else math.nan
    return from_ends(numerator / cost.value, numerator / cost.high, high, "about the fit", cost.n)


def _means(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row a point, indexed by its number: POINT, images_per_rank, runs, and the means of wall_s and speed.

    The speed is the harmonic mean: all runs of a point do the same work.
    """
    by_point = table.assign(seconds=1 / table[SPEED]).groupby("point")
    first = by_point[[*POINT, "group", "images_per_rank"]].first()
    points = first.assign(runs=by_point.size(), wall_s=by_point["wall_s"].mean())
    return points.assign(**{SPEED: 1 / by_point["seconds"].mean()})


def _speedups(points: pd.DataFrame, fit: WallTimeLine, table: pd.DataFrame) -> pd.DataFrame:
    """Return the points with the columns from `steps_that_fit` on, of the fixed cost of `fit`, from runs of `table`."""
    cost_s, ranks = float(fit.costs[0]), points["ranks"].astype(float)
    share = ((points["wall_s"] - cost_s) / (points["fitted_s"] - cost_s)).clip(lower=0)
    base = points.sort_values(["used", "ranks", "images_per_rank"], ascending=[False, True, False]).index[0]
    images = metrics.job_total(points["images_per_rank"], ranks).where(points["possible"])
    by_speed, by_time = metrics.job_total(points[SPEED], ranks), metrics.rate(images, points["wall_s"])
    remaining_s = (points["wall_s"] - cost_s).where(lambda times_s: times_s > 0)
    rate = metrics.rate(images, remaining_s)
    ends = _without_fixed(points, base, fit, table)
    speedup = metrics.speedup(rate, rate[base])
    return points.assign(
        steps_that_fit=points["steps_per_rank"] * share,
        fixed_fraction=cost_s / points["wall_s"],
        beyond_speed_s=points["wall_s"] - steps_s(points),
        ideal=ranks / ranks[base],
        speedup_throughput=metrics.speedup(by_speed, by_speed[base]),
        speedup_wall_time=metrics.speedup(by_time, by_time[base]),
        speedup_without_fixed=speedup,
    ).join(ends.mul(images / images[base], axis=0).where(speedup.notna()).add_prefix("speedup_without_fixed_"))


def _without_fixed(points: pd.DataFrame, base: int, fit: WallTimeLine, table: pd.DataFrame) -> pd.DataFrame:
    """Return the 95 % interval (low, high) of the base's wall time less the fixed cost over each point's; NaN: unknown.

    Both have the noise of their runs and the error of the fixed cost, which they share: relative errors are propagated
    to first order (JCGM 100:2008, 5.2.2).
    """
    deviations_s, run_points = line.deviations_s(table).to_numpy(float), table["point"].to_numpy()
    estimators, cost = np.zeros(len(table)), fit.cost(0)
    estimators[table.index.get_indexer(fit.runs)] = fit.estimators[0]
    wall_s, runs = points["wall_s"].to_dict(), points["runs"].to_dict()
    not_fitted_s = line.deviations_s(points, table).to_dict()

    def ends(point: int) -> tuple[float, float]:
        first_s, second_s = (wall_s[each] - fit.costs[0] for each in (base, point))
        if not (first_s > 0 and second_s > 0):
            return math.nan, math.nan
        factors, square = estimators * (1 / second_s - 1 / first_s), 0.0
        for each, factor in ((base, 1 / first_s), (point, -1 / second_s)):
            inside = run_points == each
            factors = factors + factor * inside / max(1, inside.sum())
            if not inside.any():
                square += factor**2 * not_fitted_s[each] ** 2 / runs[each]
        square += float(((factors * deviations_s) ** 2).sum())
        low, high = exponential(fit.noise.number(math.log(first_s / second_s), math.sqrt(square), cost.n)).interval
        return low, math.nan if cost.high >= wall_s[point] else high

    return pd.DataFrame([ends(point) for point in points.index], points.index, ["low", "high"])


def _decider(table: pd.DataFrame, cost_s: float) -> Decider:
    """Return the runs that show best what is paid once; `cost_s`: as far as it is known now.

    They are on the ranks of the shortest run, where a fixed cost is the largest share, and have a few of its steps. So
    many are named that the interval which is then expected excludes what would matter, if there is no fixed cost.
    """
    shortest = table[table["wall_s"].eq(wall_time_runs.shortest_s(table))].iloc[0]
    wall_s, steps = float(shortest["wall_s"]), float(shortest["steps_per_rank"])
    steps_then = max(1.0, steps // _FEWER) if steps > wall_time_runs.PROBE else _MORE * steps
    share, fixed_s = steps_then / steps, min(max(cost_s, 0.0), wall_s)
    if_fixed_s = fixed_s + share * (wall_s - fixed_s)
    images = share * float(shortest["images_per_rank"])
    more = shortest.to_dict() | {"steps_per_rank": steps_then, "images_per_rank": images, "wall_s": if_fixed_s}

    def decides(count: int) -> bool:
        expected = line.paid_once(pd.concat([table, pd.DataFrame([more] * count)], ignore_index=True))
        if expected is None:
            return False
        cost = expected.cost(0)
        return cost.high - cost.low < 2 * limit("graded_serious") * wall_s

    count = next(filter(decides, range(_LEAST_RUNS, _MOST_RUNS)), _MOST_RUNS)
    return Decider(count, int(shortest["ranks"]), steps_then, if_fixed_s, share * wall_s)


def beyond_ideal(points: pd.DataFrame, column: str) -> pd.Series:
    """Return whether a speedup is more than the ranks can give over the base, by more than single runs scatter.

    A speedup with an interval is so if the interval excludes the ideal.
    """
    least = points.get(f"{column}_low", points[column] / (1 + 2 * limit("wall_time_noise")))
    return points["ideal"].gt(1) & least.gt(points["ideal"])


FixedCosts = dict[tuple[str, str], Number]  # by model and series ("" except for local records)


def fixed_costs(table: pd.DataFrame) -> FixedCosts:
    """Return the fixed cost [s] of each curve of `table` that has one; `table`: as from `wall_time_runs.table_runs`.

    The phases of local records give it, else the line through the wall times.
    """
    costs: FixedCosts = {}
    for _, rows in wall_time_runs.curves(table):
        by_phase = wall_time_runs.phases(rows)
        if not by_phase.empty:
            cost = repeats.arithmetic_mean(repeats.singles(by_phase["fixed_s"].tolist()))
        else:
            try:
                cost = explain(rows).fixed_s
            except TableError:
                continue
        if math.isfinite(cost.value):
            costs[str(rows["model"].iloc[0]), str(rows["series"].iloc[0]) if "series" in rows else ""] = cost
    return costs
