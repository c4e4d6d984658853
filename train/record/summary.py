"""The summary of a record for people, and what it is made from: throughput, and the use of cores, memory and GPUs.

The analysis never reads the summary itself, which W&B's list of runs shows too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import fmean
from typing import Protocol

from train.record.record import RunRecord, Usage

# s since the launch of the job, CPU time in s, resident bytes, GPU busy fraction, bytes of GPU memory
Sample = tuple[float, float, int, float | None, int | None]

MOST_SAMPLES = 200_000  # samples in a record: 6 MiB; an hour of 1,024 ranks has 3.7 million


def usage_columns(samples: Sequence[Sample]) -> Usage | None:
    """Return the samples of one rank as columns; None without any."""
    return Usage(*(list(column) for column in zip(*samples, strict=True))) if samples else None


def thinned_usage(used: Sequence[Usage | None], most: int = MOST_SAMPLES) -> list[Usage | None]:
    """Return the samples of all ranks of a job; if there are more than `most`, the first ones in each span of time.

    All ranks sample together (train/rank/sampler.py), so those that are left are of the same seconds too. CPU time
    counts from the begin of a rank: the share between two samples stays that of all the time between them.
    """
    sampled = [one for one in used if one]
    if sum(len(one.at_s) for one in sampled) <= most:
        return list(used)
    begin_s, end_s = min(one.at_s[0] for one in sampled), max(one.at_s[-1] for one in sampled)
    per_rank = max(2, most // len(sampled))
    span_s = math.ceil((end_s - begin_s) / (per_rank - 1))
    return [_first_in_each(one, span_s) if one else None for one in used]


def _first_in_each(used: Usage, span_s: int) -> Usage:
    spans = [at_s // span_s for at_s in used.at_s]
    first = [i for i, span in enumerate(spans) if i == 0 or span != spans[i - 1]]
    columns = (getattr(used, column.name) for column in fields(Usage))
    return Usage(*([column[i] for i in first] for column in columns))


def cpu_fractions(usage: Usage, cores: int) -> list[float]:
    """Return the share of its cores that a rank used between each sample and the one before; the first has none."""
    return [
        (usage.cpu_s[i] - usage.cpu_s[i - 1]) / (usage.at_s[i] - usage.at_s[i - 1]) / cores
        for i in range(1, len(usage.at_s))
    ]


@dataclass(frozen=True)
class UsageSecond:
    """The usage in one second of a job: means over its ranks. None if no rank knows."""

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
    """Return the mean of the values that are known; None without any."""
    reported = [value for value in values if value is not None]
    return fmean(reported) if reported else None


def usage_by_second(ranks: Sequence[HasUsage]) -> list[UsageSecond]:
    """Return the use of each second in which samples were taken, ascending; empty where none were."""
    seconds: dict[int, list[tuple[float, int, float | None, int | None]]] = {}
    for rank in ranks:
        if used := rank.usage:
            memory, gpu, gpu_memory = used.memory_bytes[1:], used.gpu_fraction[1:], used.gpu_memory_bytes[1:]
            samples = zip(cpu_fractions(used, len(rank.cores)), memory, gpu, gpu_memory, strict=True)
            for at_s, sample in zip(used.at_s[1:], samples, strict=True):
                seconds.setdefault(int(at_s), []).append(sample)
    return [
        UsageSecond(time_s, fmean(cpu), fmean(memory), known_mean(gpu), known_mean(gpu_memory))
        for time_s, in_second in sorted(seconds.items())
        for cpu, memory, gpu, gpu_memory in [zip(*in_second, strict=True)]
    ]


def mean_usage(ranks: Sequence[HasUsage]) -> dict[str, float]:
    """Return means over the time that was sampled, and over the ranks; empty without samples."""
    uses = usage_by_second(ranks)
    means = {
        "cpu_use_fraction": known_mean([use.cpu_use_fraction for use in uses]),
        "gpu_use_fraction": known_mean([use.gpu_use_fraction for use in uses]),
    }
    return {name: mean for name, mean in means.items() if mean is not None}


def throughput(global_batch: float, steps: float, timed_s: float) -> float:
    """Return images/s of the whole job: global_batch x timed steps / the time between the barriers around them, in s.

    The only definition: `analysis.metrics` takes it from here.
    """
    return global_batch * steps / timed_s


def timed_summary(record: RunRecord) -> dict[str, float]:
    """Return the numbers of a complete run that follow from its times; none for one that failed."""
    if record.status != "complete" or not record.ranks:
        return {}
    timed_s = max(rank.phases_s["timed"] for rank in record.ranks)
    if largest := [rank.allreduces[-1] for rank in record.ranks if rank.allreduces]:
        return {
            "timed_s": timed_s,
            "largest_message_bytes": largest[0].message_bytes,
            "largest_message_s": max(sum(one.times_s) / len(one.times_s) for one in largest),
        }
    numbers = {"timed_s": timed_s}
    if record.printed:
        return numbers | {"images_per_s": record.printed.value}
    slowed = record.ranks[0].timeline is not None  # writing it takes time
    if record.ranks[0].step_times_s and not record.resizes and not slowed:  # a launch in rounds has many throughputs
        steps = len(record.ranks[0].step_times_s)
        numbers["images_per_s"] = throughput(record.config["global_batch"], steps, timed_s)
    return numbers


def record_summary(record: RunRecord) -> dict[str, float]:
    """Return the numbers of a complete run; empty for one that failed."""
    numbers = timed_summary(record)
    if not numbers or "largest_message_s" in numbers:
        return numbers
    numbers |= mean_usage(record.ranks)
    if record.epochs:
        last = record.epochs[-1]
        for name in ("validation_accuracy", "validation_mean_absolute_error"):
            if (value := getattr(last, name)) is not None:
                numbers[name] = value
    return numbers
