"""The parts of a training step on several nodes, each measured; the largest loss, the slowest rank; the parts of jobs.

All are seconds a step, of one round or repeat, and the means of the parts add up to the mean step. c is the time until
the local gradients are ready, s the rank that is slowest in a launch, and means are over the other ranks:

| part | formula |
|---|---|
| alone | the step of the fewest nodes (scaled with the batch per rank) |
| shared | what other processes took of the cores of s without allreduce, less the same on the fewest nodes |
| slower | the step of the other ranks without allreduce, less alone, less what was taken of their cores |
| waiting | mean over steps of (the largest c, less the mean c of the others), plus a, less what was taken of s alone |
| exchange | the step with allreduce, less all of these |
| input | the step that reads its images, less the same with its batch in memory |
| rest | the measured time a step (images/s is the batch over it), less the mean of the steps: the barrier at the end |

Here a is how much longer than the others s takes to apply its gradients, which the arm without allreduce shows. It is
then late in the next step: the others wait for it in that exchange, and no c shows it.

Without an arm without allreduce, slower is the mean c of the other ranks, less the c of the fewest nodes. Then shared
is not known: it is in slower and in waiting.

Ranks that train asynchronously never wait for each other: slower and exchange are then means over all of them. Ranks
that share a process have one time for all.

The mean is over the other ranks, not over all. Otherwise, of two ranks of which one is delayed, half the delay would
count as slower computing of both.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

import numpy as np
import pandas as pd

from analysis import labels
from analysis.diagnose.paired_windows import ArmKey, ArmTimes, CurveTimes, LaunchWindows, PairedWindows, curves
from analysis.documents import Document, NumberField, about
from analysis.stats import LEVEL, Number, exact, repeats
from analysis.stats.verdict import is_above
from common.terminal import text_table
from record import intervals
from record.schema import RunRecord

# "slower_or_exchange": where neither an arm without allreduce nor the times of gradients separate them.
PartName = Literal["alone", "slower", "shared", "waiting", "exchange", "slower_or_exchange", "input", "rest"]
Parts = dict[PartName, float]  # of a step, in s
PARTS: tuple[PartName, ...] = get_args(PartName)
LOSSES: tuple[PartName, ...] = ("slower", "shared", "waiting", "exchange", "slower_or_exchange", "input")

_MOST_TIMES = 10  # so many times as many launches are not advised

Values = list[list[float]]  # by launch, then by round


@dataclass(frozen=True)
class PairedStep:
    """One point in one round or repeat, in seconds a step."""

    measured_s: float
    base_s: float  # measured at the point with the fewest nodes, scaled with the batch per rank
    base_input_s: float  # the input part of it
    parts_s: Mapping[PartName, float]
    exchange_alone_s: float = math.nan  # of the gradients by itself; NaN: not measured
    repeat: tuple[int, ...] = ()  # as in `PairedWindows`


@dataclass(frozen=True, eq=False)
class Split:
    """One point of a curve: its steps, launch by launch."""

    point: ArmKey
    ranks: int
    launches: Sequence[Sequence[PairedStep]]

    @property
    def parts(self) -> list[PartName]:
        """The parts that are known in every round, in order."""
        return [part for part in PARTS if all(part in step.parts_s for steps in self.launches for step in steps)]

    @property
    def single(self) -> bool:
        """Whether each step is of separate launches."""
        return any(step.repeat for steps in self.launches for step in steps)

    def _values(self, number: Callable[[PairedStep], float]) -> Values:
        """Return a number of each step, by launch; each repeat of launches is a separate launch."""
        values = [[number(step) for step in steps] for steps in self.launches]
        return repeats.singles([value for launch in values for value in launch]) if self.single else values

    def _mean(self, number: Callable[[PairedStep], float]) -> Number:
        return repeats.arithmetic_mean(self._values(number))

    def part(self, part: PartName) -> Number:
        """Return the seconds of a part: the mean over rounds."""
        return self._mean(lambda step: step.parts_s[part])

    def share(self, part: PartName) -> Number:
        """Return a part as a fraction of the measured step: the ratio of the means, with errors to first order."""
        measured_s = self.measured.value
        share = self.part(part).value / measured_s
        return self._mean(lambda step: (step.parts_s[part] - share * (step.measured_s - measured_s)) / measured_s)

    def difference(self, part: PartName, other: PartName) -> Number:
        """Return by how many seconds one part is longer than another in the same round."""
        return self._mean(lambda step: step.parts_s[part] - step.parts_s[other])

    @property
    def measured(self) -> Number:
        """Seconds a step as measured."""
        return self._mean(lambda step: step.measured_s)

    @property
    def efficiency(self) -> Number:
        """The efficiency by throughput, as `record.intervals.speedup`; 1 by definition on the fewest nodes."""
        if all(step.base_s == step.measured_s for steps in self.launches for step in steps):
            return exact(1.0)
        turns = {
            intervals.Turn("", *step.repeat) if step.repeat else intervals.Turn(str(launch), 0, number): step
            for launch, steps in enumerate(self.launches)
            for number, step in enumerate(steps)
        }
        rates = {turn: 1 / step.measured_s for turn, step in turns.items()}
        return repeats.shown(intervals.speedup(rates, {turn: 1 / step.base_s for turn, step in turns.items()}))

    def efficiency_without(self, part: PartName) -> Number:
        """Return the efficiency if this part took no time, at most: other parts may take its place.

        Without input the fewest nodes have none either.
        """

        def efficiency(step: PairedStep) -> float:
            base_s = step.base_s - (step.base_input_s if part == "input" else 0.0)
            return base_s / (step.measured_s - step.parts_s[part])

        return repeats.typical(self._values(efficiency))

    @property
    def losses(self) -> list[PartName]:
        """The losses that are certainly shorter than the step."""
        steps = {part: self.step_without(part) for part in self.parts if part in LOSSES}
        return [part for part, step in steps.items() if (is_above(step) if step.has_interval else step.value > 0)]

    @property
    def negative(self) -> list[PartName]:
        """The parts that are below zero beyond their noise; all together right 95 times in 100 (Bonferroni)."""
        level = 1 - (1 - LEVEL) / len(self.parts)
        return [part for part in self.parts if self.part(part).ends(level)[1] < 0]

    @property
    def too_long(self) -> list[PartName]:
        """The losses that are longer than the whole step: arms of a round then were not measured alike."""
        return [part for part in self.parts if part in LOSSES and self.part(part).value > self.measured.value]

    def step_without(self, part: PartName) -> Number:
        """Return the seconds a step if this part took no time, at least."""
        return self._mean(lambda step: step.measured_s - step.parts_s[part])

    @property
    def exchange_alone(self) -> Number | None:
        """Seconds of the exchange of the gradients by itself; None if a round did not measure it."""
        if any(math.isnan(step.exchange_alone_s) for steps in self.launches for step in steps):
            return None
        return self._mean(lambda step: step.exchange_alone_s)

    @property
    def hidden(self) -> Number | None:
        """The seconds of that exchange that no step waits for; negative where more is exposed than it takes alone."""
        if "exchange" not in self.parts or self.exchange_alone is None:
            return None
        return self._mean(lambda step: step.exchange_alone_s - step.parts_s["exchange"])


def split_curves(local: pd.DataFrame, records: Mapping[str, RunRecord]) -> list[tuple[CurveTimes, list[Split]]]:
    """Return the curves of records with their points, without those that have none. Arguments: as of `curves`."""
    return [(curve, points) for curve in curves(local, records) if (points := splits(curve))]


def splits(curve: CurveTimes) -> list[Split]:
    """Return the points of a curve, from the fewest nodes on, without those that share no round with the first one."""
    points = curve.points
    result = []
    for point in points:
        launches = [steps for launch in curve.launches if (steps := _steps(launch, point, points[0]))]
        if launches:
            result.append(Split(point, _ranks(curve, point), launches))
    return result


def _ranks(curve: CurveTimes, point: ArmKey) -> int:
    all_times = (paired.arms.get(point) for launch in curve.launches for paired in launch.paired_windows)
    return next(times.ranks for times in all_times if times)


def _steps(launch: LaunchWindows, point: ArmKey, first: ArmKey) -> list[PairedStep]:
    rounds = [paired for paired in launch.paired_windows if point in paired.arms and first in paired.arms]
    slowest = slowest_index(rounds, in_memory(point, rounds))
    return [_step(paired, point, first, slowest) for paired in rounds]


def in_memory(point: ArmKey, rounds: Sequence[PairedWindows]) -> ArmKey:
    """Return the arm that differs from a point only in that its batch is in memory; the point itself without one."""
    in_memory_arm = replace(point, role="in-memory")
    return in_memory_arm if rounds and all(in_memory_arm in paired.arms for paired in rounds) else point


def slowest_index(rounds: Sequence[PairedWindows], arm: ArmKey) -> int:
    """Return the rank of an arm whose gradients are ready last, on average over the rounds of a launch."""
    computing = [times_s for paired in rounds if (times_s := paired.arms[arm].computing_s) is not None]
    if not computing:
        return 0
    return int(np.argmax(np.mean([np.mean(times_s, axis=1) for times_s in computing], axis=0)))


def _step(paired: PairedWindows, point: ArmKey, first: ArmKey, slowest: int) -> PairedStep:
    read, base = paired.arms[point], paired.arms[first]
    from_memory, alone = (paired.arms[in_memory(arm, [paired])] for arm in (point, first))
    scale = point.batch_per_rank / first.batch_per_rank
    base, alone = base.scaled(scale), alone.scaled(scale)
    parts: Parts = {"alone": alone.step_s}
    if point != first:
        control = paired.arms.get(replace(point, role="control"))
        parts |= _parts_beyond_alone(from_memory, control, slowest, alone)
    if from_memory is not read:
        parts["input"] = read.step_s - from_memory.step_s
    parts["rest"] = read.measured_s - read.step_s
    base_input_s = base.step_s - alone.step_s
    exchange_alone_s = paired.exchanges_s.get(point.nodes, math.nan)
    return PairedStep(read.measured_s, base.measured_s, base_input_s, parts, exchange_alone_s, paired.repeat)


def _parts_beyond_alone(times: ArmTimes, control: ArmTimes | None, slowest: int, alone: ArmTimes) -> Parts:
    """Return the parts that several nodes add to the step of the fewest.

    times: with allreduce and the batch in memory. control: the same without allreduce. alone: the fewest nodes, scaled
    with the batch.
    """
    if not times.waits:
        return _parts_without_waiting(times, alone)
    others = np.arange(len(times.steps_s)) != slowest
    parts: Parts = {}
    if times.computing_s is not None:
        behind = times.computing_s.max(axis=0) - times.computing_s[others].mean(axis=0)
        parts["waiting"] = float(np.mean(behind))
    if control is not None:
        parts |= _parts_of_control(control, slowest, alone, parts)
    elif times.computing_s is not None and alone.computing_s is not None:
        parts["slower"] = float(np.mean(times.computing_s[others]) - np.mean(alone.computing_s))
    remaining: PartName = "exchange" if "slower" in parts else "slower_or_exchange"
    parts[remaining] = times.step_s - alone.step_s - sum(parts.values())
    return parts


def _parts_without_waiting(times: ArmTimes, alone: ArmTimes) -> Parts:
    """Return the parts that asynchronous ranks add to the step of the fewest nodes: means over all of them."""
    longer_s = times.step_s - alone.step_s
    if times.computing_s is None or alone.computing_s is None:
        return {"slower_or_exchange": longer_s}
    slower_s = float(np.mean(times.computing_s) - np.mean(alone.computing_s))
    return {"slower": slower_s, "exchange": longer_s - slower_s}


def _parts_of_control(control: ArmTimes, slowest: int, alone: ArmTimes, parts: Parts) -> Parts:
    """Return the parts that the control shows: computing, and `waiting` if it is among the parts."""
    others = np.arange(len(control.steps_s)) != slowest
    slower_s = float(np.mean(control.steps_s[others])) - alone.step_s
    if "waiting" in parts and control.computing_s is not None:
        after_s = (control.steps_s - control.computing_s).mean(axis=1)
        parts = {"waiting": parts["waiting"] + float(after_s[slowest] - after_s[others].mean())}
    if control.preempted_s is None or alone.preempted_s is None or "waiting" not in parts:
        return {**parts, "slower": slower_s}
    others_s, slowest_s = float(np.mean(control.preempted_s[others])), float(control.preempted_s[slowest])
    alone_s = float(np.mean(alone.preempted_s))
    return {
        "shared": slowest_s - alone_s,
        "slower": slower_s - (others_s - alone_s),
        "waiting": parts["waiting"] - (slowest_s - others_s),
    }


@dataclass(frozen=True)
class LargestLoss:
    """The largest loss of a point, as far as its rounds show it."""

    candidates: Sequence[PartName]  # not significantly below another one; the largest on average first
    above_zero: Sequence[PartName] = ()  # those of them that are so significantly
    enough: bool = True  # whether there are enough rounds to name one
    launches: int = 0  # that would show the largest, if the means stay; 0: ten times as many would not

    @property
    def part(self) -> PartName | None:
        """The part that is significantly the largest; None where none is."""
        return self.candidates[0] if len(self.candidates) == 1 and self.above_zero and self.enough else None


def largest_loss(split: Split) -> LargestLoss:
    """Return the losses that may be the largest, and those of them that are significantly above zero.

    A part is below another if the whole interval of their difference within rounds is below zero. Fewer than MIN_ROUNDS
    rounds are not enough: a disturbance of one round in eight may be in none of them.
    """
    losses = sorted((part for part in split.parts if part in LOSSES), key=lambda part: -split.part(part).value)
    if not losses or split.too_long:
        return LargestLoss([])
    largest, *others = losses
    candidates = [largest, *(part for part in others if not is_above(split.difference(largest, part)))]
    above_zero = [part for part in candidates if is_above(split.part(part))]
    enough = split.single or split.measured.n >= repeats.MIN_ROUNDS
    return LargestLoss(candidates, above_zero, enough, _launches_needed(split, candidates))


def _launches_needed(split: Split, candidates: Sequence[PartName]) -> int:
    """Return how many launches would show the largest loss if the means stay: an interval narrows by their root."""
    largest, *rivals = candidates
    numbers = [split.part(largest), *(split.difference(largest, part) for part in rivals)]
    n = split.measured.n
    launches = n if split.single else len(split.launches)
    needed = [launches + 1.0, repeats.MIN_VALUES if split.single else repeats.MIN_LAUNCHES]
    needed += [] if split.single else [launches * repeats.MIN_ROUNDS / n]
    needed += [launches * ((x.value - x.low) / x.value) ** 2 for x in numbers if x.value > 0 and x.has_interval]
    hopeless = max(needed) > _MOST_TIMES * launches or any(x.value <= 0 for x in numbers)
    return 0 if hopeless else math.ceil(max(needed))


class LateRank(Document):
    """The rank whose gradients are ready last."""

    host: str
    rank: int
    cores: Annotated[Sequence[int], about("that it is bound to")]
    behind_s: Annotated[NumberField, about("delay of its gradients after the mean of the others")]
    certain: Annotated[bool, about("whether the delay is significant")]
    others_fraction: Annotated[float | None, about("share of its cores that other processes took")]
    stolen_fraction: Annotated[float | None, about("share that the hypervisor took")]


Location = tuple[str, int, tuple[int, ...]]  # host, rank, cores


def slowest_rank(curve: CurveTimes, point: ArmKey) -> LateRank | None:
    """Return the slowest rank of a point; None where one rank computes, or the times of gradients are not known."""
    delays_s: dict[Location, list[list[float]]] = defaultdict(list)
    for launch in curve.launches:
        for location, values in _delays_s(launch, point).items():
            delays_s[location] += [values] if curve.in_rounds else repeats.singles(values)
    if not delays_s:
        return None
    location = max(delays_s, key=lambda key: np.mean([value for values in delays_s[key] for value in values]))
    host, rank, cores = location
    others, stolen = _preempted_fractions(curve, point, rank)
    return LateRank(
        host=host,
        rank=rank,
        cores=cores,
        behind_s=repeats.arithmetic_mean(delays_s[location]),
        # All ranks together are right 95 times in 100 (Bonferroni).
        certain=repeats.typical(delays_s[location]).ends(1 - (1 - LEVEL) / len(delays_s))[0] > 0,
        others_fraction=others,
        stolen_fraction=stolen,
    )


def _delays_s(launch: LaunchWindows, point: ArmKey) -> dict[Location, list[float]]:
    """Return how long after the mean of the other ranks each rank's gradients are ready, round by round, in s."""
    rounds = [paired for paired in launch.paired_windows if point in paired.arms]
    arm = in_memory(point, rounds)
    delays_s: dict[Location, list[float]] = defaultdict(list)
    for paired in rounds:
        computing_s = paired.arms[arm].computing_s
        if computing_s is None or len(computing_s) < 2:
            return {}
        ready_s = computing_s.mean(axis=1)
        others_s = (ready_s.sum() - ready_s) / (len(ready_s) - 1)
        for rank, delay_s in enumerate((ready_s - others_s).tolist()):
            host, cores = launch.locations[rank]
            delays_s[host, rank, tuple(cores)].append(delay_s)
    return delays_s


