"""Costs that recur, and that may explain the same wall times as a fixed cost of each run.

Work that is divided between n ranks, times a cost that grows with n, is a constant: no fit distinguishes it from a
fixed cost. So each shape of such a cost is fitted instead of the fixed cost, and together with it. If the runs do not
refute it, it is named, with the one run that would decide.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.curves import ranks_in_words
from analysis.explain import models
from analysis.explain.linear import Array, Linear, System
from analysis.explain.models import Model
from analysis.explain.runs import phases
from analysis.thresholds import limit

_FACTOR = 4  # a deciding run has so many times the steps, or ranks, of a measured point


@dataclass(frozen=True)
class Shape:
    """A recurring cost: the event that has it, and how often it occurs in each run (its column of a design)."""

    paid_for: str
    column: Callable[[pd.DataFrame], pd.Series]


def _ranks(runs: pd.DataFrame) -> pd.Series:
    return runs["ranks"].astype(float)


def _doublings(runs: pd.DataFrame) -> pd.Series:
    return pd.Series(np.log2(_ranks(runs)), runs.index)


def _epochs(runs: pd.DataFrame) -> pd.Series:
    """Return the epochs of each run; if they are not stated, its images, as if all were of one dataset."""
    images = runs["images_per_rank"] * _ranks(runs)
    return runs["epochs"].astype(float) if "epochs" in runs and runs["epochs"].notna().all() else images


SHAPES = (
    Shape("each step", lambda runs: runs["steps_per_rank"].astype(float)),
    Shape("each step and rank", lambda runs: runs["steps_per_rank"] * _ranks(runs)),
    Shape("each step and doubling of the ranks", lambda runs: runs["steps_per_rank"] * _doublings(runs)),
    Shape("each epoch or checkpoint", _epochs),
    Shape("each rank once", _ranks),
    Shape("each doubling of the ranks once", lambda runs: 1 + _doublings(runs)),
)


@dataclass(frozen=True)
class Alternative:
    """A shape that explains the wall times as well without a fixed cost, and its fit."""

    shape: Shape
    fitted: Linear

    def predicted_s(self, model: Model, run: pd.DataFrame) -> float:
        """Return the wall time of one run, if this shape were right [s]."""
        return _predicted_s(self.fitted, _replaced(model.designs(run), self.shape.column(run)), model, run)


def alternatives(model: Model, runs: pd.DataFrame) -> tuple[Alternative, ...]:
    """Return the shapes that fit `runs` as well as a fixed cost in `model`; none if phases show the fixed cost."""
    usable = model.usable(runs)
    if not phases(usable).empty:
        return ()
    system = model.system(usable)
    fits = ((shape, _instead(system, shape.column(usable))) for shape in SHAPES)
    return tuple(Alternative(shape, fitted) for shape, fitted in fits if fitted)


def _instead(system: System, column: pd.Series) -> Linear | None:
    """Return the fit with this cost instead of the fixed one; None if the runs refute it, or it is in the model.

    It is refuted if a fixed cost fitted with it differs significantly from zero, or if it would be negative.
    """
    instead = replace(system, designs=_replaced(system.designs, column)).solve()
    if instead is None or instead.coefficient(0).value <= 0:
        return None
    with_both = system.with_cost(column).solve()
    if with_both is not None and with_both.degrees >= 1 and with_both.coefficient(0).p() < limit("growth_level"):
        return None
    return instead


def with_recurring(model: Model, runs: pd.DataFrame) -> Model:
    """Return the model with the recurring cost that these runs show in addition to the fixed one, else `model` itself.

    Its level is divided by the number of shapes that are tried (Bonferroni). A model that fits the growth of the time
    per image cannot fit it too.
    """
    if not (model.speeds or model.by_ranks):
        return model
    usable = model.usable(runs)
    system = model.system(usable)
    tested = [
        (with_both.coefficient(-1).p(), shape)
        for shape in SHAPES
        if (with_both := system.with_cost(shape.column(usable)).solve())
        and with_both.degrees >= 2
        and with_both.coefficient(-1).value > 0
    ]
    p, shape = min(tested, key=lambda item: item[0], default=(1.0, SHAPES[0]))
    if not p < limit("recurring_level") / len(SHAPES):
        return model
    return replace(
        model,
        name=f"{model.name}, and a cost of {shape.paid_for}",
        assumes=f"{model.assumes}, and {shape.paid_for} has the same cost",
        shapes=tuple(_and(columns, shape) for columns in model.shapes),
    )


def _and(columns: models.Columns, shape: Shape) -> models.Columns:
    return lambda runs: [*columns(runs), shape.column(runs)]


def _replaced(designs: Array, column: pd.Series) -> Array:
    designs = designs.copy()
    designs[:, :, 0] = column
    return designs


def _predicted_s(fitted: Linear, designs: Array, model: Model, run: pd.DataFrame) -> float:
    costs_s = fitted.combination(designs[:, 0]).value if designs.any() else 0.0
    return float(model.known_s(run).iloc[0]) + costs_s


@dataclass(frozen=True)
class Decider:
    """The one run that best separates a fixed cost from the alternatives: the wall time that each predicts [s]."""

    ranks: int
    steps_per_rank: float
    change: str  # from a measured point
    if_fixed_s: float
    if_recurring_s: tuple[float, ...]


def decider(model: Model, fixed_fit: Linear, others: Sequence[Alternative], runs: pd.DataFrame) -> Decider | None:
    """Return the run whose wall times differ most; with more ranks only if more steps do not separate them."""
    usable = model.usable(runs)
    for candidates in (_more_steps(usable), _more_ranks(usable, model)):
        deciders = [_decider(model, fixed_fit, others, change, run) for change, run in candidates]
        best = max(deciders, key=_contrast, default=None)
        if best and _contrast(best) > limit("deciding_contrast"):
            return best
    return None


def _decider(model: Model, fixed_fit: Linear, others: Sequence[Alternative], change: str, run: pd.DataFrame) -> Decider:
    if_fixed_s = _predicted_s(fixed_fit, model.designs(run), model, run)
    if_recurring_s = tuple(alternative.predicted_s(model, run) for alternative in others)
    return Decider(int(run["ranks"].iloc[0]), float(run["steps_per_rank"].iloc[0]), change, if_fixed_s, if_recurring_s)


def _contrast(run: Decider) -> float:
    """Return the smallest relative difference of an alternative's wall time from that of a fixed cost."""
    ratios = [seconds / run.if_fixed_s for seconds in run.if_recurring_s] if run.if_fixed_s > 0 else []
    return min((abs(ratio - 1) for ratio in ratios), default=0.0)


