"""A sweep over sizes of allreduces: a section of the configuration."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from train.config.checks import Rule, allow


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
