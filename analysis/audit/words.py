"""Points of the tidy table in words, for findings."""

import pandas as pd

from analysis.curves import Row, ranks_in_words


def called(row: Row) -> str:
    """A point in words: what tells it apart from others of its table."""
    words = [row["model"], row["dataset"], row["gpu"]]
    if not pd.isna(row["batch_per_rank"]):
        words.append(f"batch {row['batch_per_rank']}")
    if not pd.isna(row["ranks"]):
        words.append(ranks_in_words(row["ranks"]))
    return ", ".join(dict.fromkeys(word for word in words if word))


def at(row: Row) -> str:
    """The place of a row, and the point that it is of."""
    return f"{row['place']}: {called(row)}"
