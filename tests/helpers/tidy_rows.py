"""Rows of the tidy table, for rules worked out by hand."""

import pandas as pd

from analysis.table import schema


def row(quantity: str, value: float, ranks: int | None = None, batch: int | None = 64, **other: object) -> dict:
    """One number of a made-up report; what is not given is the same in every row."""
    known = schema.quantity(quantity)
    assert known is not None
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
        "unit": known.unit,
        "kind": "measured",
        "note": "",
    } | other


def table(*rows: dict) -> pd.DataFrame:
    """The rows as a checked tidy table."""
    return schema.check(pd.DataFrame(rows, dtype=object), "made up")


def curve(quantity: str, values: dict[int, float], **other: object) -> list[dict]:
    """One row a number of ranks."""
    return [row(quantity, value, ranks, **other) for ranks, value in values.items()]
