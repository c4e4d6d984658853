"""Why speedup by throughput and by wall time differ: the fit of one curve of wall times, with its fixed cost.

A run has a fixed cost, which does not depend on how long it trains (sending the variables to all ranks, the first,
traced step, warm-up, saving), and a cost for each step:

    wall_s = fixed_s + steps_per_rank x batch_per_rank x time per image

The time per image may depend on the number of ranks: scaling studies measure that. Measured speeds give it
(`models.SPEEDS`), or only its ratio between points if wall times contradict their level (`models.FACTOR`). If several
works were measured at one number of ranks, each number of ranks has its own. Else it is fitted together with a change
at each doubling of the ranks, and with few points it is assumed to be the same, which is then stated.

No conclusion depends on the choice of points: each point is left out in turn, and if the conclusion changes, nothing is
concluded. If that does not decide whether a point fits, intervals span the fits with and without it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from analysis import TableError
from analysis.documents import counted
from analysis.explain import models
from analysis.explain.models import Fit, Model, means, misfits, with_fit
from analysis.explain.recurring import Alternative, Decider, alternatives, decider, with_recurring
from analysis.explain.runs import (
    Finding,
    contradictions,
    curves,
    phases,
    prepared,
    trusted_runs,
    without_contradicted_speeds,
)
from analysis.stats import Number, repeats
from analysis.stats.verdict import is_above
from analysis.thresholds import limit

REFUTED = limit("growth_level")
SPEEDS_REFUTED = limit("speeds_level")
# With one degree of freedom Student's t is 12.7 at 95 %: such fits are too uncertain to decide anything.
DECIDING_DEGREES = 2


@dataclass(frozen=True)
class Explanation:
    """The result for one curve. `points` has one row a point; see `explain` for its columns."""

    name: str
    points: pd.DataFrame
    fits: dict[str, Fit]  # by name of model and runs; the first is `fit`
    findings: tuple[Finding, ...]
    fixed_without_one_s: tuple[Number, ...]  # the fixed cost with each point left out in turn
    growth_p: float  # of the test that the time per image is the same at all ranks; NaN: cannot be tested
    alternatives: tuple[Alternative, ...] = ()  # costs that recur and fit these runs as well as a fixed cost
    decider: Decider | None = None  # the run that would decide between them

    @property
    def fit(self) -> Fit:
        """Return the fit on which the conclusions are based."""
        return next(iter(self.fits.values()))

    @property
    def has_fixed_cost(self) -> bool | None:
        """Return whether each run has a fixed cost: `has_cost_beyond_steps`, and no recurring cost fits as well."""
        return None if self.has_cost_beyond_steps and self.alternatives else self.has_cost_beyond_steps

    @property
    def hides_speedup(self) -> bool:
        """Return whether speeds were measured, and the time that they do not count makes the two speedups differ."""
        return bool(self.has_cost_beyond_steps and (self.fit.model.speeds or self.has_fixed_cost))

    @cached_property
    def has_cost_beyond_steps(self) -> bool | None:
        """Return whether the cost differs significantly from zero; None if it depends on the points or the model.

        None too if the only model that the runs allow is refuted.
        """
        if self.fit.model is models.EQUAL and self.growth_p < REFUTED:
            return None
        costs = [self.fit.fixed_s, *self.fixed_without_one_s]
        costs += [fit.fixed_s for name, fit in self.fits.items() if self.reasonable(name)]
        above = {is_above(cost) for cost in costs if cost.has_interval}
        return above.pop() if len(above) == 1 else None

    def reasonable(self, name: str) -> bool:
        """Return whether conclusions could also be based on the fit of this name: nothing contradicts its assumption.

        Conclusions are based on an equal time per image if a growth can hardly be fitted. Then the fit of the growth is
        reasonable, however uncertain.
        """
        fit = self.fits[name]
        if self.fit.model is models.EQUAL and fit.model is models.GROWING:
            return True
        if fit.linear.degrees < DECIDING_DEGREES or fit.model is models.SPEEDS is not self.fit.model:
            return False
        if fit.model is self.fit.model or fit.model not in (models.EQUAL, models.GROWING):
            return True
        return not self.fit.model.speeds and not (fit.model is models.EQUAL and self.growth_p < REFUTED)

    @property
    def misfits(self) -> pd.DataFrame:
        """Return the points that the others do not predict."""
        return self.points[self.points["misfit"]]


def explain(runs: pd.DataFrame, name: str = "") -> Explanation:
    """Return the split of one curve, checked point by point. `runs`: those of one curve, as `runs.read` returns them.

    A point has one number of ranks, of steps per rank and a batch; its runs are repeats. The columns of the
    explanation's points, in the order of ranks and of falling work: ranks, steps_per_rank, batch_per_rank, runs,
    images_per_rank, wall_s (mean), images_per_s_per_rank (harmonic mean; NaN: not known or contradicted), used (by the
    fit), impossible (all its runs are contradicted: it has no speedup), misfit_p, misfit, misfit_undecided (see
    `models.misfits`), fitted_s (NaN: not known), steps_that_fit (the steps that its wall time would fit),
    fixed_fraction (of wall_s), beyond_speed_s = wall_s - images_per_rank / images_per_s_per_rank, ideal (speedup),
    speedup_throughput, speedup_wall_time, speedup_without_fixed (with _low and _high; NaN if no time is left).
    Speedups are over the first point that the fit uses. Raises TableError if the curve cannot be split.
    """
    conclusion = conclude(runs)
    fit, fitting = conclusion.fit, conclusion.fitting
    growing = models.GROWING.system(fitting).solve()
    explained = Explanation(
        name,
        conclusion.points,
        dict(_fits(conclusion)),
        conclusion.findings,
        tuple(_fixed_without_one_s(fit.model, fitting)),
        growing.coefficient(2).p() if growing else math.nan,
    )
    others = () if explained.has_cost_beyond_steps is False else alternatives(fit.model, fitting)
    deciding = decider(fit.model, fit.linear, others, fitting) if others else None
    return replace(explained, alternatives=others, decider=deciding)


@dataclass(frozen=True)
class Conclusion:
    """The fit of one curve and its points, before the tests with other points and models."""

    fit: Fit
    points: pd.DataFrame
    findings: tuple[Finding, ...]
    trusted: pd.DataFrame  # the runs that nothing contradicts
    fitting: pd.DataFrame  # the trusted runs of the points that fit


def conclude(runs: pd.DataFrame) -> Conclusion:
    """Return the fit of one curve, and its points. Arguments, columns and errors: `explain`."""
    runs = prepared(runs)
    findings = contradictions(runs)
    trusted = trusted_runs(runs, findings)
    model = choose(trusted)
    tested = misfits(model, trusted)
    fitting = trusted[~trusted["point"].isin(tested.index[tested["misfit"]])]
    model = with_recurring(model, fitting)
    chosen = models.fitted(model, fitting)
    assert chosen is not None, "the test of misfits leaves more than half of the points"
    undecided = tested.index[tested["misfit_undecided"]]
    without_one = (models.fitted(model, fitting[fitting["point"] != point]) for point in undecided)
    chosen = replace(chosen, without_one=tuple(fit for fit in without_one if fit))
    points = means(without_contradicted_speeds(runs, findings)).join(tested)
    points[["misfit", "misfit_undecided"]] = points[["misfit", "misfit_undecided"]].eq(True)
    points["used"] = points.index.isin(model.usable(fitting)["point"])
    points["impossible"] = ~points.index.isin(trusted["point"])
    points = with_fit(points, chosen).sort_values(["ranks", "images_per_rank"], ascending=[True, False])
    return Conclusion(chosen, points.reset_index(drop=True), tuple(findings), trusted, fitting)


def choose(runs: pd.DataFrame) -> Model:
    """Return the model with the weakest assumption that the runs determine. Raises TableError if there is none."""
    if runs["images_per_s_per_rank"].notna().sum() >= 2:
        factor = models.FACTOR.system(models.FACTOR.usable(runs)).solve()
        if factor and factor.degrees >= DECIDING_DEGREES and factor.coefficient(1).p(1.0) < SPEEDS_REFUTED:
            return models.FACTOR  # wall times contradict the level of the speeds
        return models.SPEEDS
    # An equal time per image is assumed only if its growth cannot be fitted at all: four wall times that grow would
    # have too narrow an interval of the fixed cost, in 1 curve of 5 without the truth.
    for model, degrees in ((models.separate_times(runs), DECIDING_DEGREES), (models.GROWING, 1)):
        solved = model.system(runs).solve()
        if solved and solved.degrees >= degrees and solved.coefficient(1).value > 0:
            return model
    if len(runs) < 3:
        runs_text = counted(len(runs), "run")
        raise TableError(f"{runs_text}: a fixed cost and a cost per step need 3, or 2 whose speed was measured")
    solved = models.EQUAL.system(runs).solve()
    if solved is None:
        raise TableError(
            f"every run did the same work per rank ({runs['images_per_rank'].iloc[0]:g} images), and fewer than 2 have "
            "a measured speed: fixed cost and cost per step cannot be separated; measure different steps per rank"
        )
    cost = solved.coefficient(1).value
    if cost <= 0:
        raise TableError(f"wall time does not grow with the work per rank ({cost:.3g} s per image): no cost per step")
    return models.EQUAL


def _fixed_without_one_s(model: Model, runs: pd.DataFrame) -> Iterator[Number]:
    """Yield the fixed cost with each point left out in turn, if enough points remain to decide."""
    usable = model.usable(runs)
    system, run_points = model.system(usable), usable["point"].to_numpy()
    for point in sorted(set(run_points)):
        solved = system.without(run_points == point).solve()
        if solved and solved.degrees >= DECIDING_DEGREES:
            yield solved.coefficient(0).number()


def _fits(conclusion: Conclusion) -> Iterator[tuple[str, Fit]]:
    """Yield the fit of a conclusion, and others of the same runs, each with its name."""
    chosen, fitting, trusted = conclusion.fit, conclusion.fitting, conclusion.trusted
    yield chosen.model.name, chosen
    several = fitting[fitting["ranks"].gt(1)]
    others = [(f"{chosen.model.name}, 2+ ranks", chosen.model, several)] if len(several) < len(fitting) else []
    if len(fitting) < len(trusted):
        others.append((f"{chosen.model.name}, all points", chosen.model, trusted))
    among = (models.SPEEDS, models.FACTOR, models.GROWING, models.EQUAL)
    others += [(model.name, model, fitting) for model in among if model is not chosen.model]
    for name, model, runs in others:
        fit = models.fitted(model, runs)
        if fit and fit.linear.degrees >= 1:
            yield name, fit


FixedCosts = dict[tuple[str, str], Number]  # by model and series ("" except for local records)


def fixed_costs(runs: pd.DataFrame) -> FixedCosts:
    """Return the fixed cost [s] of each curve of `runs` that has one; `runs` as `runs.read` returns them.

    The phases of local records give it, else the regression over the wall times.
    """
    costs: FixedCosts = {}
    for _, rows in curves(runs):
        by_phase = phases(rows)
        if not by_phase.empty:
            cost = repeats.arithmetic_mean(repeats.singles(by_phase["fixed_s"].tolist()))
        else:
            try:
                cost = explain(rows).fit.fixed_s
            except TableError:
                continue
        if math.isfinite(cost.value):
            costs[str(rows["model"].iloc[0]), str(rows["series"].iloc[0]) if "series" in rows else ""] = cost
    return costs
