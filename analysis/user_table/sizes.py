"""Numbers of ranks and nodes as people write them in one cell: "2 nodes x 4", "8x V100", "0,1,2,3"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from analysis.user_table.units import NODE, RANK

_NODES = re.compile(rf"(\d+)\s*-?(?:{NODE}|n(?![a-z]))", re.I)
_RANKS = re.compile(
    rf"(\d+)\s*[x×]?\s*-?(?:nvidia |tesla )?(?:{RANK}|g(?![a-z])|(?P<gpu>(?!x\d)[a-z]+\d+[a-z]*(?:-\w+)*)(?: gpus?)?)",
    re.I,
)
_PRODUCT = re.compile(rf"(\d+)\s*-?(?:{NODE}|n)?\s*[x×*]\s*(\d+)\s*(?:{RANK}|g)?(?![\w.])", re.I)
_SHORT = re.compile(r"(\d+)n[-_ ]?x?(\d+)(?:g|d|gpus?)(?![a-z0-9])", re.I)  # "2n8g"
_IDS = re.compile(r"\d+(?:\s*[,;+ ]\s*\d+)*")
_WORDS = {"single": 1, "one": 1, "two": 2, "dual": 2, "four": 4, "quad": 4, "eight": 8, "sixteen": 16}


@dataclass(frozen=True)
class Sizes:
    """The sizes in one cell; 0 where it has none. gpu: the type of the devices."""

    ranks: int = 0
    nodes: int = 0
    ranks_per_node: int = 0
    gpu: str = ""


def read(text: str) -> Sizes | None:
    """The numbers of ranks and nodes in a cell of words; None where it has none."""
    low = re.sub(rf"\b({'|'.join(_WORDS)})\b", lambda match: str(_WORDS[match[0].lower()]), text.strip(), flags=re.I)
    plain = re.match(r"(\d+)\b(?!\s*[x×*]\s*\d+\b)", low)
    if match := _SHORT.match(low):
        return Sizes(int(match[1]) * int(match[2]), int(match[1]), int(match[2]))
    if len(re.findall(r"\d+", low)) > 4:  # the code of a configuration
        return None
    if (match := _PRODUCT.search(low)) and len(re.findall(r"\d+", low)) <= 3:
        nodes, per_node = int(match[1]), int(match[2])
        total = re.match(r"\s*(\d+)\s*(?:\w+\s*)?\(", low)
        if nodes and per_node and (not total or int(total[1]) == nodes * per_node):
            return Sizes(nodes * per_node, nodes, per_node)
    nodes_match = _NODES.search(low)
    ranks_match = next(
        (one for one in _RANKS.finditer(low) if not nodes_match or one.start() != nodes_match.start()), None
    )
    nodes, ranks = (int(match[1]) if match else 0 for match in (nodes_match, ranks_match))
    gpu = (ranks_match and ranks_match["gpu"]) or ""
    if nodes and ranks:
        if ranks < nodes or re.search(r"\beach\b|\bper\b|/ ?node|[x×*]", low):
            return Sizes(nodes * ranks, nodes, ranks, gpu)
        return Sizes(ranks, nodes, ranks // nodes if ranks % nodes == 0 else 0, gpu)
    if ranks:
        return Sizes(ranks, gpu=gpu)
    if nodes and plain and int(plain[1]) != nodes:
        return Sizes(int(plain[1]), nodes)
    if nodes:
        return Sizes(nodes=nodes)
    if plain and re.fullmatch(r"\d+\s*(?:\(.*\)|[a-z*†‡ ]*)?", low, re.I):
        return Sizes(int(plain[1]))
    return None


def ids(cells: list[str]) -> list[int] | None:
    """How many devices each cell lists, as "0,1,2"; None where the cells are no lists that begin at several."""
    if not cells or not all(_IDS.fullmatch(cell) for cell in cells) or not any("," in cell for cell in cells):
        return None
    lists = [re.findall(r"\d+", cell) for cell in cells]
    if any(len({*one}) < len(one) for one in lists):
        return None
    return [len(one) for one in lists]
