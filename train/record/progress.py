"""How far a run in progress has come, from what its ranks have left in the run folder.

Ranks write nothing inside a timed window. What happens within one is estimated from the times before it, and said with
the word "about".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from train.record import intervals, protocol, rounds
from train.record.parts import Part, PartReader
from train.record.summary import throughput

Config = Mapping[str, Any]  # the resolved configuration, as run.json has it

_RECENT = 3  # epochs, from whose mean the time of the next ones is estimated
_OF_AN_EPOCH = ("timed", "evaluate", "checkpoint")  # phases


@dataclass(frozen=True)
class Seen:
    """What is known of a run from its files. Times are seconds since the epoch, or durations in seconds."""

    phase: str
    since: float  # when the phase began
    what: str = ""  # the epoch or round under way: "epoch 3 of 8"
    steps: int = 0  # that are done for certain
    to_step: int | None = None  # the last one of the window under way
    of_steps: int | None = None  # of the whole run
    step_s: float | None = None  # of a step in the window under way, as expected
    images_per_s: float | None = None  # of the job
    loss: float | None = None
    speedups: str = ""
    ends_at: float | None = None  # as expected
    at_most: bool = False  # it may end before that


class Follower:
    """Reads the parts of a run's ranks while they grow."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read yet."""
        self._folder = folder
        self._readers: dict[Path, PartReader] = {}

    def part(self, rank: int) -> Part | None:
        """The part of a rank so far, None before it has begun: that which was written to last, where there are several.

        A rank that elastic training starts again has another. Raises OSError.
        """
        paths = protocol.part_paths(self._folder, rank)
        return self._newest(paths) if paths else None

    def parts(self) -> list[Part]:
        """The parts of all ranks so far, by rank. Raises OSError."""
        of_ranks: dict[int, list[Path]] = {}
        for path in protocol.part_paths(self._folder):  # the folder is read once, whatever the number of ranks
            of_ranks.setdefault(protocol.rank_of(path), []).append(path)
        return [self._newest(of_ranks[rank]) for rank in sorted(of_ranks)]

    def _newest(self, paths: Sequence[Path]) -> Part:
        """The part so far in the file that was written to last."""
        newest = max(paths, key=lambda path: path.stat().st_mtime_ns) if len(paths) > 1 else paths[0]
        return self._readers.setdefault(newest, PartReader(newest)).read()


def look(follower: Follower, config: Config) -> Seen | None:
    """What is known of a run now; None before its first rank has begun. Raises OSError."""
    first = follower.part(0)
    if first is None:
        return None
    if config["rounds"]:
        # A world's first rank waits for its other ranks at the end of each window: its time is theirs.
        ranks = [world["first_rank"] for world in config["worlds"]] or [0]
        return of_rounds(first, [part for rank in ranks if (part := follower.part(rank))], config)
    if config["measure"]["epochs"]:
        return of_epochs(first, config)
    if config["allreduce_sweep"]:
        return of_sweep(first, config)
    return of_steps(first, config)


def launched_at(part: Part) -> float:
    """When the job of a rank was launched, in seconds since the epoch."""
    return part.began_at - part.phases_s.get("start", 0.0)


def _since(part: Part) -> float:
    """When the rank entered the phase that it is in."""
    return launched_at(part) + sum(part.phases_s.values())


def of_steps(part: Part, config: Config) -> Seen:
    """What is known of a run of timed steps: their time is expected to be that of the warm-up's."""
    steps, warm_up = config["measure"]["timed_steps"], part.warm_up_step_times_s
    if part.phase != "timed" or not warm_up:
        return Seen(part.phase, _since(part))
    step_s = median(warm_up)
    return Seen(
        part.phase,
        _since(part),
        to_step=steps,
        of_steps=steps,
        step_s=step_s,
        images_per_s=throughput(config["global_batch"], 1, step_s),
        ends_at=_since(part) + steps * step_s,
    )


