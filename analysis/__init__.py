"""What the measurements showed: published and local numbers as one tidy table, and all that is made from it."""


class TableError(ValueError):
    """A table that cannot be trusted: names the file, the column and the row, what was given and what is allowed."""
