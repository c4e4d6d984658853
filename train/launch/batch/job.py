"""One job of a batch system. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from train.config.schema import System


@dataclass(frozen=True)
class BatchJob:
    """One job to submit: what it needs of the batch system, and what it runs."""

    name: str
    nodes: int
    ranks_per_node: int
    cores_per_rank: int
    gpus_per_node: int
    limit_s: int
    folder: Path  # of its script and its log
    system: System
    command: tuple[str, ...]  # the launcher, with the overrides of the user


def clock(seconds: int) -> str:
    """A time as batch systems take it: 5400 -> 01:30:00."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