def of_epochs(part: Part, config: Config) -> Seen:
    """What is known of training over epochs: the next ones are expected to take as long as the last ones."""
    epochs, done = config["measure"]["epochs"], part.epochs
    number = min(len(done) + 1, epochs)
    if not done:
        return Seen(part.phase, _since(part), what=f"epoch 1 of {epochs}")
    last, recent, before = done[-1], done[-_RECENT:], sum(epoch.steps for epoch in done)
    images = last.steps * config["global_batch"]
    timed_s = part.phases_s.get("timed", 0.0)
    beside = sum(part.phases_s.get(phase, 0.0) for phase in _OF_AN_EPOCH) / timed_s if timed_s else 1.0
    epoch_s = beside * sum(epoch.duration_s for epoch in recent) / len(recent)
    return Seen(
        part.phase,
        _since(part),
        what=f"epoch {number} of {epochs}",
        steps=before,
        to_step=before + last.steps,
        of_steps=before + (epochs - len(done)) * last.steps,
        step_s=last.duration_s / last.steps,
        images_per_s=images / last.duration_s,
        loss=last.train_loss,
        ends_at=_since(part) + (epochs - len(done)) * epoch_s,
    )


def of_sweep(part: Part, config: Config) -> Seen:
    """What is known of an allreduce sweep."""
    of = config["allreduce_sweep"]["rounds"]
    number = part.allreduces[-1].round + 1 if part.allreduces else 1
    return Seen(part.phase, _since(part), what=f"round {number} of {of}, {len(part.allreduces)} sizes timed")


def of_rounds(part: Part, firsts: Sequence[Part], config: Config) -> Seen:
    """What is known of a launch in rounds.

    part: of rank 0; firsts: of the first rank of each world.
    """
    # With one rank of each arm seen, an arm counts as one rank with the batch of all.
    arms = [rounds.Arm(1, arm.ranks * arm.step_batch, arm.role) for arm in rounds.arms(config)]
    measured = rounds.rates(arms, [one.windows for one in firsts])
    largest = max(range(len(arms)), key=lambda place: (arms[place].step_batch, config["rounds"][place]["allreduce"]))
    rates = [rate[largest] for rate in measured if largest in rate]
    base, points = rounds.base_of(arms), [place for place, arm in enumerate(arms) if arm.role == "point"]
    said = ", ".join(_speedup(measured, place, base, config["rounds"][place]["name"]) for place in points)
    return Seen(
        part.phase,
        _since(part),
        what=f"round {len(measured) + 1}" if part.phase == "timed" else "",
        images_per_s=rates[-1] if rates else None,
        speedups=said if measured else "",
        ends_at=None if "timed" in part.phases_s else launched_at(part) + config["measure"]["budget_s"],
        at_most=True,
    )


def _speedup(measured: rounds.Rates, place: int, base: int, name: str) -> str:
    ratios = rounds.ratios(measured, place, base)
    if found := intervals.of_median(ratios):
        return f"{name} {found.text()}"
    return f"{name} {median(ratios):.3g}x so far" if ratios else name


def words(seen: Seen, now: float) -> str:
    """What is known of a run, in one line. now: seconds since the epoch."""
    said = [seen.what] if seen.what else [] if seen.phase == "timed" else [seen.phase.replace("_", " ")]
    if seen.what and seen.phase != "timed":
        said.append(seen.phase.replace("_", " "))
    said.append(_step(seen, now))
    if seen.ends_at is not None:
        said.append(_left(seen, seen.ends_at - now))
    if seen.images_per_s is not None:
        digits = ".3g" if seen.images_per_s < 1000 else ".0f"
        said.append(f"{seen.images_per_s:{digits}} images/s")
    if seen.loss is not None:
        said.append(f"loss {seen.loss:.3g}")
    said.append(seen.speedups)  # last: there may be many, and a line on a terminal is cut off at its end
    return ", ".join(part for part in said if part) or f"{seen.phase} for {duration(now - seen.since)}"


def _step(seen: Seen, now: float) -> str:
    """Which step is under way; within a timed window as expected."""
    if seen.of_steps is None:
        return ""
    if seen.phase == "timed" and seen.step_s and seen.to_step is not None:
        passed = max(0, int((now - seen.since) / seen.step_s))  # the clock may have been set back
        return f"step about {min(seen.steps + passed, seen.to_step)} of {seen.of_steps}"
    return f"step {seen.steps} of {seen.of_steps}"


def _left(seen: Seen, seconds: float) -> str:
    """How long the run will go on."""
    if seconds >= 0:
        return f"{'at most' if seen.at_most else 'about'} {duration(seconds)} left"
    return "ends with this round" if seen.at_most and seen.phase == "timed" else "longer than expected"


def duration(seconds: float) -> str:
    """A time in words: 45 s, 12 min, 3 h 20 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"
