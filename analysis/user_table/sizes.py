"""The number of ranks of each row: counts as people write them, and the column that counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.user_table import headers
from analysis.user_table.columns import MEASURED, Column, NotATable, Question, assignable, pattern_of
from analysis.user_table.headers import Choices, Header
from analysis.user_table.units import CORE, NODE, RANK

_DEVICE = r"(?!x ?\d)(?:nvidia |tesla |amd )?[a-z]+ ?-?[a-z]*\d[\w.-]*"  # "V100", "RTX 4090", "A100-80GB"
_UNIT = rf"(?:{RANK}|{CORE}|(?P<gpu>{_DEVICE})(?: gpus?)?)s?"
_RANKS = re.compile(
    rf"(?:{RANK}|{CORE}|-?j|np|n|p)? ?[=:]? ?(\d+)(?: ?[x×])?(?: ?-?{_UNIT})?(?: ?\(.*\))?", re.I
)  # "4", "8 GPUs", "8x V100 (2 nodes)", "np=4"
_PRODUCT = re.compile(
    rf"(\d+) ?(?:{NODE},? ?[x×*]?|[x×*]) ?(\d+)(?:(?: ?[x×*])? ?-?{_UNIT})?(?: (?:each|per {NODE}))?(?: ?\(.*\))?", re.I
)  # "2x4", "2 nodes x 4", "2x8xH100", "4 nodes, 8 GPUs each"
_NODES = re.compile(rf"(\d+) ?-?{NODE}\b(?: ?[,(].*)?", re.I)


@dataclass(frozen=True)
class Size:
    """The numbers in one cell, 0 if it has none, and the type of the devices."""

    ranks: int = 0
    nodes: int = 0
    gpu: str = ""


def read(text: str) -> Size | None:
    """Return the ranks and nodes that a cell counts; None if it is no count."""
    text = re.sub(r"(?<=\d)[,'](?=\d{3}\b)", "", text.strip(" *`†‡~").removesuffix(".0"))
    if match := _RANKS.fullmatch(text):
        return Size(ranks=int(match[1]), gpu=match["gpu"] or "")
    in_all = re.fullmatch(rf"(\d+) ?{NODE}, ?(\d+) ?{RANK}(?: ?\(.*\))?", text, re.I)  # each, or in all?
    if in_all and int(in_all[1]) > 1:
        return None
    if match := _PRODUCT.fullmatch(text):
        return Size(int(match[1]) * int(match[2]), int(match[1]), match["gpu"] or "")
    if match := _NODES.fullmatch(text):
        return Size(nodes=int(match[1]))
    return None


def _counts(column: Column) -> bool:
    """Return whether every filled cell of a column that COLUMNS did not name is a count."""
    if any(re.fullmatch(r"\d+(?:,\d{1,2})+", cell) for cell in column.cells):  # numbers of devices, "0,1"
        return False
    sizes = [read(cell) for cell in column.cells if cell.strip("-–— ")]
    return sum(size is not None for size in sizes) * 2 > len(sizes) and bool(sizes)


def _in_words(column: Column) -> str:
    """Return "ranks" or "nodes" if every cell counts them in words, as "4 GPUs" or "8x V100"; else ""."""
    if column.name not in ("", "condition", "gpu", "machine") or column.header.why:
        return ""
    sizes = [read(cell) for cell in column.cells if re.search(r"[^\W\dx×_]", cell)]
    if not all(sizes) or len(sizes) < len(column.cells):
        return ""
    return next((name for name in ("ranks", "nodes") if all(getattr(size, name) for size in sizes)), "")


def resolved(columns: Sequence[Column], place: str, choices: Choices) -> list[Column]:
    """Return the columns with one called ranks, or nodes and ranks_per_node, their cells plain numbers.

    Raises Question if several count, or one counts from 0 as numbers of devices do; NotATable if none counts.
    """
    columns = [_checked(column) for column in columns]
    counting = [column for column in columns if column.name == "ranks"]
    nodes = [column for column in columns if column.name == "nodes"]
    if not counting and not nodes:
        in_words = [column for column in columns if _in_words(column)][:1]
        threads = [column for column in columns if column.name == "threads" and _counts(column)][:1]
        counting = in_words or threads
        why = "its cells count them" if in_words else "nothing else counts: each thread or core is one rank"
        columns = [
            column.named(_in_words(column) or "ranks", why) if column in counting else column for column in columns
        ]
        counting = [column for column in columns if column.name == "ranks"]
        nodes = [column for column in columns if column.name == "nodes"]
    if by_user := [column for column in counting if column.header.by_user]:
        counting = by_user
    for same, name in ((counting, "ranks"), (nodes, "nodes")):
        if len({column.cells for column in same}) > 1:
            answers = [
                (f"'{column.text}'", ",".join(
                    f"{c.key(columns)}={name if c is column else headers.UNUSED}" for c in same
                )) for column in same
            ]  # fmt: skip
            texts = ", ".join(f"'{column.text}'" for column in same)
            raise Question(place, f"which of {texts} is the number of {name}?", answers, choices)
    if not counting and not nodes:
        raise _no_ranks(columns, place, choices)
    dropped = [
        column for column in columns if column.name in ("ranks", "nodes") and column not in counting[:1] + nodes[:1]
    ]
    columns = [column for column in columns if column not in dropped]
    for column in counting[:1] if nodes else ():
        if len({*column.cells}) == 1 < len({*nodes[0].cells}) and not column.header.by_user:
            key = column.key(columns)
            answers = [("of each node", f"{key}=ranks_per_node"), ("of all nodes", f"{key}=ranks")]
            text = f"'{column.text}' is {column.cells[0]} at each number of nodes: of each node, or of all?"
            raise Question(place, text, answers, choices)
    for column in counting[:1]:
        ids = [cell.strip() for cell in column.cells]
        if sorted(ids) == [str(number) for number in range(len(ids))] and not column.header.by_user and len(ids) > 1:
            key = column.key(columns)
            answers = [("how many", f"{key}=ranks"), ("which device", f"{key}={headers.UNUSED}")]
            raise Question(place, f"'{column.text}' counts from 0: how many ranks, or which device?", answers, choices)
    return _numbered(columns)


def _checked(column: Column) -> Column:
    """Return a column that cannot count under another name: "GPU" above "V100" is the model of the device."""
    if column.header.by_user or column.name not in ("ranks", "nodes", "threads", "gpu", "machine"):
        return column
    if _counts(column):
        return column.named({"gpu": "ranks", "machine": "nodes"}.get(column.name, column.name))
    if column.name in headers.TEXT:
        return column
    text = not column.numeric and not column.text.lower().rstrip(")").endswith("s")
    return column.named({"ranks": "gpu", "nodes": "machine"}.get(column.name, "") if text else "")


def _numbered(columns: Sequence[Column]) -> list[Column]:
    """Return the columns with counts in words as numbers, and columns of nodes and devices that these state."""
    result: list[Column] = []
    for column in columns:
        if column.name not in ("ranks", "nodes"):
            result.append(column)
            continue
        sizes = [read(cell) or (read(_single(cell)) if column.header.by_user else None) for cell in column.cells]
        name = column.name
        counts = tuple(
            cell if size is None else str((size.nodes or size.ranks) if name == "nodes" else size.ranks or cell)
            for cell, size in zip(column.cells, sizes, strict=True)
        )
        result.append(Column(column.header, column.number, counts))
        for other in ("nodes", "gpu") if name == "ranks" else ():  # if every cell states them too
            cells = tuple(str(getattr(size, other)) for size in sizes if size and getattr(size, other))
            if len(cells) == len(sizes) and all(one.name != other for one in columns):
                result.append(Column(Header(column.text, other), column.number, cells))
    return result


def _no_ranks(columns: Sequence[Column], place: str, choices: Choices) -> Question | NotATable:
    """Return what to raise for a table without numbers of ranks."""
    unknown = [
        c for c in columns if ((c.name == "" or c.text in ("n", "N")) and not c.header.why) or c.name == "condition"
    ]
    measured = [column for column in columns if column.name in MEASURED]
    whole = [
        column for column in unknown if len({*column.cells}) > 1 and all(_single(cell) for cell in column.cells)
        and (not column.numeric or column.name == "" or column.text in ("n", "N"))
    ]  # fmt: skip
    text = f"no column of ranks ({', '.join(headers.EXAMPLES['ranks'])})"
    across = []
    for name in dict.fromkeys(column.name for column in measured):
        pattern, labels = pattern_of([column for column in measured if column.name == name])
        across += [(pattern, name)] if labels and all(label.isdigit() for label in labels) else []
    answers = [("across", f"{pattern}={assignable(name)}") for pattern, name in across]
    answers = answers or [(f"'{column.text}'", f"{column.key(columns)}=ranks") for column in whole[:4]]
    if answers and measured:
        return Question(place, f"{text}: is it one of these?", answers, choices)
    texts = ", ".join(f"'{column.text}'" for column in columns if column.text)
    return NotATable(f"{place}: {text}; its headers are {texts[:300]}")


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
