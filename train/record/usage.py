"""What ranks used of their cores, memory and GPUs over time: shares and means from the samples in a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

from train.record.record import Usage

# s since the launch of the job, CPU time in s, resident bytes, GPU busy fraction, bytes of GPU memory
Sample = tuple[float, float, int, float | None, int | None]


def of(samples: Sequence[Sample]) -> Usage | None:
    """The samples of one rank as columns; None without any."""
    return Usage(*(list(column) for column in zip(*samples, strict=True))) if samples else None


def cpu_fractions(usage: Usage, cores: int) -> list[float]:
    """The share of its cores that a rank used between each sample and the one before; the first has none."""
    return [
        (usage.cpu_s[i] - usage.cpu_s[i - 1]) / (usage.at_s[i] - usage.at_s[i - 1]) / cores
        for i in range(1, len(usage.at_s))
    ]


@dataclass(frozen=True)
class Use:
    """One second of a job: means over its ranks. None where no rank knows."""

    time_s: int  # since the launch of the job, the second's begin
    cpu_use_fraction: float  # of the cores that a rank is bound to
    memory_bytes: float  # of a rank, resident
    gpu_use_fraction: float | None  # of the time, in which a kernel ran
    gpu_memory_bytes: float | None


class User(Protocol):
    """A rank: of a record, or one that still runs."""

    @property
    def cores(self) -> Sequence[int]:
        """That it is bound to."""

    @property
    def usage(self) -> Usage | None:
        """What it used; None where that was not sampled."""


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def over_time(ranks: Sequence[User]) -> list[Use]:
    """The use of each second in which samples were taken, ascending; empty where none were."""
    seconds: dict[int, list[tuple[float, int, float | None, int | None]]] = {}
    for rank in ranks:
        if used := rank.usage:
            memory, gpu, gpu_memory = used.memory_bytes[1:], used.gpu_fraction[1:], used.gpu_memory_bytes[1:]
            samples = zip(cpu_fractions(used, len(rank.cores)), memory, gpu, gpu_memory, strict=True)
            for at_s, sample in zip(used.at_s[1:], samples, strict=True):
                seconds.setdefault(int(at_s), []).append(sample)
    return [
        Use(time_s, fmean(cpu), fmean(memory), _mean(gpu), _mean(gpu_memory))
        for time_s, in_second in sorted(seconds.items())
        for cpu, memory, gpu, gpu_memory in [zip(*in_second, strict=True)]
    ]


def summary(ranks: Sequence[User]) -> dict[str, float]:
    """For people: means over the time that was sampled, and over the ranks; empty without samples."""
    uses = over_time(ranks)
    means = {
        "cpu_use_fraction": _mean([use.cpu_use_fraction for use in uses]),
        "gpu_use_fraction": _mean([use.gpu_use_fraction for use in uses]),
    }
    return {name: mean for name, mean in means.items() if mean is not None}
