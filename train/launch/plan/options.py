"""What the user asks of `python -m train.launch`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """The command line."""

    overrides: tuple[str, ...] = ()
    dry_run: bool = False  # print what would be started
    force: bool = False  # measure again what is measured
    only: str | None = None  # these points alone, by their names, separated by commas
