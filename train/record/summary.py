"""A few numbers for people who open a record, and for W&B's list of runs. The analysis never reads them."""

from train.record import usage
from train.record.record import RunRecord


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
    numbers |= usage.mean_usage(record.ranks)
    if record.epochs:
        last = record.epochs[-1]
        for name in ("validation_accuracy", "validation_mean_absolute_error"):
            if (value := getattr(last, name)) is not None:
                numbers[name] = value
    return numbers
