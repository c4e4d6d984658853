"""The meaning of each column of a table, each quantity once; or the question which column is which."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from analysis.user_table import headers, numbers, units
from analysis.user_table.answers import Question
from analysis.user_table.headers import AWKWARD, KIND, MEASURED, SCOPED, UNUSED, Column, plain

_STATISTICS = ("mean", "average", "avg", "median", "min", "best")  # of a time or rate, in this order
_TIMES, _RATES = ("wall_s", "step_s", "epoch_s", "job_s"), ("images_per_s", "images_per_s_per_rank")
_FITTING = {  # names that an unknown column with such units may have
    "time": _TIMES, "ratio": ("speedup", "efficiency"), "share": ("efficiency", "speedup"),
    "rate": (*_RATES, "images_per_s_per_node"), "": (*_RATES, "wall_s", "speedup", "step_s"),
}  # fmt: skip


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
    for name in dict.fromkeys(column.name for column in columns):
        if name in (*MEASURED, *headers.SIZES, "batch", "scaling"):
            columns = _one_of(columns, name)
    _ask_count(columns, {column.name: column for column in columns})
    if not any(column.name in MEASURED and column.name != "cells" for column in columns):
        raise _unmeasured(columns)
    rates = [
        c for c in columns if c.name == "" and c.unit.kind == "rate" and units.known_work(c.unit.work) and c.varies
    ]
    if rates and not any(KIND.get(column.name) == "rate" for column in columns):
        answers = _group_answers(rates) or [
            (f"'{c.text}', {name}", f"{c.key}={name}") for c in rates for name in _RATES
        ]
        none = ",".join(f"{column.key}={UNUSED}" for column in rates)
        raise Question(f"is a rate in {', '.join(repr(c.text) for c in rates)}?", [*answers, ("none", none)])
    return columns


def _one_of(columns: Sequence[Column], name: str) -> list[Column]:
    """Return the columns with one of this name, that which COLUMNS names first. Raises Question if several differ."""
    same = [column for column in columns if column.name == name]
    same = [column for column in same if column.by_user] or same
    if len({(column.cells, column.unit) for column in same}) > 1:
        raise which(name, same)
    return [column for column in columns if column.name != name or column is same[0]]


def which(name: str, same: Sequence[Column]) -> Question:
    """Return the question which of several columns is a quantity, or whether each is a curve of one unit."""
    scoped = SCOPED.get(name, (name,))
    curves = scoped if name in MEASURED and len({column.unit.work for column in same}) == 1 else ()
    answers = _curve_answers(same, curves)
    for column in same:
        rest = [other for other in same if other is not column]
        if not answers and len(rest) > 1:
            answers += [(text, f"{answer},{column.key}={UNUSED}") for text, answer in _curve_answers(rest, curves)]
        answers.append((f"'{column.text}'", ",".join(f"{other.key}={UNUSED}" for other in rest)))
    return Question(f"several columns are {scoped[0]}: {', '.join(repr(c.text) for c in same)}", answers)


def _curve_answers(same: Sequence[Column], names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the answers that each column is a curve of one of these quantities; none if no pattern has them all."""
    texts = [re.sub(r"\s+", " ", column.text) for column in same]
    common = os.path.commonprefix  # of characters
    before = re.sub(r"\w+$", "", common(texts))
    after = re.sub(r"^\w+", "", common([text[len(before) :][::-1] for text in texts])[::-1])
    after = after if re.search(r"\w", after) else ""
    labels = [text[len(before) : len(text) - len(after)].strip() for text in texts]
    awkward = len(same) < 2 or len({*labels}) < len(same) or "" in labels or AWKWARD.search(before + after)
    if awkward or not re.search(r"\w", before + after):
        return []
    return [(f"a curve for each, {name}", f"{before}*{after}={name}") for name in names]


def _ask_count(columns: Sequence[Column], named: Mapping[str, Column]) -> None:
    """Raise Question if a count may be of each node or of all, is of numbers from 0, or an unused column may count."""
    ranks, nodes = named.get("ranks"), named.get("nodes")
    if ranks is None and nodes is not None and "ranks_per_node" not in named:
        counting = [
            column for column in columns if column.name in ("", "cores") and column.counting and _holds(column, nodes)
        ]
        answers = [(f"'{column.text}' counts them", f"{column.key}=ranks") for column in counting]
        answers += [(f"'{column.text}' is another setting", f"{column.key}=setting") for column in counting]
        none = ",".join(f"{column.key}={UNUSED}" for column in counting)
        if counting:
            texts = ", ".join(repr(column.text) for column in counting)
            raise Question(f"are the ranks counted by {texts}?", [*answers, ("none: each node is one rank", none)])
    if ranks is None or ranks.by_user:
        return
    if nodes and nodes.varies and (not ranks.varies or not _holds(ranks, nodes)):
        text = f"'{ranks.text}' is {ranks.cells[0]} at {nodes.cells[0]} nodes: of each node, or of all?"
        answers = [("of each node", f"{ranks.key}=ranks_per_node"), ("of all nodes", f"{ranks.key}=ranks")]
        raise Question(text, answers)
    if ranks.varies and sorted(ranks.cells) == [str(number) for number in range(len(ranks.cells))]:
        text = f"'{ranks.text}' counts from 0: how many ranks, or which device?"
        raise Question(text, [("how many", f"{ranks.key}=ranks"), ("which device", f"{ranks.key}={UNUSED}")])