def _more_steps(usable: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    points = usable.groupby("point", sort=True).head(1)
    for index in points.index:
        run = points.loc[[index]]
        changed = {name: run[name] * _FACTOR for name in ("steps_per_rank", "images_per_rank", "epochs") if name in run}
        yield f"{_FACTOR} times the steps on {ranks_in_words(run['ranks'].iloc[0])}", run.assign(**changed)


def _more_ranks(usable: pd.DataFrame, model: Model) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the largest point with more ranks, at the same work of a rank."""
    if not model.by_ranks and not model.speeds:
        run = usable.nlargest(1, "ranks")
        ranks = int(run["ranks"].iloc[0]) * _FACTOR
        yield f"the steps of {ranks_in_words(ranks // _FACTOR)} on {ranks_in_words(ranks)}", run.assign(ranks=ranks)


def decider_text(run: Decider, others: Sequence[Alternative]) -> str:
    """Return the deciding run, and the wall times that each explanation predicts, as a sentence."""
    groups: dict[str, list[str]] = {}
    for alternative, seconds in zip(others, run.if_recurring_s, strict=True):
        groups.setdefault(f"{seconds:.3g}", []).append(f"for {alternative.shape.paid_for}")
    predicted = "; ".join(f"{seconds} s if {' or '.join(names)}" for seconds, names in groups.items())
    return (
        f"One run would decide, {run.change} ({run.steps_per_rank:g} steps a rank): {run.if_fixed_s:.3g} s if it is "
        f"paid once; {predicted}."
    )
