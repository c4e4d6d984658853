"""Analysis of measurements: published and local numbers in one tidy table, and the results from it."""

from pathlib import Path

from common.installed import require

require("pandas")

PUBLISHED = Path(__file__).parent / "published"  # the numbers that the reports print


class TableError(ValueError):
    """A table that cannot be trusted: names file, column and row, the given value and the allowed ones."""
