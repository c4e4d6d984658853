"""The meaning of each column of a table, each quantity once; or the question which column is which."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence

from analysis.user_table import headers, numbers, units
from analysis.user_table.answers import Question
from analysis.user_table.headers import AWKWARD, KIND, MEASURED, RATES, SCOPED, UNUSED, Column, plain

_STATISTICS = ("mean", "average", "avg", "median", "min", "best")  # of a time or rate, in this order
_FITTING = {  # names that an unknown column with such units may have
    "time": ("wall_s", "step_s", "epoch_s", "job_s"), "ratio": ("speedup", "efficiency"),
    "share": ("efficiency", "speedup"), "rate": (RATES[2], *RATES[:2]),
}  # fmt: skip
_RISING, _FALLING, _FLAT = (RATES[2], "speedup"), ("wall_s", "step_s", "efficiency"), (RATES[0], "wall_s", "efficiency")


def resolved(columns: list[Column], alone: bool) -> list[Column]:
    """Return the columns, each size and measured quantity once.

    alone: whether the file has no other table; else this one needs several numbers of ranks. Raises Question if several
    columns are the same, none counts ranks or is measured, or a count has two readings.
    """
    if not any(column.name in ("ranks", "nodes") for column in columns):
        why = "nothing else counts: each thread or core is one rank"
        columns = [column.named("ranks", why) if column.name == "cores" else column for column in columns]
    counting = [column for column in columns if column.name in ("ranks", "nodes")]
    if not counting:
        raise _no_ranks(columns)
    if not alone and not any(column.varies for column in counting):
        raise Question("one number of ranks alone")
    columns = by_user_alone(columns)
    for name in dict.fromkeys(column.name for column in columns):
        same = [column for column in columns if column.name == name]
        if name in (*MEASURED, *headers.SIZES, "batch", "scaling"):
            if len({(column.cells, column.unit) for column in same}) > 1:
                raise which(name, same, columns)
            columns = [column for column in columns if column.name != name or column is same[0]]
    _ask_count(columns, {column.name: column for column in columns})
    if not any(column.name in MEASURED and column.name != "cells" for column in columns):
        raise _unmeasured(columns)
    rates = [
        c for c in columns if c.name == "" and c.unit.kind == "rate" and units.known_work(c.unit.work) and c.varies
    ]
    if rates and not any(KIND.get(column.name) == "rate" for column in columns):
        none = ",".join(f"{column.key}={UNUSED}" for column in rates)
        texts = ", ".join(repr(column.text) for column in rates)
        raise Question(f"is a rate in {texts}?", [*offers(rates, columns, _FITTING["rate"]), none])
    return columns


def by_user_alone(columns: Sequence[Column]) -> list[Column]:
    """Return the columns; those of a quantity for which COLUMNS names another are not used. All rates are one."""

    def quantity(column: Column) -> str:
        return "rate" if column.name in RATES else column.name

    named = {quantity(c) for c in columns if c.by_user and c.name in (*MEASURED, *headers.SIZES)}
    return [c.named("other") if quantity(c) in named and not c.by_user else c for c in columns]


def which(name: str, same: Sequence[Column], columns: Sequence[Column]) -> Question:
    """Return the question which of several columns is a quantity, or whether each is a curve."""
    names = SCOPED.get(name, (name,))
    text = f"several columns are {names[0]}: {', '.join(repr(column.text) for column in same)}"
    return Question(text, offers(same, columns, names))


def offers(
    some: Sequence[Column], columns: Sequence[Column], names: Sequence[str] = (), before: Sequence[str] = ()
) -> list[str]:
    """Return the settings that name some columns of a table, or those of a pattern: the likeliest name of each first.

    names: those that are possible, else those that fit the unit of a column, or its course over the ranks. before: keys
    of all of the columns.
    """
    ranks = next((column for column in columns if column.name in ("ranks", "nodes")), None)
    measured = not names or names[0] in MEASURED
    keyed = [*(_patterns(some) if measured else ()), *((key, some[0]) for key in before), *((c.key, c) for c in some)]
    named = [(key, names or _fitting(column, ranks)) for key, column in keyed]
    return [f"{key}={fitting[at]}" for at in range(6) for key, fitting in named if at < len(fitting)]


def _fitting(column: Column, ranks: Column | None) -> Sequence[str]:
    """Return the names that a column may have, by its unit, else by its course from the fewest to the most ranks."""
    for kind in (*numbers.kinds(column.cells), column.unit.kind):
        if kind in _FITTING:
            return _FITTING[kind]
    names: Sequence[str] = _FLAT
    if ranks is not None:
        points = zip(map(numbers.value, ranks.cells), map(numbers.value, column.cells), strict=True)
        values = [value for count, value in sorted(points) if count > 0 and not math.isnan(value)]
        if values and not 0.9 < values[-1] / (values[0] or 1) < 1.1:
            names = _RISING if values[-1] > values[0] else _FALLING
        names = sorted(names, key=("speedup", "efficiency").__contains__, reverse=bool(values and values[0] == 1))
    return [*dict.fromkeys((*names, *RATES[::2], "wall_s", "speedup", "step_s"))]


def _patterns(columns: Sequence[Column]) -> list[tuple[str, Column]]:
    """Return the patterns with "*" of columns of one unit whose headers begin or end alike, each with its first."""
    groups: dict[tuple[object, ...], list[Column]] = {}
    for column in columns:
        words = plain(column.text).split()
        kind = "".join(sorted(numbers.kinds(column.cells))), column.unit
        sizes = range(1, min(len(words), 5))
        ends = [f"{' '.join(words[:size])} *" for size in sizes] + [f"* {' '.join(words[-size:])}" for size in sizes]
        for alike in ("", *ends):
            groups.setdefault((alike, *kind), []).append(column)
    patterns: dict[str, Column] = {}
    for same in groups.values():
        texts = [re.sub(r"\s+", " ", column.text) for column in same]
        common = os.path.commonprefix  # of characters
        before = re.sub(r"\w+$", "", common(texts))
        after = re.sub(r"^\w+", "", common([text[len(before) :][::-1] for text in texts])[::-1])
        after = after if re.search(r"\w", after) else ""
        labels = {text[len(before) : len(text) - len(after)].strip() for text in texts}
        if (
            len(labels - {""}) == len(same) > 1
            and re.search(r"\w", before + after)
            and not AWKWARD.search(before + after)
        ):
            patterns.setdefault(f"{before}*{after}", same[0])
    return [*patterns.items()]


def _ask_count(columns: Sequence[Column], named: Mapping[str, Column]) -> None:
    """Raise Question if a count may be of each node or of all, is of numbers from 0, or an unused column may count."""
    ranks, nodes = named.get("ranks"), named.get("nodes")
    if ranks is None and nodes is not None and "ranks_per_node" not in named:
        counting = [c for c in columns if c.name in ("", "cores") and c.counting and _holds(c, nodes)]
        none = ",".join(f"{column.key}={UNUSED}" for column in counting)
        if counting:
            texts = ", ".join(repr(column.text) for column in counting)
            answers = offers(counting, columns, ("ranks", "setting"))
            raise Question(f"are the ranks counted by {texts}? If not, each node is one rank", [*answers, none])
    if ranks is None or ranks.by_user:
        return
    if nodes and nodes.varies and (not ranks.varies or not _holds(ranks, nodes)):
        text = f"'{ranks.text}' is {ranks.cells[0]} at {nodes.cells[0]} nodes: of each node, or of all?"
        raise Question(text, offers([ranks], columns, ("ranks_per_node", "ranks")))
    if ranks.varies and sorted(ranks.cells) == [str(number) for number in range(len(ranks.cells))]:
        text = f"'{ranks.text}' counts from 0: how many ranks, or which device?"
        raise Question(text, offers([ranks], columns, ("ranks", UNUSED)))


def _holds(counts: Column, nodes: Column) -> bool:
    """Return whether a column counts as many as nodes, or more, in each row."""
    values = zip(map(numbers.value, counts.cells), map(numbers.value, nodes.cells), strict=True)
    return not any(count < node for count, node in values)


def _no_ranks(columns: Sequence[Column]) -> Question:
    """Return the question for a table without numbers of ranks: are they across, or in a column that may count?"""
    numeric = [column for column in columns if column.name in ("", *MEASURED) and column.numeric]
    answers = offers([c for c in columns if c.key and c.counting and _may_count(c)], columns, ("ranks",))
    across = [column for column in numeric if re.match(r"\d", column.text)]  # "1", "2"; "1 GPU tok/s", "2 GPU tok/s"
    bare = [column for column in across if column.text.isdigit()]
    if len(across) > 1:
        answers += [
            answer
            for answer in offers(across, columns, before=("cells",) if bare[1:] else ())
            if "*" in answer or answer.startswith("cells")
        ]
    return _missing("ranks (GPUs, workers, processes, or nodes and GPUs per node)", columns, answers)


def _may_count(column: Column) -> bool:
    """Return whether a column that counts is not known to be something else; "4 GPUs" count below any header."""
    bare = all(map(str.isdigit, column.filled)) and len(column.text) != 1
    return column.name == "" or (column.name in ("setting", *headers.TEXT) and not bare)


def _unmeasured(columns: Sequence[Column]) -> Question:
    """Return the question for a table in which no known column is measured: which can be, each as what?"""
    unknown = [column for column in columns if column.name in ("", "cells") and column.numeric and column.varies]
    unknown = [column for column in unknown if column.name == "cells"] or unknown
    last = {column.number: plain(column.text).split(" ")[-1].strip("_") for column in unknown}
    statistics = [column for column in unknown if last[column.number] in _STATISTICS]
    unknown = sorted(statistics, key=lambda column: _STATISTICS.index(last[column.number])) or unknown
    several = len(unknown) > 1 and not statistics and unknown[0].name != "cells"
    answers = offers(unknown, columns, before=("cells",) if several else ()) if unknown else []
    answers += [f"{column.key}=wall_s min" for column in unknown if column.text.lower().endswith("_min")]
    return _missing("a known rate, time, speedup or efficiency", columns, answers)


def _missing(what: str, columns: Sequence[Column], answers: Sequence[str]) -> Question:
    """Return the question which column is what the table lacks; without answers it names the headers."""
    texts = ", ".join(repr(column.text) for column in columns if column.text)
    more = "is it one of these?" if answers else f"its headers are {texts[:300]}"
    return Question(f"no column of {what}: {more}", answers)
