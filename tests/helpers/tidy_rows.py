"""Rows of the tidy table, for tests with hand-computed results."""

import pandas as pd

from analysis.table import tidy_columns


def row(quantity: str, value: float, ranks: int | None = None, batch: int | None = 64, **columns: object) -> dict:
    """Return the row of one number of a made-up report. `columns` replaces default values."""
    definition = tidy_columns.quantity(quantity)
    assert definition is not None
    return {
        "source": "published",
        "report": "001",
        "place": "figure 1",
        "experiment": "weak_scaling",
        "run": "",
        "model": "resnet50",
        "dataset": "imagenet",
        "device": "gpu",
        "gpu": "P100",
        "machine": "lab",
        "nodes": None,
        "ranks_per_node": None,
        "threads_per_rank": None,
        "ranks": ranks,
        "batch_per_rank": batch,
        "global_batch": ranks * batch if ranks and batch else None,
        "repeat": None,
        "quantity": quantity,
        "value": value,
        "unit": definition.unit,
        "kind": "measured",
        "note": "",
    } | columns


def table(*rows: dict) -> pd.DataFrame:
    """Return the rows as a checked tidy table."""
    return tidy_columns.check(pd.DataFrame(rows, dtype=object), "made up")


def curve(quantity: str, values: dict[int, float], **columns: object) -> list[dict]:
    """Return a row for each number of ranks in `values`."""
    return [row(quantity, value, ranks, **columns) for ranks, value in values.items()]
