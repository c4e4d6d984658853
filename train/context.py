"""The context of one rank's work, for training and for allreduce sweeps."""

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
    """One rank of a job whose ranks have joined."""

    config: RunConfig  # of this rank's group
    distribution: Distribution  # the ranks of its group
    all_ranks: AllRanks  # all ranks of the job: the same object, but in rounds
    clock: PhaseClock
    part: PartWriter  # takes what the rank measures, as it comes
    core_sets: Sequence[Sequence[int]]  # this rank's cores; of rank groups that swap cores then the others'
    gate: QuotaGate
    meter: Meter  # of the energy that it is to count
    repeat: int  # which launch of this configuration it is: the order of rounds is drawn from it and from the seed
    folder: Path | None  # of the run, where a launcher made it
    checkpoints: Path | None  # the folder to keep them in; None: none are kept
    key: Callable[[], bytes]  # gives the secret of the job, by which its processes know each other
    hold_roll_call: Callable[[], None]  # elastic training calls it whenever the ranks have changed
