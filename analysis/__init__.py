"""What the measurements showed: the reports' numbers and one's own, as one tidy table, and all that is made from it."""


class TableError(ValueError):
    """A table that cannot be trusted: names the file, the column and the row, what was given, what is allowed."""
