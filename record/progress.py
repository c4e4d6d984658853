"""The progress of a run, from the files of its ranks in the run folder.

Ranks write nothing inside a timed window. The progress in a window is estimated from the times before it, and marked
"about".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from record import protocol, rounds
from record.disturbance import select, selection_text
from record.parts import PartReader, RankPart
from record.record_summary import throughput

Config = Mapping[str, Any]  # the resolved configuration, as run.json has it

_RECENT = 3  # epochs, from whose mean the time of the next ones is estimated
_EPOCH_PHASES = ("timed", "evaluate", "checkpoint")


@dataclass(frozen=True)
class RunProgress:
    """The progress of a run. Times are seconds since the epoch, or durations in seconds."""

    phase: str
    since: float  # when the phase began
    stage: str = ""  # the present epoch or round: "epoch 3 of 8"
    steps: int = 0  # certainly done
    to_step: int | None = None  # the last step of the present window
    total_steps: int | None = None  # of the whole run
    step_s: float | None = None  # the expected time of a step in the present window
    images_per_s: float | None = None  # of the job
    loss: float | None = None
    speedups: str = ""
    ends_at: float | None = None  # expected
    at_most: bool = False  # it may end before that


class Follower:
    """Reads the parts of a run's ranks while they grow."""

    def __init__(self, folder: Path) -> None:
        """Read nothing yet."""
        self._folder = folder
        self._readers: dict[Path, PartReader] = {}

    def part(self, rank: int) -> RankPart | None:
        """Return the part of a rank so far, None before it has begun. Raises OSError.

        Of several parts of a rank the one that was written last counts.
        """
        return next(iter(self.parts(rank)), None)

    def parts(self, rank: int | None = None) -> list[RankPart]:
        """Return the parts so far, by rank: of all ranks, or of one. Raises OSError."""
        newest: dict[int, Path] = {}
        for path, (number, _, _) in protocol.part_processes(self._folder, rank).items():
            if number not in newest or newest[number].stat().st_mtime_ns < path.stat().st_mtime_ns:
                newest[number] = path
        return [self._readers.setdefault(newest[n], PartReader(newest[n])).read() for n in sorted(newest)]


def run_progress(follower: Follower, config: Config) -> RunProgress | None:
    """Return the progress of a run now; None before its first rank has begun. Raises OSError."""
    first = follower.part(0)
    if first is None:
        return None
    if config["rounds"]:
        # The first rank of a rank group waits for the others at the end of each window: it has the same times.
        ranks = [group["first_rank"] for group in config["rank_groups"]] or [0]
        return rounds_progress(first, [part for rank in ranks if (part := follower.part(rank))], config)
    if config["measure"]["epochs"]:
        return epochs_progress(first, config)
    if config["allreduce_sweep"]:
        return sweep_progress(first, config)
    return steps_progress(first, config)


def launched_at(part: RankPart) -> float:
    """Return when the job of a rank was launched, in seconds since the epoch."""
    return part.began_at - part.phases_s.get("start", 0.0)


def _since(part: RankPart) -> float:
    return launched_at(part) + sum(part.phases_s.values())


def steps_progress(part: RankPart, config: Config) -> RunProgress:
    """Return the progress of a run of timed steps: each is expected to take as long as one of the warm-up."""
    steps, warm_up = config["measure"]["timed_steps"], part.warm_up_step_times_s
    if part.phase != "timed" or not warm_up:
        return RunProgress(part.phase, _since(part))
    step_s = median(warm_up)
    return RunProgress(
        part.phase,
        _since(part),
        to_step=steps,
        total_steps=steps,
        step_s=step_s,
        images_per_s=throughput(config["global_batch"], 1, step_s),
        ends_at=_since(part) + steps * step_s,
    )


def epochs_progress(part: RankPart, config: Config) -> RunProgress:
    """Return the progress of training over epochs: the next ones are expected to take as long as the last ones."""
    epochs, done = config["measure"]["epochs"], part.epochs
    number = min(len(done) + 1, epochs)
    if not done:
        return RunProgress(part.phase, _since(part), stage=f"epoch 1 of {epochs}")
    last, recent, before = done[-1], done[-_RECENT:], sum(epoch.steps for epoch in done)
    images = last.steps * config["global_batch"]
    timed_s = part.phases_s.get("timed", 0.0)
    factor = sum(part.phases_s.get(phase, 0.0) for phase in _EPOCH_PHASES) / timed_s if timed_s else 1.0
    epoch_s = factor * sum(epoch.duration_s for epoch in recent) / len(recent)
    return RunProgress(
        part.phase,
        _since(part),
        stage=f"epoch {number} of {epochs}",
        steps=before,
        to_step=before + last.steps,
        total_steps=before + (epochs - len(done)) * last.steps,
        step_s=last.duration_s / last.steps,
        images_per_s=images / last.duration_s,
        loss=last.train_loss,
        ends_at=_since(part) + (epochs - len(done)) * epoch_s,
    )