def _preempted_fractions(curve: CurveTimes, point: ArmKey, rank: int) -> tuple[float | None, float | None]:
    """Return the shares of a rank's core time that other processes and the hypervisor took, without allreduce."""
    control = replace(point, role="control")
    arms = [paired.arms for launch in curve.launches for paired in launch.paired_windows if point in paired.arms]
    controls = [by_arm[control] for by_arm in arms if control in by_arm]
    shares = [t.taken_s[:, rank] / t.steps_s[rank].mean() for t in controls if t.taken_s is not None]
    others, stolen = np.mean(shares, axis=0).tolist() if shares else (None, None)
    return others, stolen


Group = Literal["start-up", "steps", "evaluation", "checkpoints", "exit"]
GROUPS: dict[Group, tuple[str, ...]] = {
    "start-up": ("start", "import", "init", "data", "build", "broadcast", "first_step"),
    "steps": ("warm_up", "timed"),
    "evaluation": ("evaluate",),
    "checkpoints": ("checkpoint",),
    "exit": ("exit",),
}


class JobPhases(Document):
    """The phases of the launches of one single point."""

    model: str
    series: Annotated[str, about("what distinguishes it from other series of its model")]
    nodes: int
    batch_per_rank: int
    job_s: Annotated[NumberField, about("wall time of a job")]
    parts_s: Annotated[
        Mapping[Group, NumberField],
        about(
            "its parts [s]: `start-up` until the end of the first step, `steps` warm-up and timed, `evaluation`, "
            "`checkpoints`, `exit` after the last step"
        ),
    ]


