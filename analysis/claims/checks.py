"""The checks that decide claims: each sees the numbers of a report and returns a verdict, with what decided it.

A verdict is that of `analysis.stats.verdict`: on where a number can be, and where it must be. Checks that average
many numbers are in `analysis.claims.averages`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from analysis.claims import averages
from analysis.claims.averages import predicted
from analysis.claims.numbers import (
    WORDS,
    Claimed,
    Data,
    Extreme,
    Plateau,
    Selection,
    Unknown,
    arithmetic,
    counts,
    groups,
    one,
    point,
    shown,
    words,
)
from analysis.curves import SOURCE_RUN, Row
from analysis.experiments import equivalence
from analysis.reports import recompute
from analysis.stats.number import Number
from analysis.stats.verdict import Bounds, Verdict, judge, judge_all, together

Found = tuple[Verdict, str]


def stated(data: Data, of: Selection) -> Found:
    """The derived numbers that the report states follow from its primary numbers, as `tables` recomputes them."""
    found = [d for d in data.report.derived if all(d.row[name] in _list(value) for name, value in of.items())]
    if not found:
        raise Unknown(f"no derived number is known for {words(of)}")
    told = "; ".join(
        f"{d.row['value']:.4g} stated, {d.computed} follows, {d.formula}" if d.computed.value == d.computed.value
        else f"{d.row['value']:.4g} stated, {d.formula}"
        for d in found
    )  # fmt: skip
    return recompute.verdict(found), told


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def formula(
    data: Data, formula: str, of: Mapping[str, Selection], unit: str = "", each: Sequence[str] = (), **claimed: float
) -> Found:
    """What follows from a few numbers by arithmetic is within the limits; with `each`: for each value of columns."""
    wanted = Claimed(**claimed)

    def value(**numbers: float) -> float:
        return arithmetic(formula, numbers)

    sets = _each(data, of, each)
    numbers = [data.formula(value, rows) for _, rows in sets]
    told = []
    for (name, rows), number in zip(sets, numbers, strict=True):
        given = ", ".join(f"{key} = {row['value']:.10g}" for key, row in rows.items())
        made = f", with {given}" if len(sets) < 4 else ""
        told.append(f"{name + ': ' if name else ''}{formula} = {number}{' ' * bool(unit)}{unit}{made}")
    return _several(numbers, told, wanted)


def _each(data: Data, of: Mapping[str, Selection], each: Sequence[str]) -> list[tuple[str, dict[str, Row]]]:
    """The rows that a formula takes: one set, or one for each value of some columns for which all are known."""
    if not each:
        return [("", {name: data.single(selection) for name, selection in of.items()})]
    selected = {name: groups(data.select(selection), each) for name, selection in of.items()}
    keys = [dict(found) for found in selected.values()]
    common = [key for key in keys[0] if all(key in other for other in keys)]
    if not common:
        raise Unknown(f"no {', '.join(each)} for which all of {', '.join(of)} are known")
    return [(key, {name: one(dict(selected[name])[key], f"{name}, {key}") for name in of}) for key in common]


def _several(numbers: Sequence[Number], told: Sequence[str], wanted: Claimed) -> Found:
    """The verdict on several numbers; in words those that are not within the limits first."""
    found = judge_all(numbers, wanted.bounds, wanted.same)
    order = [*WORDS]
    first = sorted(range(len(found)), key=lambda nth: order.index(found[nth].outcome))
    counted = f"; {len(found)} numbers: {counts(found)}" if len(found) > 1 else ""
    return (
        together(found),
        f"claimed: {wanted}. {_few([told[nth] for nth in first])}{_unknown(numbers)}{counted}",
    )


def _few(told: Sequence[str], most: int = 8) -> str:
    return "; ".join(told[:most]) + (f"; and {len(told) - most} more" if len(told) > most else "")


def _unknown(numbers: Sequence[Number]) -> str:
    """A remark where a number has no interval."""
    without = any(not number.has_interval for number in numbers)
    return "; no repeat on this device at this scale tells how far runs differ" if without else ""


def every(data: Data, of: Selection, **claimed: float) -> Found:
    """Every number of a selection is within the limits."""
    wanted = Claimed(**claimed)
    rows: Sequence[Row] = data.select(of).sort_values("value").to_dict("records")
    numbers = [data.number(row) for row in rows]
    told = [f"{number} ({point(row)})" for row, number in zip(rows, numbers, strict=True)]
    return _several(numbers, told, wanted)


def spread(data: Data, of: Selection, **claimed: float) -> Found:
    """The largest and the smallest of a selection differ by no more than the limits say."""
    wanted = Claimed(**claimed)
    rows = data.select(of).sort_values("value").to_dict("records")
    number = data.formula(lambda largest, smallest: largest - smallest, {"largest": rows[-1], "smallest": rows[0]})
    return judge(number, wanted.bounds), f"claimed: {wanted}. They differ by {number}: {shown(rows)}"


def order(data: Data, of: Selection, at: Sequence[str], need: int | None = None, **extreme: Any) -> Found:
    """The claimed one of column `among` is the highest (or lowest) at each value of the columns `at`.

    It is so where its ratio to each of the others is; all these ratios together are wrong at most 5 times in 100.
    `need`: at so many places is enough.
    """
    wanted = Extreme(**extreme)
    places, numbers, told = [], [], []
    for place, rows in groups(data.select(of), at):
        among = rows[wanted.among]
        mine, others = rows[among.eq(wanted.name)], rows[among.ne(wanted.name)]
        if len(mine) > 1 or others[wanted.among].duplicated().any():
            raise ValueError(f"{place}: several numbers for one {wanted.among}")
        for other in others.to_dict("records") if len(mine) else ():
            both = {"mine": mine.to_dict("records")[0], "other": other}
            numbers.append(data.formula(lambda mine, other: mine / other, both))
            places.append(place)
            told.append(
                f"{place}: {both['mine']['value']:.4g} over {other['value']:.4g} ({other[wanted.among]}), {numbers[-1]}"
            )
    if not numbers:
        where = f"at the same {', '.join(at)}, one of them {wanted.name}, for {words(of)}"
        raise Unknown(f"no two of {wanted.among} are known {where}")
    by_place: dict[str, list[Verdict]] = {}
    for place, verdict in zip(places, judge_all(numbers, wanted.bounds), strict=True):
        by_place.setdefault(place, []).append(verdict)
    at_each = [together(verdicts) for verdicts in by_place.values()]
    return together(at_each, need), f"{_few(told)}{_unknown(numbers)}"


def flat_from(data: Data, of: Selection, each: Sequence[str], **plateau: Any) -> Found:
    """From one value of a column on a quantity no longer rises by more than a margin, and up to it it does."""
    wanted = Plateau(**plateau)
    at = wanted.at
    rise, level, told = [], [], []
    for name, rows in groups(data.select(of), each):
        by = {row[wanted.along]: row for row in rows.to_dict("records")}
        before, after = [key for key in by if key < at], [key for key in by if key > at]
        if at not in by or not before or not after:
            raise Unknown(f"{name}: not known below {at:g}, at it and above it")
        rise.append(data.formula(lambda a, b: b / a, {"a": by[max(before)], "b": by[at]}))
        level += [data.formula(lambda a, b: b / a, {"a": by[at], "b": by[key]}) for key in after]
        told.append(f"{name}: " + ", ".join(f"{key:g}: {by[key]['value']:.4g}" for key in sorted(by)))
    found = [
        *judge_all(rise, Bounds(low=1 + wanted.margin)),
        *judge_all(level, Bounds(1 - wanted.margin, 1 + wanted.margin)),
    ]
    return together(found), f"{_few(told)}{_unknown([*rise, *level])}"


# What a number of a report has in common with the one of the page that it was copied from.
_COPIED = ["quantity", "model", "dataset", "gpu", "machine", "batch_per_rank", "ranks"]


def noted(data: Data, of: Selection, says: str) -> Found:
    """The page that a report copied notes the same of each number that was copied: how it was measured."""
    page = data.select({"quantity": of["quantity"], "run": SOURCE_RUN})
    notes = {key: {*rows["note"]} for key, rows in page.groupby(_COPIED, dropna=False)}
    found, told = [], []
    for row in data.select(of).to_dict("records"):
        there = notes.get(tuple(row[name] for name in _COPIED), set())
        found.append(_as_noted(there, says))
        said = ", ".join(sorted(there)) or "not there"
        told.append(f"{point(row)}, {row['dataset']}, batch {row['batch_per_rank']}: {said}")
    others = [words for verdict, words in zip(found, told, strict=True) if verdict.outcome != "inside"]
    counted = f"{len(found) - len(others)} of {len(found)} numbers: {says}"
    return together(found), "; ".join([counted, *([_few(others)] if others else [])])


def _as_noted(there: set[str], says: str) -> Verdict:
    if there == {says}:
        return Verdict("inside")
    return Verdict("undecided" if not there or says in there else "outside")


def averaging_loses(data: Data) -> Found:
    """Averaging gradients over ranks makes training less precise: local records of the same steps decide it."""
    loses, told = equivalence.verdict(equivalence.pairs(data.table))
    if loses is None:
        raise Unknown(told)
    return Verdict("inside" if loses else "outside"), told


CHECKS: dict[str, Callable[..., Found]] = {
    check.__name__: check
    for check in (
        stated,
        formula,
        every,
        spread,
        order,
        flat_from,
        averages.mean,
        averages.mean_ratio,
        averages.trend,
        averages.same_trend,
        averages.same,
        averages.irreconcilable,
        predicted,
        noted,
        averaging_loses,
    )
}