def sweep_progress(part: RankPart, config: Config) -> RunProgress:
    """Return the progress of an allreduce sweep."""
    rounds_in_all = config["allreduce_sweep"]["rounds"]
    number = part.allreduces[-1].round + 1 if part.allreduces else 1
    return RunProgress(
        part.phase, _since(part), stage=f"round {number} of {rounds_in_all}, {len(part.allreduces)} sizes timed"
    )


def rounds_progress(part: RankPart, firsts: Sequence[RankPart], config: Config) -> RunProgress:
    """Return the progress of a launch in rounds.

    part: of rank 0; firsts: of the first rank of each rank group.
    """
    # Only one rank of each arm is read, so an arm is taken as one rank with the batch of all.
    arms = [rounds.Arm(1, arm.ranks * arm.step_batch, arm.role) for arm in rounds.arms(config)]
    measured = rounds.rates(arms, [first.windows for first in firsts])
    # Rank 0 writes the disturbance of a round after its windows; without it a round counts.
    disturbances = dict.fromkeys(range(len(measured))) | dict(enumerate(part.disturbances))
    selection = select(disturbances, config["measure"].get("precision_fraction"))
    counting = {number: measured[number] for number in selection.counting if number < len(measured)}
    largest = max(range(len(arms)), key=lambda arm: (arms[arm].step_batch, config["rounds"][arm]["allreduce"]))
    rates = [rate[largest] for rate in measured if largest in rate]
    base, points = rounds.base_of(arms), [index for index, arm in enumerate(arms) if arm.role == "point"]
    labels = rounds.labels(config)
    speedups = ", ".join(_speedup(counting, arm, base, labels[config["rounds"][arm]["name"]]) for arm in points)
    return RunProgress(
        part.phase,
        _since(part),
        stage=f"round {len(measured) + 1}" if part.phase == "timed" else "",
        images_per_s=rates[-1] if rates else None,
        speedups="; ".join(filter(None, [speedups, selection_text([selection])])) if counting else "",
        ends_at=launched_at(part) + config["rounds_end_s"] if part.phase == "timed" else None,
        at_most=True,
    )


def _speedup(measured: Mapping[int, Mapping[int, float]], arm: int, base: int, label: str) -> str:
    speedup = rounds.speedup_in(measured, arm, base)
    return f"{label} {speedup.value:.3g}x so far" if speedup else label


def progress_line(progress: RunProgress, now: float, results: bool = True) -> str:
    """Return the progress of a run as one line. now: seconds since the epoch. results: with what is measured so far."""
    texts = [progress.stage, "" if progress.phase == "timed" else progress.phase.replace("_", " ")]
    texts.append(_step(progress, now))
    if progress.ends_at is not None:
        texts.append(_time_left(progress, progress.ends_at - now))
    if results and progress.images_per_s is not None:
        digits = ".3g" if progress.images_per_s < 1000 else ".0f"
        texts.append(f"{progress.images_per_s:{digits}} images/s")
    if progress.loss is not None:
        texts.append(f"loss {progress.loss:.3g}")
    if results:
        texts.append(progress.speedups)  # last: there may be many, and a line on a terminal is cut off at its end
    return ", ".join(part for part in texts if part) or f"{progress.phase} for {duration(now - progress.since)}"


def _step(progress: RunProgress, now: float) -> str:
    """Return the present step as text; in a timed window the expected one."""
    if progress.total_steps is None:
        return ""
    if progress.phase == "timed" and progress.step_s and progress.to_step is not None:
        steps = max(0, int((now - progress.since) / progress.step_s))  # the clock may have been set back
        return f"step about {min(progress.steps + steps, progress.to_step)} of {progress.total_steps}"
    return f"step {progress.steps} of {progress.total_steps}"


def _time_left(progress: RunProgress, seconds: float) -> str:
    if seconds >= 0:
        return f"{'at most' if progress.at_most else 'about'} {duration(seconds)} left"
    return "ends with this round" if progress.at_most else "longer than expected"


def duration(seconds: float) -> str:
    """Return a time as text: 45 s, 12 min, 3 h 20 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"
