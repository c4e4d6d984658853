"""The summary of a record for people, and its inputs: throughput, and the use of cores, memory and GPUs.

The analysis never reads the summary; W&B's list of runs shows it too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import fmean
from typing import Protocol

from record.schema import RunRecord, Usage

# s since the launch of the job, CPU time in s, resident bytes, GPU busy fraction, bytes of GPU memory
Sample = tuple[float, float, int, float | None, int | None]

MOST_SAMPLES = 200_000  # samples in a record: 6 MiB; an hour of 1,024 ranks has 3.7 million


def usage_columns(samples: Sequence[Sample]) -> Usage | None:
    """Return the samples of one rank as columns; None without any."""
    return Usage(*(list(column) for column in zip(*samples, strict=True))) if samples else None


def thinned_usage(usages: Sequence[Usage | None], max_samples: int = MOST_SAMPLES) -> list[Usage | None]:
    """Return the samples of all ranks of a job; of more than `max_samples`, only the first in each span of time.

    All ranks sample together (train/rank/sampler.py), so the remaining samples are of the same seconds too. CPU time
    counts from the begin of a rank: the share between two samples is still that of all the time between them.
    """
    sampled = [usage for usage in usages if usage]
    if sum(len(usage.at_s) for usage in sampled) <= max_samples:
        return list(usages)
    begin_s, end_s = min(usage.at_s[0] for usage in sampled), max(usage.at_s[-1] for usage in sampled)
    per_rank = max(2, max_samples // len(sampled))
    span_s = math.ceil((end_s - begin_s) / (per_rank - 1))
    return [_first_in_each(usage, span_s) if usage else None for usage in usages]


def _first_in_each(usage: Usage, span_s: int) -> Usage:
    spans = [at_s // span_s for at_s in usage.at_s]
    first = [i for i, span in enumerate(spans) if i == 0 or span != spans[i - 1]]
    columns = (getattr(usage, column.name) for column in fields(Usage))
    return Usage(*([column[i] for i in first] for column in columns))


def cpu_fractions(usage: Usage, cores: int) -> list[float]:
    """Return the share of its cores that a rank used between each sample and the one before; the first has none."""
    return [
        (usage.cpu_s[i] - usage.cpu_s[i - 1]) / (usage.at_s[i] - usage.at_s[i - 1]) / cores
        for i in range(1, len(usage.at_s))
    ]


@dataclass(frozen=True)
class UsageSecond:
    """The usage in one second of a job: means over its ranks. None if no rank has the value."""

    time_s: int  # since the launch of the job, the second's begin
    cpu_use_fraction: float  # of the cores that a rank is bound to
    memory_bytes: float  # of a rank, resident
    gpu_use_fraction: float | None  # of the time, in which a kernel ran
    gpu_memory_bytes: float | None


class HasUsage(Protocol):
    """A rank: of a record, or one that still runs."""

    @property
    def cores(self) -> Sequence[int]:
        """Return the cores that it is bound to."""

    @property
    def usage(self) -> Usage | None:
        """Return its usage; None without samples."""


def known_mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not None; None without any."""
    reported = [value for value in values if value is not None]
    return fmean(reported) if reported else None


def usage_by_second(ranks: Sequence[HasUsage]) -> list[UsageSecond]:
    """Return the use of each second in which samples were taken, ascending; empty without samples."""
    seconds: dict[int, list[tuple[float, int, float | None, int | None]]] = {}
    for rank in ranks:
        if usage := rank.usage:
            memory, gpu, gpu_memory = usage.memory_bytes[1:], usage.gpu_fraction[1:], usage.gpu_memory_bytes[1:]
            samples = zip(cpu_fractions(usage, len(rank.cores)), memory, gpu, gpu_memory, strict=True)
            for at_s, sample in zip(usage.at_s[1:], samples, strict=True):
                seconds.setdefault(int(at_s), []).append(sample)
    return [
        UsageSecond(time_s, fmean(cpu), fmean(memory), known_mean(gpu), known_mean(gpu_memory))
        for time_s, in_second in sorted(seconds.items())
        for cpu, memory, gpu, gpu_memory in [zip(*in_second, strict=True)]
    ]


def mean_usage(ranks: Sequence[HasUsage]) -> dict[str, float]:
    """Return means over the time that was sampled, and over the ranks; empty without samples."""
    seconds = usage_by_second(ranks)
    means = {
        "cpu_use_fraction": known_mean([second.cpu_use_fraction for second in seconds]),
        "gpu_use_fraction": known_mean([second.gpu_use_fraction for second in seconds]),
    }
    return {name: mean for name, mean in means.items() if mean is not None}


def throughput(global_batch: float, steps: float, timed_s: float) -> float:
    """Return images/s of the whole job: global_batch x timed steps / the time between the barriers around them, in s.

    The only definition: `analysis.metrics` takes it from here.
    """
    return global_batch * steps / timed_s


def images_per_s(run: RunRecord) -> float:
    """Return the throughput of a launch of one point, by its longest timed phase: all wait for the slowest rank."""
    timed_s = max(rank.phases_s["timed"] for rank in run.ranks)
    return throughput(run.config["global_batch"], len(run.ranks[0].step_times_s), timed_s)


def record_summary(record: RunRecord) -> dict[str, float]:
    """Return the numbers of a complete run; empty for one that failed."""
    if record.status != "complete" or not record.ranks:
        return {}
    timed_s = max(rank.phases_s["timed"] for rank in record.ranks)
    if largest := [rank.allreduces[-1] for rank in record.ranks if rank.allreduces]:
        return {
            "timed_s": timed_s,
            "largest_message_bytes": largest[0].message_bytes,
            "largest_message_s": max(sum(timed.times_s) / len(timed.times_s) for timed in largest),
        }
    numbers = {"timed_s": timed_s}
    slowed = record.ranks[0].timeline is not None  # writing a timeline takes time
    if record.printed:
        numbers["images_per_s"] = record.printed.value
    elif record.ranks[0].step_times_s and not slowed:  # a launch in rounds has many throughputs
        numbers["images_per_s"] = images_per_s(record)
    numbers |= mean_usage(record.ranks)
    if record.epochs:
        for name in ("validation_accuracy", "validation_mean_absolute_error"):
            if (value := getattr(record.epochs[-1], name)) is not None:
                numbers[name] = value
    return numbers
