"""The meaning of each column of a table, each quantity once; or the question which column is which."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from analysis.user_table import headers, numbers
from analysis.user_table.headers import AWKWARD, KIND, MEASURED, TEXT, UNIT_KINDS, UNUSED, Column, Question, scoped
from analysis.user_table.numbers import Number

_TYPES = {"ranks": "gpu", "nodes": "machine"}  # what stands below such headers if the cells do not count
_FITTING = {  # names that an unknown column with such units may have
    "time": ("wall_s", "step_s", "epoch_s"), "ratio": ("speedup",), "share": ("efficiency",),
    "rate": ("images_per_s", "images_per_s_per_rank"),
    "": ("images_per_s", "images_per_s_per_rank", "wall_s", "speedup"),
}  # fmt: skip


def resolved(columns: list[Column], alone: bool) -> list[Column]:
    """Return the columns, each size and measured quantity once.

    alone: whether the file has no other table; else this one needs several numbers of ranks. Raises Question if several
    columns are the same, none counts ranks or is measured, or a count has two readings.
    """
    if not any(column.name in _TYPES for column in columns):
        why = "nothing else counts: each thread or core is one rank"
        columns = [column.named("ranks", why) if column.name == "threads" else column for column in columns]
    counting = [column for column in columns if column.name in _TYPES]
    if not counting:
        raise _no_ranks(columns)
    if not alone and not any(column.varies for column in counting):
        raise Question("one number of ranks alone")
    for name in dict.fromkeys(column.name for column in columns):
        if name in (*MEASURED, *headers.SIZES, "batch"):
            columns = _one_of(columns, name)
    _ask_count({column.name: column for column in columns})
    if not any(column.name in MEASURED and column.name != "cells" for column in columns):
        raise _unmeasured(columns)
    return columns


def by_cells(column: Column) -> Column:
    """Return a column under the name that its cells show, if its header does not: "GPU" above "V100" is a type.

    The cells of ranks and nodes are plain numbers.
    """
    if column.by_user:
        cells = tuple(numbers.counted(cell, by_user=True)[0] for cell in column.cells)
        return replace(column, cells=cells) if column.name in _TYPES else column
    if column.name in ("threads", *_TYPES):
        cells = tuple(numbers.counted(cell)[0] for cell in column.cells)
        if sum(map(numbers.counts, cells)) * 2 > len(column.filled):
            return replace(column, cells=cells)
        plural = column.numeric or column.text.lower().endswith("s")  # "GPUs" above "0,1" is no type
        return column.named("" if plural else _TYPES.get(column.name, ""))
    kinds = numbers.kinds(column.cells)
    if column.name == "total":  # of a time, if it falls
        values = [cell.value for cell in map(numbers.parse, column.cells) if isinstance(cell, Number)]
        falls = kinds == {"time"} or all(later < first for first, later in pairwise(values))
        return column.named("wall_s" if falls else "", "it falls" if falls else "")
    unfit = column.name in KIND and kinds - UNIT_KINDS[KIND[column.name]]  # "1.9x" below "Throughput"
    return column.named("") if unfit else column


def _one_of(columns: Sequence[Column], name: str) -> list[Column]:
    """Return the columns with one of this name, that which COLUMNS names first. Raises Question if several differ."""
    same = [column for column in columns if column.name == name]
    same = [column for column in same if column.by_user] or same
    if len({(column.cells, column.unit) for column in same}) > 1:
        raise which(name, same)
    return [column for column in columns if column.name != name or column is same[0]]


def which(name: str, same: Sequence[Column]) -> Question:
    """Return the question which of several columns is a quantity, or whether each is a curve of one unit."""
    curves = scoped(name) if name in MEASURED and len({column.unit.work for column in same}) == 1 else []
    answers = _curve_answers(same, curves)
    rest_of = [(column, [other for other in same if other is not column]) for column in same]
    for column, rest in rest_of if not answers else ():
        answers += [(text, f"{answer},{column.key}={UNUSED}") for text, answer in _curve_answers(rest, curves)]
    answers += [(f"'{column.text}'", ",".join(f"{other.key}={UNUSED}" for other in rest)) for column, rest in rest_of]
    return Question(f"several columns are {scoped(name)[0]}: {', '.join(repr(c.text) for c in same)}", answers)


def _curve_answers(same: Sequence[Column], names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the answers that each column is a curve of one of these quantities; none if no pattern has them all."""
    pattern, _ = _pattern(same)
    return [(f"a curve for each, {name}", f"{pattern}={name}") for name in names] if pattern else []


