"""What is measured, and how: a section of the configuration, and what a launcher adds to it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from record.recorded_config import RankGroup, RoundArm
from train.config.checks import Rule, allow


@dataclass(frozen=True)
class MeasureConfig:
    """The measurement protocol: the steps of a launch, and the number of launches."""

    name: str
    warm_up_steps: int = field(metadata=allow(minimum=0))  # after the first step, before the timed ones
    timed_steps: int = field(metadata=allow(minimum=1))
    repeats: int = field(metadata=allow(minimum=1))  # independent launches of each point or curve
    batch_per_rank: int  # default of experiments that keep the batch per rank
    global_batch: int  # default of experiments that keep the global batch
    total_steps: int | None = None  # divided among the ranks: timed_steps = this // ranks
    epochs: int = field(default=0, metadata=allow(minimum=0))  # above 0: train for this many, without timed_steps
    # Between two samples of a rank's CPU, memory and GPU use.
    usage_period_s: float | None = field(default=1.0, metadata=allow(minimum=0.1, unit="s", null="no samples"))

    # rounds: all points of a curve in one launch, if possible; launches: each point in separate launches.
    design: str = field(default="rounds", metadata=allow(names=("rounds", "launches")))
    # Launches end when half the width of the 99 % interval of each speedup is at most this fraction of it.
    precision_fraction: float = field(default=0.05, metadata=allow(above=0, below=1))
    # The time of a command that measures curves in rounds, with all its launches.
    budget_s: float | None = field(
        default=None, metadata=allow(above=0, unit="s", null="curve_budget_s for each curve")
    )
    curve_budget_s: float = field(default=160.0, metadata=allow(above=0, unit="s"))
    # The smaller points of a curve over nodes also have separate launches, for the wall time of a job.
    separate_launches: bool = False
    # The numbers of nodes with a control without allreduce: the largest, all, or none.
    controls: str = field(default="largest", metadata=allow(names=("largest", "all", "none")))
    # Rounds also measure the parts of a step: each point's exchange alone, and each point with its batch in memory.
    split: bool = False
    # The arms compete (plan/competing_arms.py): those that are significantly slower are not launched again.
    compete: bool = False


@dataclass(frozen=True)
class AllreduceSweep:
    """Allreduces to time instead of training steps: message sizes that double from the smallest to the largest."""

    smallest_bytes: int
    largest_bytes: int
    rounds: int = field(metadata=allow(minimum=1))  # each has all sizes, in a new random order
    warm_up: int = field(metadata=allow(minimum=1))  # allreduces of each size before its first timed ones
    max_timed: int  # timed allreduces of each size, in all rounds
    min_timed: int = field(metadata=allow(minimum=1))  # the number if more would take longer than time_per_size_s
    time_per_size_s: float = field(metadata=allow(above=0, unit="s"))
    probe_s: float = field(metadata=allow(above=0, unit="s"))  # to measure each limit of the link and of the memory

    def rules(self) -> Iterator[Rule]:
        """Yield that sizes are powers of two, and that no minimum is above its maximum."""
        for key in ("smallest_bytes", "largest_bytes"):
            size = getattr(self, key)
            yield size >= 32 and size.bit_count() == 1, key, "must be a power of two, 32 bytes or more"
        for smaller, larger in (("smallest_bytes", "largest_bytes"), ("min_timed", "max_timed")):
            limit = getattr(self, larger)
            yield getattr(self, smaller) <= limit, smaller, f"must not be above {larger}={limit}"

    @property
    def sizes_bytes(self) -> list[int]:
        """Return the message sizes, ascending."""
        return [1 << k for k in range(self.smallest_bytes.bit_length() - 1, self.largest_bytes.bit_length())]

    def rules_with(self, run: Any) -> Iterator[Rule]:
        """Yield that there are ranks of Horovod that exchange."""
        yield run.ranks >= 2, "nodes", "an allreduce needs 2 ranks or more"
        why = "an allreduce sweep needs backend=horovod and allreduce=true"
        yield run.distribution.backend == "horovod", "distribution.backend", why
        yield run.distribution.allreduce, "distribution.allreduce", why


class LaunchPlan(msgspec.Struct, frozen=True):
    """The additions of the launcher to the configuration of a launch that measures several points in rounds."""

    rounds: tuple[RoundArm, ...] = ()  # the base of the speedups first; empty: the launch is one point
    rank_groups: tuple[RankGroup, ...] = ()  # empty: all ranks are joined
    # The rank groups measure at the same time, on separate cores that they swap; else one after the other.
    rank_groups_at_once: bool = False
    # Horovod joins the ranks of one arm at a time: in each cycle, ranks that wait would use their nodes' quotas.
    join_in_turn: bool = False
    rounds_end_s: float = 0.0  # after the start of the launch: the launcher divides the budget
