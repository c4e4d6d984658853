"""The tables in a grid of cells: each begins with headers, in one row or several, and has rows below them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from analysis.user_table import headers, numbers, units
from analysis.user_table.files import Grid

_TOTAL = re.compile(r"(?:grand )?total|sum|average|avg\.?|mean|median|geo ?mean|std\.?(?: ?dev\.?)?|min|max", re.I)
_REMARK = re.compile(r"\s*(?:[*†‡]|note\b|source\b|\(?\d\)|\[\d\])", re.I)
_RULE = re.compile(r"(?!--?$)[-=_*.:+|\s]+")


@dataclass
class Block:
    """One table of a grid: its headers, and its rows with the line and the title of the section of each."""

    grid: Grid
    title: str
    headers: list[str]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def blocks(grid: Grid, overrides: Mapping[str, str]) -> list[Block]:
    """Return the tables of a grid that have rows. `overrides`: names of headers by COLUMNS, or of columns by number."""
    tables = _with_headers(grid, overrides)
    if not tables and any(name.isdigit() for name in overrides):  # no headers: the user names columns by number
        width = max(map(len, grid.rows))
        tables = [Block(grid, grid.title, [str(number) for number in range(1, width + 1)])]
        for row, line in zip(grid.rows, grid.lines, strict=True):
            if any(row):
                _add(tables[0], row, line, "")
    return [block for block in tables if block.rows]


def _with_headers(grid: Grid, overrides: Mapping[str, str]) -> list[Block]:
    blocks: list[Block] = []
    title, section = grid.title, ""
    above: list[tuple[str, ...]] = []  # rows of text just above, which may be the upper headers
    in_header = False
    for number, (row, line) in enumerate(zip(grid.rows, grid.lines, strict=True)):
        cells = tuple(cell.strip() for cell in row)
        filled = [cell for cell in cells if cell]
        if not filled or all(_RULE.fullmatch(cell) for cell in filled):
            continue
        repeats = bool(blocks) and filled == [cell for cell in blocks[-1].headers if cell]
        over = above if blocks and blocks[-1].title == title else [*above, (title,)]
        alone = len(filled) == 1 or (len({*filled}) == 1 and len(filled) > 2)
        has_numbers = any(map(numbers.is_number, filled))
        lower = in_header and bool(blocks) and not blocks[-1].rows  # beneath headers, before any row
        declared = number < grid.heads
        below = bool(blocks) and any(row[0] == cells[0] for row in blocks[-1].rows)  # as "mpi, 1, 2, 4"
        may_be = (in_header or not repeats) and (declared or not (lower and grid.heads)) and not below
        if may_be and _is_header(cells, over, overrides, declared):
            if lower:
                blocks[-1].headers = _under([blocks[-1].headers, cells], overrides)
            else:
                blocks.append(Block(grid, title, _under([*above, cells], overrides)))
                section = ""
            in_header, above = True, []
        elif repeats:
            continue
        elif alone and not (numbers.is_number(filled[0]) and (headers.ranks_in(filled[0]) or (0, ""))[1] == ""):
            if len(filled[0]) <= 60 and not _REMARK.match(filled[0]):
                title, section = (title if blocks and blocks[-1].rows else filled[0]), filled[0]
            above = []
        elif lower and not has_numbers and (not grid.heads or all(map(units.read, filled))):  # units, lower headers
            blocks[-1].headers = _under([blocks[-1].headers, cells], overrides)
        elif not has_numbers and not (blocks and len(filled) >= len(blocks[-1].headers) - 1 and not in_header):
            above = [cells]
        else:
            in_header = False
            if blocks:
                _add(blocks[-1], cells, line, section)
    return blocks


def _is_header(
    cells: Sequence[str], above: Sequence[Sequence[str]], overrides: Mapping[str, str], declared: bool
) -> bool:
    """Return whether a row has headers: of known columns, or of numbers of ranks. declared: by the file's format."""
    filled = [cell for cell in cells if cell]
    read = [headers.read(cell, overrides) for cell in filled]
    stated = {header.sizes.size for header in read if header.sizes.kind}
    values = [
        cell for cell, header in zip(filled, read, strict=True) if not header.sizes.kind and numbers.has_value(cell)
    ]
    if len(stated) > 1 and (declared or not values):
        return True
    sizes = [header.sizes.size for header in read[1:]]
    counts = [tuple(map(int, re.findall(r"\d+", size))) for size in sizes]
    if len(sizes) > 1 and all(sizes) and "0" not in sizes and counts == sorted({*counts}):
        words = " ".join([filled[0], *(cell for row in above for cell in row)]).replace("_", " ")
        ranks_named = re.search(rf"\b(?:{headers.RANK}|{headers.NODE})\b", words, re.I)
        counts_ranks = read[0].name in ("ranks", "nodes") or (ranks_named and not read[0].name.startswith("images"))
        return bool(counts_ranks) and not numbers.has_value(filled[0])
    if len(filled) < 2 or (values and not declared):
        return False
    names = [header.name for header in read]
    return any(names) and (declared or not (len(names) == 2 and all(name in headers.TEXT for name in names)))


def _under(rows: Sequence[Sequence[str]], overrides: Mapping[str, str]) -> list[str]:
    """Return headers in several rows joined; a header that spans several columns applies to all of them."""
    width = max(map(len, rows))
    padded = [[*row, *[""] * (width - len(row))] for row in rows]
    for upper, lower in pairwise(padded):
        for at in range(1, width):
            alone = headers.read(lower[at], overrides).name in ("ranks", "nodes")
            if not upper[at] and lower[at] and upper[at - 1] and not alone:
                upper[at] = upper[at - 1]
    return [" ".join(dict.fromkeys(filter(None, cells))) for cells in zip(*padded, strict=True)]


def _add(block: Block, cells: tuple[str, ...], line: int, section: str) -> None:
    """Add a row to a table, or the reason why it is left out."""
    while block.headers and not block.headers[-1] and len(cells) < len(block.headers):
        block.headers.pop()
    width, first, why = len(block.headers), next(cell for cell in cells if cell), ""
    if any(cells[width:]) and len(cells) == width + 1 and not block.rows and block.headers[0]:
        block.headers.insert(0, "")  # names of rows, without a header
        width += 1
    if any(cells[width:]):
        why = f"{len(cells)} cells, and {width} headers"
    elif len(cells) < width and block.grid.format.startswith("separated"):
        why = f"{len(cells)} cells, and {width} headers; {block.grid.format}"
    elif _TOTAL.fullmatch(first) and not numbers.has_value(first):
        why = f"'{first}': no point"
    elif _REMARK.match(first) and not numbers.is_number(first) and sum(map(bool, cells)) < 3:
        return
    if why:
        block.notes.append(f"{block.grid.source}, line {line}: {why}; the row is left out")
        return
    block.rows.append((*cells[:width], *[""] * (width - len(cells))))
    block.lines.append(line)
    block.sections.append(section)
