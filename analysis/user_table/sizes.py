"""The number of ranks of each row: counts as people write them, and the column that counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from analysis.user_table.columns import ASSIGNED, MEASURED, NotATable, Question, key, one_of, pattern_of
from analysis.user_table.headers import TEXT, UNUSED, Choices, Column
from analysis.user_table.units import CORE, NODE, RANK

_DEVICE = r"(?!x ?\d)(?:nvidia |tesla |amd )?[a-z]+ ?-?[a-z]*\d[\w.-]*"  # "V100", "RTX 4090", "A100-80GB"
_RANKS = re.compile(  # "4", "8 GPUs", "8x V100 (2 nodes)", "2x4", "2 nodes x 4", "2x8xH100"
    rf"(?:(\d+) ?(?:{NODE})? ?[x×*] ?)?(\d+)(?: ?[x×])?(?: ?-?(?:{RANK}|{CORE}|({_DEVICE})(?: gpus?)?)s?)?"
    rf"(?: per {NODE})?(?: ?\(.*\))?",
    re.I,
)
_NODES = re.compile(rf"(\d+) ?-?{NODE}(?: ?\(.*\))?", re.I)


def read(text: str) -> tuple[int, int, str] | None:
    """Return the ranks, the nodes (0: none) and the type of devices that a cell counts; None if it is no count."""
    text = re.sub(r"(?<=\d)[,'](?=\d{3}\b)", "", text.strip(" *†‡~").removesuffix(".0"))
    if match := _RANKS.fullmatch(text):
        nodes = int(match[1] or 0)
        return int(match[2]) * (nodes or 1), nodes, match[3] or ""
    return (0, int(match[1]), "") if (match := _NODES.fullmatch(text)) else None


def resolved(columns: Sequence[Column], place: str, choices: Choices) -> list[Column]:
    """Return the columns with one called ranks, or nodes and ranks_per_node, their cells plain numbers.

    Raises Question if several count, or one counts from 0 as numbers of devices do; NotATable if none counts.
    """
    columns = [_checked(column) for column in columns]
    if not any(column.name in ("ranks", "nodes") for column in columns):
        threads = next((column for column in columns if column.name == "threads"), None)
        if threads is None:
            raise _no_ranks(columns, place, choices)
        why = "nothing else counts: each thread or core is one rank"
        columns = [column.named("ranks", why) if column is threads else column for column in columns]
    for name in ("ranks", "nodes"):
        if any(column.name == name for column in columns):
            columns = one_of(columns, name, place, choices)
    named = {column.name: column for column in columns}
    if "ranks" in named and not named["ranks"].by_user:
        _ask_count(named["ranks"], named.get("nodes"), key(named["ranks"], columns), place, choices)
    return [numbered for column in columns for numbered in _numbered(column, {*named})]


def _ask_count(ranks: Column, nodes: Column | None, name: str, place: str, choices: Choices) -> None:
    """Raise Question if a count may be of each node, or is of numbers from 0, as those of devices."""
    if nodes and len({*ranks.cells}) == 1 < len({*nodes.cells}):
        text = f"'{ranks.text}' is {ranks.cells[0]} at each number of nodes: of each node, or of all?"
        answers = [("of each node", f"{name}=ranks_per_node"), ("of all nodes", f"{name}=ranks")]
        raise Question(place, text, answers, choices)
    if len(ranks.cells) > 1 and sorted(ranks.cells) == [str(number) for number in range(len(ranks.cells))]:
        text = f"'{ranks.text}' counts from 0: how many ranks, or which device?"
        raise Question(place, text, [("how many", f"{name}=ranks"), ("which device", f"{name}={UNUSED}")], choices)


def _checked(column: Column) -> Column:
    """Return a column that cannot count under another name: "GPU" above "V100" is the model of the device."""
    others = {"ranks": "gpu", "nodes": "machine"}
    if column.by_user or column.name not in ("threads", *others, *others.values()):
        return column
    cells = [cell for cell in column.cells if cell.strip("-–— ")]
    listed = any(re.fullmatch(r"\d+(?:,\d{1,2})+", cell) for cell in cells)  # numbers of devices, "0,1"
    if not listed and sum(read(cell) is not None for cell in cells) * 2 > len(cells):
        return column.named({other: name for name, other in others.items()}.get(column.name, column.name))
    plural = column.numeric or column.text.lower().rstrip(")").endswith("s")
    return column if column.name in TEXT else column.named("" if plural else others.get(column.name, ""))


def _numbered(column: Column, names: set[str]) -> list[Column]:
    """Return a column with counts in words as numbers, and columns of nodes and devices that all its cells state."""
    if column.name not in ("ranks", "nodes"):
        return [column]
    sizes = [read(cell) or read(_single(cell) if column.by_user else "") or (0, 0, "") for cell in column.cells]
    counts = [(nodes or ranks) if column.name == "nodes" else ranks for ranks, nodes, _ in sizes]
    result = [replace(column, cells=tuple(str(n or cell) for n, cell in zip(counts, column.cells, strict=True)))]
    for other, cells in (("nodes", [nodes for _, nodes, _ in sizes]), ("gpu", [gpu for *_, gpu in sizes])):
        if column.name == "ranks" and all(cells) and other not in names:
            result.append(Column(column.text, column.number, other, cells=tuple(map(str, cells))))
    return result


def _no_ranks(columns: Sequence[Column], place: str, choices: Choices) -> Question | NotATable:
    """Return what to raise for a table without numbers of ranks."""
    measured = [column for column in columns if column.name in MEASURED]
    text = "no column of ranks (GPUs, workers, processes, or nodes and GPUs per node)"
    answers = []
    for name in dict.fromkeys(column.name for column in measured):
        pattern, labels = pattern_of([column for column in measured if column.name == name])
        answers += (
            [("across", f"{pattern}={ASSIGNED.get(name, name)}")] if all(map(str.isdigit, labels)) and labels else []
        )
    words = ("condition", *TEXT)
    unknown = [c for c in columns if c.name == "" or c.text in ("n", "N") or (c.name in words and not c.numeric)]
    counting = [c for c in unknown if len({*c.cells}) > 1 and all(map(_in_words, c.cells))]
    answers = answers or [(f"'{column.text}'", f"{key(column, columns)}=ranks") for column in counting[:4]]
    if answers and measured:
        return Question(place, f"{text}: is it one of these?", answers, choices)
    texts = ", ".join(f"'{column.text}'" for column in columns if column.text)
    return NotATable(f"{place}: {text}; its headers are {texts[:300]}")


def _in_words(cell: str) -> bool:
    """Return whether a cell may count: "8x V100", "Parallel 2"; but "8 x 4" may count anything."""
    return bool(_single(cell) or (re.search(r"[^\W\dx×_]", cell) and read(cell)))


def _single(cell: str) -> str:
    """Return the only whole number above 0 in a cell, "Parallel 2"; "" for none or several."""
    numbers = re.findall(r"(?<![\w.])\d+(?:[.,]\d+)*(?!\w)", cell)
    return numbers[0] if len(numbers) == 1 and numbers[0].isdigit() and int(numbers[0]) else ""
