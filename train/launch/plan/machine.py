"""This machine, as far as plans depend on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """What nodes that share this machine can be given."""

    cores: int
    no_quotas: str | None = None  # why nodes cannot be limited to CPU quotas here; None where they can