def _holds(counts: Column, nodes: Column) -> bool:
    """Return whether a column counts as many as nodes, or more, in each row."""
    values = zip(map(numbers.value, counts.cells), map(numbers.value, nodes.cells), strict=True)
    return not any(count < node for count, node in values)


def _no_ranks(columns: Sequence[Column]) -> Question:
    """Return the question for a table without numbers of ranks: are they across, or in a column that may count?"""
    numeric = [column for column in columns if column.name in ("", *MEASURED) and column.numeric]
    counting = [column for column in columns if column.key and column.counting and _may_count(column)]
    answers = [(f"'{column.text}'", f"{column.key}=ranks") for column in counting]
    across = [column for column in numeric if column.text.isdigit()]
    if len(across) > 1:
        answers += [(f"the headers {across[0].text}, ...: {name} below", f"cells={name}") for name in _FITTING[""]]
    answers += _group_answers([column for column in numeric if re.match(r"\d", column.text)])  # "1 GPU tok/s", ...
    return _missing("ranks (GPUs, workers, processes, or nodes and GPUs per node)", columns, answers)


def _may_count(column: Column) -> bool:
    """Return whether a column that counts is not known to be something else; "4 GPUs" count below any header."""
    bare = all(map(str.isdigit, column.filled)) and len(column.text) != 1
    named = column.name in ("setting", *headers.TEXT) and not bare
    return column.name == "" or named


def _group_answers(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """Return the answers that columns whose headers begin or end alike, with cells of one unit, are curves."""
    groups: dict[tuple[object, ...], list[Column]] = {}
    for column in columns:
        words = plain(column.text).split()
        kind = "".join(sorted(numbers.kinds(column.cells))), column.unit
        for key in {(words[0],), (*words[:2], ""), ("", words[-1]), ("", *words[-2:])} if len(words) > 1 else ():
            groups.setdefault((*key, *kind), []).append(column)
    answers: list[tuple[int, tuple[str, str]]] = []  # with the order of their names, so that each group has its first
    for same in groups.values():
        unit = same[0].unit.kind or "".join(sorted(numbers.kinds(same[0].cells)))
        names = _FITTING.get(unit, ())[:4]
        names = ("images_per_s", "wall_s", *names[1:2], "speedup") if not unit else names
        answers += enumerate(_curve_answers(same, names) if len(same) > 1 else [])
    return list(dict.fromkeys(answer for _, answer in sorted(answers, key=lambda item: item[0])))


def _unmeasured(columns: Sequence[Column]) -> Question:
    """Return the question for a table in which no known column is measured: which can be, each as what?"""
    unknown = [column for column in columns if column.name in ("", "cells") and column.numeric and column.varies]
    unknown = [column for column in unknown if column.name == "cells"] or unknown
    first = [c for c in unknown if plain(c.text).split(" ")[-1].strip("_") in _STATISTICS]
    unknown = sorted(first, key=lambda c: _STATISTICS.index(plain(c.text).split(" ")[-1])) or unknown
    answers: list[tuple[str, str]] = []
    kinds = [(numbers.kinds(column.cells) | {column.unit.kind}) - {"", "count"} for column in unknown]
    if len(unknown) > 1 and not first and unknown[0].name != "cells":
        names = _FITTING.get(next(iter(kinds[0]), ""), ())
        answers += [(f"a curve for each, {name}", f"cells={name}") for name in names[:3]]
        answers = [*_group_answers(unknown)[:12], *answers]
    fitting = [
        [(c, name) for name in _FITTING.get(next(iter(kind), ""), ())] for c, kind in zip(unknown, kinds, strict=True)
    ]
    pairs = [
        pair for pairs in zip(*(names + [None] * (5 - len(names)) for names in fitting), strict=True) for pair in pairs
    ]
    answers += [(f"'{column.text}', {name}", f"{column.key}={name}") for column, name in filter(None, pairs)]
    answers += [(f"'{c.text}', minutes", f"{c.key}=wall_s min") for c in unknown if c.text.lower().endswith("_min")]
    return _missing("a known rate, time, speedup or efficiency", columns, answers)


def _missing(what: str, columns: Sequence[Column], answers: Sequence[tuple[str, str]]) -> Question:
    """Return the question which column is what the table lacks; without answers it names the headers."""
    texts = ", ".join(repr(column.text) for column in columns if column.text)
    more = "is it one of these?" if answers else f"its headers are {texts[:300]}"
    return Question(f"no column of {what}: {more}", answers)
