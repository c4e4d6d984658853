"""The meaning of each column of a table, each quantity once; or the question which column is which."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from analysis.user_table import headers, numbers, units
from analysis.user_table.answers import Question, offers
from analysis.user_table.headers import AWKWARD, KIND, MEASURED, RATES, SCOPED, UNKNOWN, UNUSED, Column, plain
from analysis.user_table.units import PLAIN

_NAMES: dict[str, Sequence[str]] = {  # that a column may have, by the kind of its unit
    "time": ("wall_s", "step_s", "epoch_s", "job_s"), "rate": (RATES[2], *RATES[:2]),
    "ratio": ("speedup", "efficiency"), "share": ("efficiency", "speedup"),
    "": (RATES[2], RATES[0], "wall_s", "step_s", "epoch_s", "speedup", "efficiency"),
}  # fmt: skip
_LIKELY = re.compile(
    r"time|sec|elapsed|duration|latency|rate|throughput|speed|perf|flop|mean|average|median|ms\b|_s\b|/", re.I
)
_PARTS = 11  # of a header that a pattern may have on each side: words and blanks, else words, numbers and marks


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
        if name != UNKNOWN and name in (*MEASURED, *headers.SIZES, "batch", "scaling"):
            if len({(column.cells, column.unit) for column in same}) > 1:
                raise which(name, same)
            columns = [column for column in columns if column.name != name or column is same[0]]
    _ask_count(columns)
    unknown = [column for column in columns if column.name == UNKNOWN]
    if any(column.by_user for column in unknown) or not any(c.name in MEASURED and c not in unknown for c in columns):
        raise _unmeasured(columns)
    return [column.named("other") if column in unknown else column for column in columns]


def _quantity(column: Column) -> str:
    """Return the size or measured quantity that a column is, all rates as one; "" if it is none."""
    sizes = (*MEASURED, *headers.SIZES)
    return "rate" if column.name in RATES else column.name if column.name in sizes else ""


def which(name: str, same: Sequence[Column]) -> Question:
    """Return the question which of several columns is a quantity, or whether each is a curve."""
    names = (UNKNOWN,) if KIND.get(name) == "rate" else SCOPED.get(name, (name,))
    text = f"several columns are {SCOPED.get(name, (name,))[0]}: {_texts(same)}"
    return Question(text, offers([*_patterns(same), *(column.key for column in same)], names))


def _texts(columns: Sequence[Column]) -> str:
    return ", ".join(repr(column.text) for column in columns if column.text)


def _patterns(columns: Sequence[Column]) -> list[str]:
    """Return the patterns with "*" of columns of one unit whose headers begin or end alike.

    Of patterns of the same columns the longest counts.
    """
    alike: dict[tuple[object, ...], list[Column]] = {}
    for column in columns:
        parts = re.findall(r"\S+|\s+" if " " in column.text else r"\d+|[^\W\d_]+|[\W_]+", column.text)
        for before, after in itertools.product(range(min(len(parts), _PARTS)), repeat=2):
            if 0 < before + after < len(parts):
                pattern = "*".join(("".join(parts[:before]), "".join(parts[len(parts) - after :])))
                alike.setdefault((pattern, column.unit, numbers.kinds(column.cells)), []).append(column)
    longest: dict[tuple[int, ...], str] = {}
    for key, same in sorted(alike.items(), key=lambda item: len(str(item[0][0]))):
        if same[1:] and re.search(r"\w", text := str(key[0])) and not AWKWARD.search(text.replace("*", "", 1)):
            longest[tuple(column.number for column in same)] = text
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
            raise Question(text, [*offers([c.key for c in counting], ("ranks", "ranks_per_node", "setting")), none])
    elif not ranks.by_user and nodes.varies and not (ranks.varies and _holds(ranks, nodes)):
        text = f"'{ranks.text}' is {ranks.cells[0]} at {nodes.cells[0]} nodes: of each node, or of all?"
        raise Question(text, offers([ranks.key], ("ranks_per_node", "ranks")))


def _holds(counts: Column, nodes: Column) -> bool:
    """Return whether a column counts as many as nodes, or more, in each row."""
    values = zip(map(numbers.value, counts.cells), map(numbers.value, nodes.cells), strict=True)
    return not any(count < node for count, node in values)


def _no_ranks(columns: Sequence[Column]) -> Question:
    """Return the question for a table without numbers of ranks: are they across, or in a column that may count?

    Columns that count up come first.
    """
    counting = [column for column in columns if column.key and column.counting and _may_count(column)]
    counting.sort(key=_rises, reverse=True)
    across = [c for c in columns if c.name in ("", *MEASURED) and c.numeric and re.search(r"\d", c.text)]
    keys = [key for key in _patterns(across) if not re.search(r"[-.]\*", key)]  # "1.*", "1E-*" divide numbers
    keys += ["cells"] * (sum(column.text.isdigit() for column in across) > 1)
    answers = offers([column.key for column in counting], ("ranks",)) + offers(keys, (UNKNOWN,))
    what = "ranks (whole numbers of GPUs, workers, processes, or nodes and GPUs per node)"
    return Question(f"no column of {what} among {_texts(columns)[:300]}", answers)


def _rises(column: Column) -> bool:
    values = [numbers.value(numbers.counted(cell)[0]) for cell in column.filled]
    return values == sorted(set(values))


def _falls(column: Column, columns: Sequence[Column]) -> bool:
    """Return whether a column is less on the most ranks than on the fewest, as times are."""
    counts = next(c for c in columns if c.name in ("ranks", "nodes"))
    points = sorted(zip(map(numbers.value, counts.cells), map(numbers.value, column.cells), strict=True))
    return points[-1][1] < points[0][1]


def _may_count(column: Column) -> bool:
    """Return whether a column that counts is not known to be something else; "4 GPUs" count below any header."""
    bare = all(map(str.isdigit, column.filled)) and len(column.text) != 1
    return column.name == "" or (column.name in ("setting", *headers.TEXT) and not bare)


def _unmeasured(columns: Sequence[Column]) -> Question:
    """Return the question which unknown column was measured, or what the one is that was."""
    numeric = (c for c in columns if c.name == "" and numbers.share(c.cells[: numbers.FEW]) > 0.5 and c.varies)
    unknown = [column for column in columns if column.name == UNKNOWN][:1] or [*numeric]
    if len(unknown) == 1:
        (column,) = unknown
        hint = units.read_unit(column.text) or PLAIN  # "seconds": perhaps
        kinds = (*sorted(numbers.kinds(column.cells)), column.unit.kind, hint.kind, "")
        names = [*dict.fromkeys(name for kind in kinds for name in _NAMES.get(kind, ()))]
        if {*kinds} == {""} and _falls(column, columns):
            names.sort(key=lambda name: KIND[name] != "time")
        minutes = ["wall_s min"] * plain(column.text).endswith("min")
        return Question(f"what was measured in '{column.text}'?", offers([column.key], [*names, *minutes]))
    keys = [*_patterns(unknown), *["cells"] * bool(unknown), *(column.key for column in unknown)]
    keys.sort(key=lambda key: not _LIKELY.search(key))
    text = f"no column of a known rate, time, speedup or efficiency among {_texts(columns)[:300]}"
    return Question(text, offers(keys, (UNKNOWN,)))
