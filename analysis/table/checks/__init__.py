"""Checks of a record against itself, and of records against each other: what contradicts itself is not trusted."""
