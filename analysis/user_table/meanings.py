"""The meaning of each column of a table, each quantity once; or the question which column is which."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

from analysis.user_table import headers, numbers
from analysis.user_table.answers import Question
from analysis.user_table.headers import AWKWARD, MEASURED, RATES, SCOPED, UNUSED, Column, plain

_STATISTICS = ("mean", "average", "avg", "median", "min", "best")  # of a time or rate, in this order
_FITTING = {  # names that an unknown column with such units may have
    "time": ("wall_s", "step_s", "epoch_s", "job_s"), "ratio": ("speedup", "efficiency"),
    "share": ("efficiency", "speedup"), "rate": (RATES[2], *RATES[:2]),
}  # fmt: skip
_RISING, _FALLING, _FLAT = (RATES[2], "speedup"), ("wall_s", "step_s", "efficiency"), (RATES[0], "wall_s", "efficiency")
_WORDS = 5  # of a header that a pattern may have on each side
Keyed = Sequence[tuple[str, Column]]  # columns, each behind the text by which COLUMNS= names it


def resolved(columns: list[Column], alone: bool) -> list[Column]:
    """Return the columns, each size and measured quantity once; those that COLUMNS names count before others.

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
    by_user = {_quantity(column) for column in columns if column.by_user} - {""}
    columns = [c.named("other") if not c.by_user and _quantity(c) in by_user else c for c in columns]
    for name in dict.fromkeys(column.name for column in columns):
        same = [column for column in columns if column.name == name]
        if name in (*MEASURED, *headers.SIZES, "batch", "scaling"):
            if len({(column.cells, column.unit) for column in same}) > 1:
                raise which(name, same, columns)
            columns = [column for column in columns if column.name != name or column is same[0]]
    _ask_count(columns)
    if not any(column.name in MEASURED and column.name != "cells" for column in columns):
        raise _unmeasured(columns)
    return columns


def _quantity(column: Column) -> str:
    """Return the size or measured quantity that a column is, all rates as one; "" if it is none."""
    sizes = (*MEASURED, *headers.SIZES)
    return "rate" if column.name in RATES else column.name if column.name in sizes else ""


def which(name: str, same: Sequence[Column], columns: Sequence[Column]) -> Question:
    """Return the question which of several columns is a quantity, or whether each is a curve."""
    names = SCOPED.get(name, (name,))
    text = f"several columns are {names[0]}: {_texts(same)}"
    return Question(text, _offers([*(_patterns(same) if name in MEASURED else ()), *_singly(same)], columns, names))


def _texts(columns: Sequence[Column]) -> str:
    return ", ".join(repr(column.text) for column in columns if column.text)


def _singly(columns: Sequence[Column]) -> Keyed:
    return [(column.key, column) for column in columns]


def _offers(keyed: Keyed, columns: Sequence[Column], names: Sequence[str] = ()) -> list[str]:
    """Return the settings that name some columns of a table: the likeliest name of each first.

    names: those that are possible, else those that fit the unit of a column, or its course over the ranks. A rate whose
    header says of what it is has that name alone.
    """
    ranks = next((column for column in columns if column.name in ("ranks", "nodes")), None)
    named = [(key, [c.name] if c.name in RATES else names or _fitting(c, ranks)) for key, c in keyed]
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


def _patterns(columns: Sequence[Column]) -> Keyed:
    """Return the patterns with "*" of columns of one unit whose headers begin or end in the same words.

    Each has its first column. Of patterns of the same columns the longest counts.
    """
    alike: dict[tuple[object, ...], list[Column]] = {}
    for column in columns:
        words = column.text.split()
        for before, after in itertools.product(range(min(len(words), _WORDS)), repeat=2):
            if 0 < before + after < len(words):
                pattern = " ".join([*words[:before], "*", *words[len(words) - after :]])
                alike.setdefault((pattern, column.unit, numbers.kinds(column.cells)), []).append(column)
    longest: dict[tuple[int, ...], tuple[str, Column]] = {}
    for key, same in sorted(alike.items(), key=lambda item: len(str(item[0][0]))):
        if same[1:] and re.search(r"\w", text := str(key[0])) and not AWKWARD.search(text.replace("*", "", 1)):
            longest[tuple(column.number for column in same)] = text, same[0]
    return [*longest.values()]


