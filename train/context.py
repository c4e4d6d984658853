"""What the work of one rank has in common: handed on as one object to training and to allreduce sweeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from train.config.schema import RunConfig
from train.distribution.base import Distribution
from train.rank.energy import Meter
from train.rank.phases import PhaseClock
from train.rank.quota_gate import QuotaGate
from train.record.parts import PartWriter
from train.transport.tcp_group import AllRanks


@dataclass(frozen=True)
class Context:
    """One rank of a job whose ranks have met."""

    config: RunConfig  # of this rank's world
    distribution: Distribution  # the ranks of its world
    everyone: AllRanks  # all ranks of the job: the same object, but in rounds
    clock: PhaseClock
    part: PartWriter  # takes what the rank measures, as it comes
    places: Sequence[
        Sequence[int]
    ]  # the cores of this rank; of worlds that swap cores: in each of their places in turn
    gate: QuotaGate
    meter: Meter  # of the energy that it is to count
    repeat: int  # which launch of this configuration it is: the order of rounds is drawn from it and from the seed
    folder: Path | None  # of the run, where a launcher made it
    checkpoints: Path | None  # the folder to keep them in; None: none are kept
    key: Callable[[], bytes]  # gives the secret of the job, by which its processes know each other
    introduce: Callable[[], None]  # holds the roll call; elastic training calls it whenever the ranks have changed