def _pattern(same: Sequence[Column]) -> tuple[str, list[str]]:
    """Return the pattern whose "*" is what distinguishes headers, "Throughput - *", and these texts; "" without one."""
    texts = [re.sub(r"\s+", " ", column.text) for column in same]
    common = os.path.commonprefix  # of characters
    before = re.sub(r"\w+$", "", common(texts))
    after = re.sub(r"^\w+", "", common([text[len(before) :][::-1] for text in texts])[::-1])
    after = after if re.search(r"\w", after) else ""
    labels = [text[len(before) : len(text) - len(after)].strip() for text in texts]
    awkward = len(same) < 2 or len({*labels}) < len(same) or "" in labels or AWKWARD.search(before + after)
    return ("", []) if awkward or not re.search(r"\w", before + after) else (f"{before}*{after}", labels)


def _ask_count(columns: Mapping[str, Column]) -> None:
    """Raise Question if a count may be of each node, or is of numbers from 0, as those of devices."""
    ranks, nodes = columns.get("ranks"), columns.get("nodes")
    if ranks is None or ranks.by_user:
        return
    if nodes and nodes.varies and not ranks.varies:
        text = f"'{ranks.text}' is {ranks.cells[0]} at each number of nodes: of each node, or of all?"
        answers = [("of each node", f"{ranks.key}=ranks_per_node"), ("of all nodes", f"{ranks.key}=ranks")]
        raise Question(text, answers)
    if ranks.varies and sorted(ranks.cells) == [str(number) for number in range(len(ranks.cells))]:
        text = f"'{ranks.text}' counts from 0: how many ranks, or which device?"
        raise Question(text, [("how many", f"{ranks.key}=ranks"), ("which device", f"{ranks.key}={UNUSED}")])


def _no_ranks(columns: Sequence[Column]) -> Question:
    """Return the question for a table without numbers of ranks: are they across, or in a column that may count?"""
    measured = [column for column in columns if column.name in MEASURED]
    answers = []
    for name in dict.fromkeys(column.name for column in measured):
        same = [column for column in measured if column.name == name]
        answers += _curve_answers(same, scoped(name)[:1]) if all(map(str.isdigit, _pattern(same)[1])) else []
    words = ("condition", *TEXT)
    unknown = [c for c in columns if c.name == "" or c.text in ("n", "N") or (c.name in words and not c.numeric)]
    counting = [column for column in unknown if column.varies and all(map(numbers.may_count, column.cells))]
    answers = answers or [(f"'{column.text}'", f"{column.key}=ranks") for column in counting[:4]]
    what = "ranks (GPUs, workers, processes, or nodes and GPUs per node)"
    return _missing(what, columns, answers if measured else [])


def _unmeasured(columns: Sequence[Column]) -> Question:
    """Return the question for a table in which no known column is measured: which can be, each as what?"""
    varied = any(column.name in _TYPES and column.varies for column in columns)
    kinds = {column: (numbers.kinds(column.cells) | {column.unit.kind}) - {""} for column in columns}
    unknown = [
        c for c in columns
        if c.name in ("", "time", "cells") and c.numeric and c.varies and varied and len(kinds[c]) < 2
    ]  # fmt: skip
    cells = [column for column in unknown if column.name == "cells"]
    times = [column for column in unknown if column.name == "time" or "time" in kinds[column]]
    unknown = cells or times or unknown
    fitting = [(column, _FITTING.get(next(iter(kinds[column]), ""), ())) for column in unknown]
    answers = [(f"'{c.text}', {name}", f"{c.key}={name}") for c, names in fitting for name in names]
    if len(unknown) > 1:
        names = fitting[0][1]
        all_unknown = [(f"a curve for each, {name}", f"cells={name}") for name in names]
        answers = [*(_curve_answers(unknown, names) or all_unknown), *answers]
    return _missing("a known rate, time, speedup or efficiency", columns, answers)


def _missing(what: str, columns: Sequence[Column], answers: Sequence[tuple[str, str]]) -> Question:
    """Return the question which column is what the table lacks; without answers it names the headers."""
    texts = ", ".join(repr(column.text) for column in columns if column.text)
    more = "is it one of these?" if answers else f"its headers are {texts[:300]}"
    return Question(f"no column of {what}: {more}", answers)