def _ask_count(columns: Sequence[Column]) -> None:
    """Raise Question if a number of ranks may be of each node or of all, or an unused column may be that of ranks."""
    named = {column.name: column for column in columns}
    ranks, nodes = named.get("ranks"), named.get("nodes")
    if nodes is None or "ranks_per_node" in named:
        return
    if ranks is None:
        counting = [c for c in columns if c.name in ("", "cores") and c.counting and _holds(c, nodes)]
        if counting:
            none = ",".join(f"{column.key}={UNUSED}" for column in counting)
            text = f"are the ranks counted by {_texts(counting)}? If not, each node is one rank"
            raise Question(text, [*_offers(_singly(counting), columns, ("ranks", "setting")), none])
    elif not ranks.by_user and nodes.varies and not (ranks.varies and _holds(ranks, nodes)):
        text = f"'{ranks.text}' is {ranks.cells[0]} at {nodes.cells[0]} nodes: of each node, or of all?"
        raise Question(text, _offers(_singly([ranks]), columns, ("ranks_per_node", "ranks")))


def _holds(counts: Column, nodes: Column) -> bool:
    """Return whether a column counts as many as nodes, or more, in each row."""
    values = zip(map(numbers.value, counts.cells), map(numbers.value, nodes.cells), strict=True)
    return not any(count < node for count, node in values)


def _no_ranks(columns: Sequence[Column]) -> Question:
    """Return the question for a table without numbers of ranks: are they across, or in a column that may count?"""
    counting = [c for c in columns if c.key and c.counting and _may_count(c)]
    across = [c for c in columns if c.name in ("", *MEASURED) and c.numeric and re.match(r"\d", c.text)]
    cells = [("cells", across[0])] if sum(column.text.isdigit() for column in across) > 1 else []
    answers = _offers(_singly(counting), columns, ("ranks",)) + _offers([*_patterns(across), *cells], columns)
    for column in columns if not answers else ():
        if headers.read_header(column.text).name in ("ranks", "nodes"):
            bad = next((cell for cell in column.filled if not numbers.counts(cell)), "0")
            return Question(f"'{column.text}' should count ranks, and '{bad}' is not a whole number above 0")
    return _missing("ranks (GPUs, workers, processes, or nodes and GPUs per node)", columns, answers)


def _may_count(column: Column) -> bool:
    """Return whether a column that counts is not known to be something else; "4 GPUs" count below any header."""
    bare = all(map(str.isdigit, column.filled)) and len(column.text) != 1
    return column.name == "" or (column.name in ("setting", *headers.TEXT) and not bare)


def _unmeasured(columns: Sequence[Column]) -> Question:
    """Return the question for a table in which no known column is measured: which can be, each as what?"""
    unknown = [column for column in columns if column.name in ("", "cells") and column.numeric and column.varies]
    across = [column for column in unknown if column.name == "cells"]
    last = {column.number: plain(column.text).split(" ")[-1].strip("_") for column in unknown}
    statistics = [column for column in unknown if last[column.number] in _STATISTICS]
    some = across or sorted(statistics, key=lambda column: _STATISTICS.index(last[column.number])) or unknown
    cells = [("cells", some[0])] if some == unknown and not across and some[1:] else []
    answers = _offers([*_patterns(some), *cells, *_singly(some)], columns)
    answers += [f"{column.key}=wall_s min" for column in unknown if column.text.lower().endswith("_min")]
    return _missing("a known rate, time, speedup or efficiency", columns, answers)


def _missing(what: str, columns: Sequence[Column], answers: Sequence[str]) -> Question:
    """Return the question which column is what the table lacks."""
    return Question(f"no column of {what} among {_texts(columns)[:300]}", answers)
