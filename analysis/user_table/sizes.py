"""Counts of ranks and nodes as people write them in cells."""

from __future__ import annotations

import re
from dataclasses import replace

from analysis.user_table.headers import Column
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


def may_count(cell: str) -> bool:
    """Return whether a cell below another header may count: "8x V100", "Parallel 2"; "8 x 4" may count anything."""
    return bool(_single(cell) or (re.search(r"[^\W\dx×_]", cell) and read(cell)))


def _single(cell: str) -> str:
    """Return the only whole number above 0 in a cell, "Parallel 2"; "" for none or several."""
    numbers = re.findall(r"(?<![\w.])\d+(?:[.,]\d+)*(?!\w)", cell)
    return numbers[0] if len(numbers) == 1 and numbers[0].isdigit() and int(numbers[0]) else ""


def numbered(column: Column, names: set[str]) -> list[Column]:
    """Return a column of ranks or nodes with plain numbers, and columns of nodes and devices that all its cells state.

    names: of the columns that there are.
    """
    sizes = [read(cell) or read(_single(cell) if column.by_user else "") or (0, 0, "") for cell in column.cells]
    counts = [(nodes or ranks) if column.name == "nodes" else ranks for ranks, nodes, _ in sizes]
    result = [replace(column, cells=tuple(str(n or cell) for n, cell in zip(counts, column.cells, strict=True)))]
    for other, cells in (("nodes", [nodes for _, nodes, _ in sizes]), ("gpu", [gpu for *_, gpu in sizes])):
        if column.name == "ranks" and all(cells) and other not in names:
            result.append(Column(column.text, column.number, other, cells=tuple(map(str, cells))))
    return result
