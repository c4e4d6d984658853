"""Rows of the tidy table put together: configurations, curves, and words for them."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

# `run` of the rows that a report copied from; they are compared with, not audited themselves.
SOURCE_RUN = "primary source"

# What all points of a scaling curve share, and what may differ along it. Own points also share `series`.
SETTING = ["source", "report", "model", "dataset", "device", "gpu", "machine", "threads_per_rank"]
SIZE = ["nodes", "ranks_per_node", "ranks", "batch_per_rank", "global_batch"]
Row = Mapping[Hashable, Any]


def measured(table: pd.DataFrame, *quantities: str) -> pd.DataFrame:
    """The measured rows of these quantities, without those of a primary source."""
    return table[table["kind"].eq("measured") & table["quantity"].isin(quantities) & table["run"].ne(SOURCE_RUN)]


def lookup(rows: pd.DataFrame, names: Sequence[str] = (*SETTING, *SIZE)) -> Callable[[Row], list[Row]]:
    """A function from a row to those of `rows` that agree with it in all of `names`; by default one configuration."""

    def key(row: Row) -> tuple[Any, ...]:
        return tuple(None if pd.isna(row[name]) else row[name] for name in names)

    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows.to_dict("records"):
        found[key(row)].append(row)
    return lambda row: found.get(key(row), [])


def report_of(row: Row) -> str:
    """The report's number, or "own"."""
    return row["report"] or "own"


def called(row: Row) -> str:
    """A point in words: what tells it apart from others of its table."""
    words = [row["model"], row["dataset"], row["gpu"]]
    if not pd.isna(row["batch_per_rank"]):
        words.append(f"batch {row['batch_per_rank']}")
    if not pd.isna(row["ranks"]):
        words.append(ranks(row["ranks"]))
    return ", ".join(dict.fromkeys(word for word in words if word))


def ranks(number: float) -> str:
    """A number of ranks in words."""
    return f"{number:g} rank{'s' * (number != 1)}"


def at(row: Row) -> str:
    """Where a row stands, and what it is."""
    return f"{row['place']}: {called(row)}"


def configurations(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The rows of each configuration that was measured in one table: same machine, model, data, batch and ranks."""
    key = [*SETTING, *SIZE, *(["series"] if "series" in table else [])]
    for _, rows in table.groupby(key, dropna=False, sort=False):
        yield rows


def curves(table: pd.DataFrame, *quantities: str) -> Iterator[pd.DataFrame]:
    """The rows of each scaling curve, by ranks: what differs along it is the ranks, and what follows from them.

    Repeats are averaged; a curve has two points or more. Published points of one curve share the experiment and the
    batch per rank (strong scaling: the global batch); own points share `series`.
    """
    rows = measured(table, *quantities)
    rows = rows[rows["ranks"].notna() & rows["value"].gt(0)]
    if rows.empty:
        return
    strong = rows["experiment"].eq("strong_scaling")
    rows = rows.assign(kept=rows["batch_per_rank"].where(~strong, rows["global_batch"]))
    key = [*SETTING, "experiment", "quantity", "kept", *(["series"] if "series" in rows else [])]
    rows["value"] = rows.groupby([*key, "ranks"], dropna=False, sort=False)["value"].transform("mean")
    rows = rows.drop_duplicates([*key, "ranks"]).sort_values("ranks", kind="stable")
    several = rows.groupby(key, dropna=False, sort=False)["ranks"].transform("size").gt(1)
    for _, curve in rows[several].groupby(key, dropna=False, sort=False):
        yield curve.reset_index(drop=True)


def printed_half_unit(value: float) -> float:
    """Half a unit of the last digit that `value` is printed with: 0.05 for 7.2, 0.5 for 7."""
    text = repr(float(value))
    digits = 0 if text.endswith(".0") else len(text.partition(".")[2])
    return 0.5 * 10.0**-digits
