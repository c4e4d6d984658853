"""The number of ranks of each row: counts as people write them, and the column that counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.user_table import headers
from analysis.user_table.columns import MEASURED, Column, NotATable, Question, assignable, pattern_of
from analysis.user_table.headers import TEXT, UNUSED, Choices, Header
from analysis.user_table.units import CORE, NODE, RANK

_DEVICE = r"(?!x ?\d)(?:nvidia |tesla |amd )?[a-z]+ ?-?[a-z]*\d[\w.-]*"  # "V100", "RTX 4090", "A100-80GB"
_RANKS = re.compile(  # "4", "8 GPUs", "8x V100 (2 nodes)", "2x4", "2 nodes x 4", "2x8xH100"
    rf"(?:(\d+) ?(?:{NODE})? ?[x×*] ?)?(\d+)(?: ?[x×])?(?: ?-?(?:{RANK}|{CORE}|({_DEVICE})(?: gpus?)?)s?)?"
    rf"(?: per {NODE})?(?: ?\(.*\))?",
    re.I,
)
_NODES = re.compile(rf"(\d+) ?-?{NODE}(?: ?\(.*\))?", re.I)


@dataclass(frozen=True)
class Size:
    """The numbers in one cell, 0 if it has none, and the type of the devices."""

    ranks: int = 0
    nodes: int = 0
    gpu: str = ""


def read(text: str) -> Size | None:
    """Return the ranks and nodes that a cell counts; None if it is no count."""
    text = re.sub(r"(?<=\d)[,'](?=\d{3}\b)", "", text.strip(" *†‡~").removesuffix(".0"))
    if match := _RANKS.fullmatch(text):
        nodes = int(match[1] or 0)
        return Size(int(match[2]) * (nodes or 1), nodes, match[3] or "")
    return Size(nodes=int(match[1])) if (match := _NODES.fullmatch(text)) else None


def _counts(column: Column) -> bool:
    """Return whether most filled cells of a column are counts, and none is a list of devices as "0,1"."""
    filled = [cell for cell in column.cells if cell.strip("-–— ")]
    lists = any(re.fullmatch(r"\d+(?:,\d{1,2})+", cell) for cell in filled)
    return bool(filled) and not lists and sum(read(cell) is not None for cell in filled) * 2 > len(filled)


def resolved(columns: Sequence[Column], place: str, choices: Choices) -> list[Column]:
    """Return the columns with one called ranks, or nodes and ranks_per_node, their cells plain numbers.

    Raises Question if several count, or one counts from 0 as numbers of devices do; NotATable if none counts.
    """
    columns = [_checked(column) for column in columns]
    if not any(column.name in ("ranks", "nodes") for column in columns):
        threads = next((column for column in columns if column.name == "threads" and _counts(column)), None)
        if threads is None:
            raise _no_ranks(columns, place, choices)
        why = "nothing else counts: each thread or core is one rank"
        columns = [column.named("ranks", why) if column is threads else column for column in columns]
    for name in ("ranks", "nodes"):
        same = [column for column in columns if column.name == name]
        same = [column for column in same if column.header.by_user] or same
        if len({column.cells for column in same}) > 1:
            answers = [
                (f"'{column.text}'", ",".join(f"{c.key(columns)}={name if c is column else UNUSED}" for c in same))
                for column in same
            ]
            texts = ", ".join(f"'{column.text}'" for column in same)
            raise Question(place, f"which of {texts} is the number of {name}?", answers, choices)
        columns = [column for column in columns if column.name != name or column is same[0]]
    named = {column.name: column for column in columns}
    if "ranks" in named and not named["ranks"].header.by_user:
        _ask_count(named["ranks"], named.get("nodes"), named["ranks"].key(columns), place, choices)
    return [numbered for column in columns for numbered in _numbered(column, columns)]


def _ask_count(ranks: Column, nodes: Column | None, key: str, place: str, choices: Choices) -> None:
    """Raise Question if a count may be of each node, or is of numbers from 0, as those of devices."""
    if nodes and len({*ranks.cells}) == 1 < len({*nodes.cells}):
        text = f"'{ranks.text}' is {ranks.cells[0]} at each number of nodes: of each node, or of all?"
        answers = [("of each node", f"{key}=ranks_per_node"), ("of all nodes", f"{key}=ranks")]
        raise Question(place, text, answers, choices)
    if len(ranks.cells) > 1 and sorted(ranks.cells) == [str(number) for number in range(len(ranks.cells))]:
        text = f"'{ranks.text}' counts from 0: how many ranks, or which device?"
        raise Question(place, text, [("how many", f"{key}=ranks"), ("which device", f"{key}={UNUSED}")], choices)


def _checked(column: Column) -> Column:
    """Return a column that cannot count under another name: "GPU" above "V100" is the model of the device."""
    if column.header.by_user or column.name not in ("ranks", "nodes", "threads", "gpu", "machine"):
        return column
    if _counts(column):
        return column.named({"gpu": "ranks", "machine": "nodes"}.get(column.name, column.name))
    plural = column.numeric or column.text.lower().rstrip(")").endswith("s")  # numbers of devices, "0,1"
    other = "" if plural else {"ranks": "gpu", "nodes": "machine"}.get(column.name, "")
    return column if column.name in TEXT else column.named(other)


def _numbered(column: Column, columns: Sequence[Column]) -> list[Column]:
    """Return a column with counts in words as numbers, and columns of nodes and devices that all its cells state."""
    if column.name not in ("ranks", "nodes"):
        return [column]
    sizes = [read(cell) or read(_single(cell) if column.header.by_user else "") or Size() for cell in column.cells]
    counts = [(size.nodes or size.ranks) if column.name == "nodes" else size.ranks for size in sizes]
    cells = tuple(str(count or cell) for count, cell in zip(counts, column.cells, strict=True))
    result = [Column(column.header, column.number, cells, column.why)]
    for other in ("nodes", "gpu") if column.name == "ranks" else ():
        texts = tuple(str(getattr(size, other)) for size in sizes if getattr(size, other))
        if len(texts) == len(sizes) and all(one.name != other for one in columns):
            result.append(Column(Header(column.text, other), column.number, texts))
    return result


def _no_ranks(columns: Sequence[Column], place: str, choices: Choices) -> Question | NotATable:
    """Return what to raise for a table without numbers of ranks."""
    measured = [column for column in columns if column.name in MEASURED]
    text = f"no column of ranks ({', '.join(headers.EXAMPLES['ranks'])})"
    answers = []
    for name in dict.fromkeys(column.name for column in measured):
        pattern, labels = pattern_of([column for column in measured if column.name == name])
        answers += [("across", f"{pattern}={assignable(name)}")] if all(map(str.isdigit, labels)) and labels else []
    unknown = [
        c for c in columns if c.name == "" or c.text in ("n", "N") or (c.name in ("condition", *TEXT) and not c.numeric)
    ]  # fmt: skip
    counting = [c for c in unknown if len({*c.cells}) > 1 and all(map(_in_words, c.cells))]
    answers = answers or [(f"'{column.text}'", f"{column.key(columns)}=ranks") for column in counting[:4]]
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


def ranks(values: dict[str, list[float]], notes: list[str], place: str) -> list[float]:
    """Return the number of ranks of each row: as counted, nodes x ranks per node, or as many as nodes, with a note."""
    if "ranks" in values:
        return values["ranks"]
    if "ranks_per_node" in values:
        return [nodes * each for nodes, each in zip(values["nodes"], values["ranks_per_node"], strict=True)]
    notes.append(f"{place}: nodes are counted, and not their ranks: each node is one rank here")
    return values["nodes"]
