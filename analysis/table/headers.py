"""What the columns of a table of measurements may be called: one list for all commands that read a user's file."""

from __future__ import annotations

import re

# Other names of a column, word by word as `normal` writes them.
SYNONYMS = {
    "model": ("network", "net", "model_name"),
    "ranks": ("num_ranks", "n_ranks", "rank_count", "number_of_ranks", "np", "nprocs", "world_size"),
    "ranks_per_node": (),
    "steps_per_rank": ("steps", "num_steps", "n_steps", "planned_steps_rank", "steps_rank_planned"),
    "batch_per_rank": ("batch_size_rank", "rank_batch", "rank_batch_size", "local_batch", "local_batch_size"),
    "global_batch": ("global_batch_size", "total_batch", "total_batch_size", "effective_batch_size"),
    "wall_s": (
        "wall", "wall_time", "wall_time_s", "walltime", "walltime_s", "wall_clock", "wall_clock_s", "wall_clock_time",
        "time", "time_s", "train", "train_s", "train_time", "train_time_s", "elapsed", "elapsed_s", "elapsed_time",
        "runtime", "runtime_s", "duration", "duration_s",
    ),
    "images_per_s_per_rank": ("speed_rank", "throughput_rank"),
    "images_per_s": ("total_images_s", "total_throughput", "total_speed"),
    "repeat": ("run", "trial", "repetition", "launch"),
    "n": ("repeats", "repetitions"),
    "low": ("lower",),
    "high": ("upper",),
}  # fmt: skip
# For messages: how people call a column.
EXAMPLES = {
    "ranks": ("GPUs", "workers", "processes"),
    "steps_per_rank": ("steps", "iterations per GPU"),
    "batch_per_rank": ("batch per GPU", "local batch size", "or global_batch"),
    "wall_s": ("wall time", "training time [s]", "elapsed"),
    "images_per_s_per_rank": ("images/s per GPU", "samples/sec/worker", "or images_per_s, of the whole job"),
    "images_per_s": ("images/s", "samples/sec", "total throughput", "or images_per_s_per_rank, of one rank"),
}
# Words of a header that mean the same; "per" is left out. Case, units in brackets and signs do not matter.
WORDS = {
    "rank": ("gpu", "gpus", "worker", "workers", "process", "processes", "procs", "device", "devices", "ranks"),
    "images": ("image", "img", "imgs", "sample", "samples", "example", "examples"),
    "steps": ("step", "iteration", "iterations", "iter", "iters", "batches"),
    "s": ("sec", "secs", "second", "seconds"),
    "train": ("training",),
    "": ("per",),
}
NOT_SECONDS = ("ms", "us", "min", "mins", "minutes", "m", "h", "hr", "hrs", "hours", "days")
_BATCH, _SPEED = ("batch_per_rank", "global_batch"), ("images_per_s_per_rank", "images_per_s")
# Of one rank, or of the whole job?
AMBIGUOUS = {"batch": _BATCH, "batch_size": _BATCH, "batchsize": _BATCH, "speed": _SPEED, "throughput": _SPEED}
_SAME = {other: word for word, others in WORDS.items() for other in others}


def normal(header: str) -> str:
    """A header in the words that SYNONYMS has: "Wall time [sec]" is wall_time_s, "img/sec per GPU" images_s_rank."""
    words = re.sub(r"[^a-z0-9]+", " ", header.lower()).split()
    return "_".join(filter(None, (_SAME.get(word, word) for word in words)))


_NAMES = {normal(other): name for name, others in SYNONYMS.items() for other in (name, *others)}


def name(header: str) -> str:
    """The name of the column that a header means; "" where it is not known, or may mean two (AMBIGUOUS)."""
    return _NAMES.get(normal(header), "")


def not_in_seconds(header: str) -> bool:
    """Whether a header is that of a wall time in another unit, as "Wall time [min]"."""
    *words, unit = normal(header).split("_") or [""]
    return unit in NOT_SECONDS and name("_".join(words)) == "wall_s"


def meanings(header: str) -> tuple[str, str] | None:
    """The columns that an ambiguous header may mean: that of one rank, and that of the whole job; None for others."""
    return AMBIGUOUS.get(normal(header))
