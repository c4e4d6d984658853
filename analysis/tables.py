"""The tidy table of what the reports printed, and of one's own records."""

from pathlib import Path

import pandas as pd

from analysis import schema

PUBLISHED = Path(__file__).with_name("published")


def published(folder: Path = PUBLISHED) -> pd.DataFrame:
    """Every number that the five reports state, as the tidy table of `analysis.schema`.

    Raises schema.TableError naming the file, the line and what is wrong with it.
    """
    parts = [schema.read_csv(path, schema.COLUMNS) for path in sorted(folder.glob("*.csv"))]
    return schema.check(pd.concat(parts, ignore_index=True), str(folder))