def jobs(local: pd.DataFrame) -> list[JobPhases]:
    """Return the jobs of single points among the rows of one experiment, by model and nodes."""
    rows = local[local["kind"].eq("measured") & local["round"].isna()]
    rows = rows[rows["quantity"].str.startswith("phase_") | rows["quantity"].eq("job_s")]
    result = []
    for (model, _, nodes, batch), at in rows.groupby(["model", "series", "nodes", "batch_per_rank"], sort=False):
        runs = at.pivot_table(index="record", columns="quantity", values="value")
        sums = {
            name: runs.reindex(columns=[f"phase_{phase}_s" for phase in phases]).fillna(0.0).sum(axis=1)
            for name, phases in GROUPS.items()
        }
        job = JobPhases(
            model=str(model),
            series=", ".join(labels.distinctions(at, rows, "batch_per_rank")),
            nodes=int(str(nodes)),
            batch_per_rank=int(str(batch)),
            job_s=repeats.arithmetic_mean(repeats.singles(runs["job_s"].tolist())),
            parts_s={name: repeats.arithmetic_mean(repeats.singles(s.tolist())) for name, s in sums.items() if s.any()},
        )
        result.append(job)
    return result


def job_table(jobs: Sequence[JobPhases]) -> str:
    """Return the seconds of the parts of each job, and their share."""
    names = list(dict.fromkeys(name for job in jobs for name in job.parts_s))
    cells = {
        "model": [labels.name(job.model) for job in jobs],
        "series": [job.series for job in jobs],
        "nodes": [str(job.nodes) for job in jobs],
        "batch\na rank": [str(job.batch_per_rank) for job in jobs],
        "job [s]": [job.job_s.text(".3g") for job in jobs],
        **{f"{name} [s]": [_cell(job, name) for job in jobs] for name in names},
    }
    if not any(cells["series"]):
        del cells["series"]
    return text_table(pd.DataFrame(cells))


def _cell(job: JobPhases, name: Group) -> str:
    if name not in job.parts_s:
        return ""
    return f"{job.parts_s[name].text('.3g')}, {100 * job.parts_s[name].value / job.job_s.value:.0f} %"
