"""What the measurements showed: published and local numbers as one tidy table, and all that is made from it."""

from pathlib import Path

PUBLISHED = Path(__file__).parent / "published"  # the numbers that the reports print


class TableError(ValueError):
    """A table that cannot be trusted: names the file, the column and the row, what was given and what is allowed."""
