"""Configurations that no override can compose."""

from dataclasses import replace
from typing import Any

from record.recorded_config import RoundArm


def with_values(section: Any, values: dict[str, Any]) -> Any:
    """Return a configuration, or a section of one, with new values by dotted key. They are validated."""
    parts: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        name, _, rest = key.partition(".")
        parts.setdefault(name, {})[rest] = value
    return replace(
        section,
        **{name: part[""] if "" in part else with_values(getattr(section, name), part) for name, part in parts.items()},
    )


def arm(ranks: int = 1, name: str = "", batch_per_rank: int = 2, **changes: Any) -> RoundArm:
    """Return an arm of so many nodes with a rank each."""
    return RoundArm(name, ranks, ranks, batch_per_rank, **changes)
