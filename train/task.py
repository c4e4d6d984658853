"""The task of a rank, and its context when the ranks have joined.

A launcher assigns the task, or it is composed from the overrides of a rank that was started by hand.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.terminal import show
from record import protocol
from record.parts import PartWriter
from train.config.checks import ConfigError
from train.config.identity import rebuild
from train.config.results import check_results
from train.config.run_config import RunConfig
from train.distribution import Distribution
from train.rank import roll_call
from train.rank.counters import Meter
from train.rank.phases import PhaseClock
from train.rank.quota_gate import QuotaGate
from train.transport.tcp_group import AllRanks


@dataclass(frozen=True)
class Task:
    """One rank's task."""

    config: RunConfig
    expected: roll_call.Expected
    folder: Path | None = None  # of the run; None without a launcher
    repeat: int = 0  # number of the launch of this configuration
    quotas: bool = False  # the launcher limits the nodes to CPU quotas while they measure
    rounds: protocol.RoundsTask = field(default_factory=protocol.RoundsTask)
    sweep: Sequence[str] = ()  # the keys that the experiment sweeps, of a rank that was started by hand


@dataclass(frozen=True)
class Context:
    """One rank of a job whose ranks have joined."""

    config: RunConfig  # of this rank's group
    distribution: Distribution  # the ranks of its group
    all_ranks: AllRanks  # all ranks of the job: the same object, except in rounds
    clock: PhaseClock
    part: PartWriter  # takes the rank's measurements
    core_sets: Sequence[Sequence[int]]  # this rank's cores; if rank groups swap cores, then those of the others
    gate: QuotaGate
    meter: Meter  # reads its energy counters
    repeat: int  # number of the launch of this configuration: it and the seed determine the order of rounds
    rounds: protocol.RoundsTask
    folder: Path | None  # of the run; None without a launcher
    checkpoints: Path | None  # their folder; None: without checkpoints
    key: Callable[[], bytes]  # returns the secret of the job, by which its processes authenticate each other


def assigned(folder: Path) -> Task:
    """Return the task that a launcher has written into the run folder.

    Raises ConfigError if this host's code cannot read it, OSError if the file does not exist.
    """
    assignment = protocol.read_assignment(folder)
    config = rebuild(assignment.config)
    expected = roll_call.Expected(
        hosts=config.all_nodes if assignment.hosts_apart else 1,
        config_hash=assignment.config_hash,
        launcher=roll_call.Details(assignment.config, assignment.source),
        conf=assignment.conf,
    )
    return Task(config, expected, folder, assignment.repeat, assignment.quotas, assignment.rounds)


def composed(overrides: Sequence[str]) -> Task:
    """Return the task that these overrides describe. Raises ConfigError."""
    from train.config import compose  # loads Hydra, which a rank with a launcher does not need

    composed = compose.compose_config(overrides)
    config, experiment = compose.run_config(composed), compose.experiment_config(composed)
    if not config.launcher.by_hand:
        raise ConfigError(
            f"launcher={config.launcher.name}: it needs `python -m train.launch`; by hand use launcher=local"
        )
    if config.distribution.timeline:
        raise ConfigError("distribution.timeline=true: needs a launcher, which keeps the file: make timeline")
    for warning in check_results(Path(config.results), config.system.trust_others):
        show(f"warning: {warning}", file=sys.stderr)
    expected = roll_call.Expected(hosts=roll_call.hosts_of_step(config, os.environ))
    return Task(config, expected, sweep=tuple(experiment.sweep))
