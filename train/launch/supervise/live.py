"""What a launch in rounds has measured so far, for the screen: from what rank 0 has left in the run folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from train.config.schema import Config
from train.record import intervals, protocol, rounds
from train.record.parts import read_part

_EVERY_S = 10.0  # reading takes time from the ranks that share the machine


def speedups(folder: Path, config: Config) -> str:
    """The round, and each speedup so far with its interval, as the first rank of each world saw it; "" without any."""
    # A world's first rank waits for its other ranks at the end of each window: its time is theirs.
    firsts = [world.first_rank for world in config.worlds] or [0]
    paths = [path for rank in firsts for path in protocol.part_paths(folder, rank)]
    arms = [rounds.Arm(1, arm.ranks * arm.batch_per_rank) for arm in config.rounds]
    measured = rounds.rates(arms, [read_part(path).windows for path in paths])
    if not measured:
        return ""
    said = [_words(measured, place, arm.name) for place, arm in enumerate(config.rounds) if place and arm.allreduce]
    return f"round {len(measured)}: {', '.join(said)}"


def _words(measured: rounds.Rates, place: int, name: str) -> str:
    found = intervals.of_median(rounds.ratios(measured, place))
    return f"{name} {found.value:.3g}x ({found.low:.3g} to {found.high:.3g})" if found else name


def teller(folder: Path, config: Config, tell: Callable[[str], None]) -> Callable[[], None]:
    """A function to call while the job runs: now and then it tells the speedups so far. It does nothing for a point."""
    told_at = time.monotonic()

    def look() -> None:
        nonlocal told_at
        if config.rounds and time.monotonic() - told_at > _EVERY_S:
            told_at = time.monotonic()
            tell(speedups(folder, config))

    return look
