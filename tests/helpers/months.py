"""Studies that a site measures again every month, as `FORCE=1` leaves them: weak scaling, and allreduce alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.helpers.own_records import as_sweep, make_record, make_rounds, save

STEP_S = {1: 0.5, 2: 0.6}  # of one node, of two: 16 and 26.667 images/s
ALLREDUCE_S = {1024: 0.02, 2**20: 0.01}  # 1 MiB on two ranks in 10 ms: a bus bandwidth of 104.9 MB/s
_STEPS = ("warm_up", "timed")  # the phases that are sums of steps
_SCATTER = (1.0, 1.004, 0.996, 1.002, 0.998, 1.006)


def month(
    results: Path,
    generation: int,
    slower: float = 1.0,
    launches: int = 3,
    nodes: Sequence[int] = (1, 2),
    commit: str = "a" * 40,
    imports: float = 1.0,
    **more: object,
) -> None:
    """Save the launches of one month, each phase `slower` times as long; the nth generation is the nth month.

    The wall time is 9.4 s on one node and 10 s on two, the job time 16 s and 16.6 s, all x `slower` x scatter.
    imports: how many times as long the import of TensorFlow, of 3 s, takes beside that.
    """
    for repeat in range(launches):
        for number in nodes:
            factor = slower * _SCATTER[(repeat + number) % len(_SCATTER)]
            run = make_record(
                nodes=number,
                step_s=STEP_S[number] * factor,
                repeat=repeat,
                generation=generation,
                **more,  # type: ignore[arg-type]
            )
            for rank in run.ranks:
                rank.phases_s |= {name: s * factor for name, s in rank.phases_s.items() if name not in _STEPS}
                rank.phases_s["import"] *= imports
            run.started_at = f"2026-{generation + 1:02d}-03T12:{repeat:02d}:{number:02d}Z"
            assert run.environment
            run.environment.git_commit = commit
            save(run, results)


def month_of_allreduce(results: Path, generation: int, slower: dict[int, float] | None = None) -> None:
    """Save three launches of one month; `slower`: how many times as long messages of a size take."""
    for repeat in range(3):
        swept = {"distribution.controller": "gloo", "distribution.cycle_time_ms": 20, "nodes": 2}
        run = make_record("allreduce_bench", nodes=2, repeat=repeat, generation=generation, swept=swept)
        run.config["distribution"]["cycle_time_ms"] = 20
        of_size = {size: s * _SCATTER[repeat] * (slower or {}).get(size, 1.0) for size, s in ALLREDUCE_S.items()}
        run = as_sweep(run, {size: [[time_s] * 5] * 2 for size, time_s in of_size.items()})
        run.started_at = f"2026-{generation + 1:02d}-03T12:{repeat:02d}:00Z"
        save(run, results)


def month_in_rounds(results: Path, generation: int, slower: float = 1.0, speedup: float = 1.5) -> None:
    """Save one launch in rounds of one month."""
    alone = [0.5 * slower * (1 + 0.001 * (turn % 5)) for turn in range(6)]
    run = make_rounds([(one, 2 * one / speedup, 2 * one / 1.9) for one in alone], generation=generation)
    run.started_at = f"2026-{generation + 1:02d}-03T12:00:00Z"
    save(run, results)
