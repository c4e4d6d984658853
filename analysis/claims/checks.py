"""The checks that decide claims: each takes the numbers of a report and returns a verdict and its evidence.

Verdicts are those of `analysis.stats.verdict`. Checks over many numbers are in `analysis.claims.averages`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.claims import averages
from analysis.claims.numbers import (
    VERDICT_NAMES,
    VERDICTS,
    ClaimBounds,
    Data,
    Result,
    Selection,
    Unknown,
    VerdictName,
    arithmetic,
    counts,
    groups,
    listed,
    point_text,
    rows_by_group,
    selection_text,
    values_text,
    verdict_name,
)
from analysis.curves import SOURCE_RUN, Row, row_dicts
from analysis.derived import MARGIN
from analysis.experiments import equivalence, summary
from analysis.stats import Number
from analysis.stats.verdict import Bounds, Verdict, judge, judge_all, together
from analysis.table import controls


def stated(data: Data, numbers: Selection) -> Result:
    """Return whether the derived numbers that the report states follow from its primary numbers."""
    lines = [d for d in data.report.derived if all(d.row[name] in listed(value) for name, value in numbers.items())]
    if not lines:
        raise Unknown(f"no derived number is known for {selection_text(numbers)}")
    texts = []
    for line in lines:
        follows = "" if math.isnan(line.computed.value) else f"{line.computed} follows, "
        texts.append(f"{line.row['value']:.4g} stated, {follows}{line.formula}")
    values = [(line.computed, _near_stated(line.row)) for line in lines if not math.isnan(line.computed.value)]
    return Result(together([line.verdict for line in lines]), "; ".join(texts), tuple(values))


def _near_stated(row: Row) -> Bounds:
    """Return the bounds that agree with the stated number: within `MARGIN` of it."""
    value = float(row["value"])
    low, high = sorted((value * (1 - MARGIN), value * (1 + MARGIN)))
    return Bounds(low, high)


def formula(
    data: Data,
    formula: str,
    numbers: Mapping[str, Selection],
    unit: str = "",
    each: Sequence[str] = (),
    **claimed: float,
) -> Result:
    """Return whether the value of a formula of a few numbers is within bounds; `each`: for each value of columns."""
    if each:
        sets = rows_by_group(data, numbers, each)
    else:
        sets = [("", {name: data.single(selection) for name, selection in numbers.items()})]
    results = [data.formula(lambda **values: arithmetic(formula, values), rows) for _, rows in sets]
    texts = []
    for (name, rows), number in zip(sets, results, strict=True):
        inputs = ", ".join(f"{key} = {row['value']:.10g}" for key, row in rows.items())
        text = f"{name + ': ' if name else ''}{formula} = {number}{' ' * bool(unit)}{unit}"
        texts.append(text + (f", with {inputs}" if len(sets) < 4 else ""))
    return _all_within(results, texts, ClaimBounds(**claimed))


def _all_within(numbers: Sequence[Number], texts: Sequence[str], claim_bounds: ClaimBounds) -> Result:
    """Return the verdict on several numbers, with a text that names those outside the bounds first."""
    verdicts = judge_all(numbers, claim_bounds.bounds, claim_bounds.with_margin)
    first = sorted(range(len(verdicts)), key=lambda nth: VERDICTS.index(verdict_name(verdicts[nth])))
    counted = f"; {len(verdicts)} numbers: {counts(verdicts)}" if len(verdicts) > 1 else ""
    evidence = f"claimed: {claim_bounds}. {_few([texts[nth] for nth in first])}{_without_interval(numbers)}{counted}"
    return Result(together(verdicts), evidence, tuple((number, claim_bounds.bounds) for number in numbers))


def _few(texts: Sequence[str], most: int = 8) -> str:
    return "; ".join(texts[:most]) + (f"; and {len(texts) - most} more" if len(texts) > most else "")


def _without_interval(numbers: Sequence[Number]) -> str:
    without = any(not number.has_interval for number in numbers)
    return "; no repeat on this device at this scale shows how far runs differ" if without else ""


def every(data: Data, numbers: Selection, **claimed: float) -> Result:
    """Return whether every number of a selection is within bounds."""
    rows: Sequence[Row] = data.select(numbers).sort_values("value").to_dict("records")
    values = [data.number(row) for row in rows]
    texts = [f"{value} ({point_text(row)})" for row, value in zip(rows, values, strict=True)]
    return _all_within(values, texts, ClaimBounds(**claimed))


def spread(data: Data, numbers: Selection, **claimed: float) -> Result:
    """Return whether the largest and the smallest of a selection differ by no more than bounds allow."""
    claim_bounds = ClaimBounds(**claimed)
    rows = data.select(numbers).sort_values("value").to_dict("records")
    number = data.formula(lambda largest, smallest: largest - smallest, {"largest": rows[-1], "smallest": rows[0]})
    evidence = f"claimed: {claim_bounds}. They differ by {number}: {values_text(rows)}"
    return Result(judge(number, claim_bounds.bounds), evidence, ((number, claim_bounds.bounds),))


def order(
    data: Data, numbers: Selection, at: Sequence[str], among: str, highest: Any = None, lowest: Any = None,
    need: int | None = None,
) -> Result:  # fmt: skip
    """Return whether one value of the column `among` has the highest, or lowest, number at each value of columns `at`.

    Its ratio to each of the others decides; all these ratios together are wrong at most 5 times in 100. `need`: so many
    values of `at` are enough.
    """
    name = highest if lowest is None else lowest
    bounds = Bounds(low=1.0, strict=True) if lowest is None else Bounds(high=1.0, strict=True)
    group_names, ratios, texts = [], [], []
    for group, rows in groups(data.select(numbers), at):
        claimed, others = rows[rows[among].eq(name)], rows[rows[among].ne(name)]
        if len(claimed) > 1 or others[among].duplicated().any():
            raise ValueError(f"{group}: several numbers for one {among}")
        for row in others.to_dict("records") if len(claimed) else ():
            pair = {"a": claimed.to_dict("records")[0], "b": row}
            ratio = data.formula(lambda a, b: a / b, pair)
            values = f"{pair['a']['value']:.4g} over {row['value']:.4g} ({row[among]})"
            group_names.append(group)
            ratios.append(ratio)
            texts.append(f"{group}: {values}, {ratio}")
    if not ratios:
        condition = f"at the same {', '.join(at)}, one of them {name}, for {selection_text(numbers)}"
        raise Unknown(f"no two of {among} are known {condition}")
    by_group: dict[str, list[Verdict]] = {}
    for group, verdict in zip(group_names, judge_all(ratios, bounds), strict=True):
        by_group.setdefault(group, []).append(verdict)
    at_each = [together(verdicts) for verdicts in by_group.values()]
    evidence = f"{_few(texts)}{_without_interval(ratios)}"
    return Result(together(at_each, need), evidence, tuple((ratio, bounds) for ratio in ratios))


def flat_from(data: Data, numbers: Selection, each: Sequence[str], along: str, at: float, margin: float) -> Result:
    """Return whether a quantity stops rising by more than a margin at one value of the column `along`, not before."""
    rise, level, texts = [], [], []
    for name, rows in groups(data.select(numbers), each):
        by = {row[along]: row for row in rows.to_dict("records")}
        before, after = [key for key in by if key < at], [key for key in by if key > at]
        if at not in by or not before or not after:
            raise Unknown(f"{name}: not known below {at:g}, at it and above it")
        rise.append(data.formula(lambda a, b: b / a, {"a": by[max(before)], "b": by[at]}))
        level += [data.formula(lambda a, b: b / a, {"a": by[at], "b": by[key]}) for key in after]
        texts.append(f"{name}: " + ", ".join(f"{key:g}: {by[key]['value']:.4g}" for key in sorted(by)))
    rises, stays = Bounds(low=1 + margin), Bounds(1 - margin, 1 + margin)
    verdicts = [*judge_all(rise, rises), *judge_all(level, stays)]
    evidence = f"{_few(texts)}{_without_interval([*rise, *level])}"
    numbers_with_bounds = (*((number, rises) for number in rise), *((number, stays) for number in level))
    return Result(together(verdicts), evidence, numbers_with_bounds)


# Columns that a number of a report shares with its source on the copied page.
_COPIED = ["quantity", "model", "dataset", "gpu", "machine", "batch_per_rank", "ranks"]


def noted(data: Data, numbers: Selection, says: str) -> Result:
    """Return whether the page that a report copied notes the same beside each copied number."""
    page = data.select({"quantity": numbers["quantity"], "run": SOURCE_RUN})
    notes = {key: {*rows["note"]} for key, rows in page.groupby(_COPIED, dropna=False)}
    verdicts, others = [], []
    for row in data.select(numbers).to_dict("records"):
        page_notes = notes.get(tuple(row[name] for name in _COPIED), set())
        verdicts.append(_as_noted(page_notes, says))
        if verdicts[-1].outcome != "inside":
            note = ", ".join(sorted(page_notes)) or "not there"
            others.append(f"{point_text(row)}, {row['dataset']}, batch {row['batch_per_rank']}: {note}")
    counted = f"{len(verdicts) - len(others)} of {len(verdicts)} numbers: {says}"
    return Result(together(verdicts), "; ".join([counted, *([_few(others)] if others else [])]))


def _as_noted(notes: set[str], says: str) -> Verdict:
    if notes == {says}:
        return Verdict("inside")
    return Verdict("undecided" if not notes or says in notes else "outside")


def averaging_loses(data: Data) -> Result:
    """Return whether averaging gradients over ranks makes training less precise, from local records of equal steps."""
    loses, text = equivalence.verdict(equivalence.pairs(data.table))
    if loses is None:
        raise Unknown(text)
    return Result(Verdict("inside" if loses else "outside"), text)


def varies_alone(data: Data, numbers: Selection, factor: str, others: Sequence[str]) -> Result:
    """Return whether the compared rows differ in one column alone: another that changes with it may be the reason."""
    rows = data.select(numbers)
    changed = {column: _changes_with(rows, factor, column) for column in others}
    outcomes: dict[str, Verdict] = {"always": Verdict("outside"), "never": Verdict("inside"), "": Verdict("undecided")}
    values = {name: ", ".join(map(str, rows[name].dropna().unique())) for name in (factor, *others)}
    texts = [f"{name}: {text}" for name, text in values.items()]
    with_it = [column for column, how in changed.items() if how == "always"]
    confounded = f"; {', '.join(with_it)} changes with {factor}" if with_it else ""
    return Result(together([outcomes[how] for how in changed.values()]), "; ".join(texts) + confounded)


def _changes_with(rows: pd.DataFrame, factor: str, column: str) -> str:
    """Return whether a column changes "always" or "never" between two values of the factor; else ""."""
    sets = [set(group[column].dropna()) for _, group in rows.groupby(factor)]
    pairs = [first & second for index, first in enumerate(sets) for second in sets[index + 1 :]]
    if not pairs:
        raise Unknown(f"only one value of {factor} is known")
    if not any(pairs):
        return "always"
    return "never" if len(set().union(*sets)) == 1 else ""


def reviewed(data: Data, finding: VerdictName, evidence: str) -> Result:
    """Return the finding of a reader over lines of the report, which are the evidence."""
    outcomes = {name: outcome for outcome, name in VERDICT_NAMES.items()}
    return Result(Verdict(outcomes[finding]), evidence)


def measured(data: Data, quantity: str, ranks: Sequence[int] = (), **claimed: float) -> Result:
    """Return whether a quantity of every point of local records is within bounds; `ranks`: only of points on these."""
    points = [
        point
        for point in (summary.points(data.table) if len(data.table) else [])
        if quantity in point.numbers and (not ranks or point.runs["ranks"].iloc[0] in ranks)
        if not point.runs["kind"].eq("control").all()
    ]
    if not points:
        raise Unknown(f"no {quantity} was measured" + (f" on {', '.join(map(str, ranks))} ranks" if ranks else ""))
    if not quantity.startswith("validation"):  # an accuracy does not depend on the time that ranks take
        points = [p for p in points if not controls.invalid(p.runs).any()]
    if not points:
        raise Unknown("ranks disturbed each other: not valid as a scaling result")
    values = [point.numbers[quantity] for point in points]
    texts = [
        f"{value} ({', '.join(filter(None, (point_text(row_dicts(point.runs)[0]), point.series)))})"
        for point, value in zip(points, values, strict=True)
    ]
    return _all_within(values, texts, ClaimBounds(**claimed))


@dataclass(frozen=True)
class Check:
    """A check, and its rule as readers see it. `own_margin`: its `margin` is not that of the bounds."""

    judge: Callable[..., Result]
    rule: str
    own_margin: bool = False


_ALL = (
    Check(stated, "The report's derived numbers follow from its primary ones, as `tables` recomputes them"),
    Check(formula, "A number computed from a few others is within bounds; with `each`: for each value of columns"),
    Check(every, "Every number of a selection is within bounds"),
    Check(varies_alone, "What is compared differs in the column `factor`, and not always in one of `others` too"),
    Check(reviewed, "A reader compared lines of the report: no number decides it"),
    Check(spread, "Largest and smallest of a selection differ within bounds"),
    Check(order, "The claimed one of column `among` is the highest (or lowest) at each value of the columns `at`"),
    Check(
        flat_from,
        "A quantity rises by more than a margin up to one value of a column, and no more from there on",
        own_margin=True,
    ),
    Check(averages.mean, "The geometric mean of a selection is within bounds; each value of `unit` counts once"),
    Check(averages.mean_ratio, "The geometric mean of a formula over the values of some columns is within bounds"),
    Check(
        averages.trend,
        'A quantity rises or falls with the size; "none": it changes by less than a margin at each doubling',
        own_margin=True,
    ),
    Check(averages.same_trend, "One of a column changes at each doubling as the others do, within a margin"),
    Check(averages.same, "In each group of cells the mean throughputs of two settings are the same, within a margin"),
    Check(averages.irreconcilable, "No fixed cost reconciles speed and wall time"),
    Check(averages.predicted, "The prediction for more ranks is within bounds, by the 90 % interval of `make predict`"),
    Check(noted, "The copied page notes the same way of measuring beside each copied number"),
    Check(measured, "A quantity of every point of local records is within bounds, by its 95 % interval"),
    Check(averaging_loses, "Local records show other losses on several ranks than on one, for the same steps"),
)
CHECKS: dict[str, Check] = {check.judge.__name__: check for check in _ALL}
