"""A weak scaling study that a site measures again every month, as `FORCE=1` leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.helpers.own_records import make_record, make_rounds, save

STEP_S = {1: 0.5, 2: 0.6}  # of one node, of two: 16 and 26.667 images/s
_SCATTER = (1.0, 1.004, 0.996, 1.002, 0.998, 1.006)


def month(
    results: Path,
    generation: int,
    slower: float = 1.0,
    launches: int = 3,
    nodes: Sequence[int] = (1, 2),
    commit: str = "a" * 40,
    **more: object,
) -> None:
    """Save the launches of one month, each step `slower` times as long; the nth generation is the nth month."""
    for repeat in range(launches):
        for number in nodes:
            step_s = STEP_S[number] * slower * _SCATTER[(repeat + number) % len(_SCATTER)]
            run = make_record(nodes=number, step_s=step_s, repeat=repeat, generation=generation, **more)  # type: ignore[arg-type]
            run.started_at = f"2026-{generation + 1:02d}-03T12:{repeat:02d}:{number:02d}Z"
            assert run.environment
            run.environment.git_commit = commit
            save(run, results)


def month_in_rounds(results: Path, generation: int, slower: float = 1.0, speedup: float = 1.5) -> None:
    """Save one launch in rounds of one month."""
    alone = [0.5 * slower * (1 + 0.001 * (turn % 5)) for turn in range(6)]
    run = make_rounds([(one, 2 * one / speedup, 2 * one / 1.9) for one in alone], generation=generation)
    run.started_at = f"2026-{generation + 1:02d}-03T12:00:00Z"
    save(run, results)
