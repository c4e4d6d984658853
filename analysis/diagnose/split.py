"""The parts of a training step on several nodes: each measured, and together the step.

All are seconds a step, of one turn (a round, or a repeat of launches), and their means over turns add up. With c the
time until the local gradients are ready, s the rank that is slowest in a launch, and means over the other ranks:

| part | formula |
|---|---|
| alone | the step of the fewest nodes (scaled with the batch per rank) |
| shared | what others took of the cores of s without allreduce, less the same on the fewest nodes |
| slower | the step of the other ranks without allreduce, less alone, less what others took of their cores |
| waiting | mean over steps of (the largest c, less the mean c of the others), plus a, less what was taken of s alone |
| exchange | the step with allreduce, less all of these |
| input | the step that reads its images, less the same with its batch in memory |
| rest | the measured time a step (images/s is the batch over it), less the mean of the steps: the barrier at the end |

Here a is how much longer than the others s takes to apply its gradients, which the arm without allreduce tells. It is
then late in the next step: the others wait for it in that exchange, and no c shows it.

Where no arm without allreduce was measured, slower is the mean c of the other ranks, less the c of the fewest nodes.
Then shared is not known: it is in slower and in waiting.

Ranks that train asynchronously never wait for each other: slower and exchange are then means over all of them. Ranks
that share a process have one time for all.

The mean is over the other ranks, not over all: of two ranks, of which one is held up, half the delay would else count
as slower computing of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from analysis.diagnose.turns import Arm, Curve, Launch, Measured, Turn
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.stats.repeats import singles

Part = Literal["alone", "slower", "shared", "waiting", "exchange", "slower_or_exchange", "input", "rest"]
PARTS: tuple[Part, ...] = (
    "alone",
    "slower",
    "shared",
    "waiting",
    "exchange",
    "slower_or_exchange",  # where neither an arm without allreduce nor the times of gradients tell them apart
    "input",
    "rest",
)
LOSSES: tuple[Part, ...] = ("slower", "shared", "waiting", "exchange", "slower_or_exchange", "input")

Values = list[list[float]]  # of each launch, turn by turn


@dataclass(frozen=True)
class Step:
    """One point in one turn, in seconds a step."""

    measured_s: float
    base_s: float  # measured of the point with the fewest nodes, scaled with the batch per rank
    base_input_s: float  # of that its input
    parts_s: Mapping[Part, float]
    exchange_alone_s: float | None = None
    repeat: tuple[int, ...] = ()  # as of the turn


@dataclass(frozen=True, eq=False)
class Split:
    """One point of a curve: its steps, launch by launch."""

    point: Arm
    ranks: int
    launches: Sequence[Sequence[Step]]

    @property
    def parts(self) -> list[Part]:
        """The parts that are known in every turn, in order."""
        return [part for part in PARTS if all(part in step.parts_s for of in self.launches for step in of)]

    def values(self, of_step: Callable[[Step], float]) -> Values:
        """A number of each step, launch by launch: of rounds those of a launch, of repeats each by itself."""
        numbers = [[of_step(step) for step in steps] for steps in self.launches]
        if any(step.repeat for steps in self.launches for step in steps):
            return singles([number for of_launch in numbers for number in of_launch])
        return numbers

    def part(self, part: Part) -> Number:
        """Seconds of a part: the mean over turns."""
        return repeats.arithmetic_mean(self.values(lambda step: step.parts_s[part]))

    def share(self, part: Part) -> Number:
        """A part as a fraction of the measured step."""
        return repeats.arithmetic_mean(self.values(lambda step: step.parts_s[part] / step.measured_s))

    def more(self, part: Part, other: Part) -> Number:
        """By how many seconds one part is longer than another in the same turn."""
        return repeats.arithmetic_mean(self.values(lambda step: step.parts_s[part] - step.parts_s[other]))

    @property
    def measured(self) -> Number:
        """Seconds a step as measured."""
        return repeats.arithmetic_mean(self.values(lambda step: step.measured_s))

    @property
    def efficiency(self) -> Number:
        """By throughput, over the fewest nodes: the median over turns."""
        return repeats.median(self.values(lambda step: step.base_s / step.measured_s))

    def without(self, part: Part) -> Number:
        """The efficiency if this part took no time, at most: other parts may take its place.

        Without input the fewest nodes have none either.
        """

        def of(step: Step) -> float:
            base_s = step.base_s - (step.base_input_s if part == "input" else 0.0)
            return base_s / (step.measured_s - step.parts_s[part])

        return repeats.median(self.values(of))

    def left(self, part: Part) -> Number:
        """Seconds a step if this part took no time, at least."""
        return repeats.arithmetic_mean(self.values(lambda step: step.measured_s - step.parts_s[part]))

    @property
    def exchange_alone(self) -> Number | None:
        """Seconds of the exchange of the gradients by itself; None where it was not measured."""
        return self._if_exchanged(lambda step, alone_s: alone_s)

    @property
    def hidden(self) -> Number | None:
        """The seconds of that exchange that no step waits for; negative where more is exposed than it takes alone."""
        if "exchange" not in self.parts:
            return None
        return self._if_exchanged(lambda step, alone_s: alone_s - step.parts_s["exchange"])

    def _if_exchanged(self, number: Callable[[Step, float], float]) -> Number | None:
        values = [
            [number(step, step.exchange_alone_s) for step in steps if step.exchange_alone_s is not None]
            for steps in self.launches
        ]
        return repeats.arithmetic_mean(values) if all(values) and values else None


def splits(curve: Curve) -> list[Split]:
    """The points of a curve, from the fewest nodes on; those without a turn in common with the first are left out."""
    points = curve.points
    found = []
    for point in points:
        launches = [steps for launch in curve.launches if (steps := _of_launch(launch, point, points[0]))]
        if launches:
            found.append(Split(point, _ranks(curve, point), launches))
    return found


def _ranks(curve: Curve, point: Arm) -> int:
    arms = (turn.arms.get(point) for launch in curve.launches for turn in launch.turns)
    return next(found.ranks for found in arms if found)


def _of_launch(launch: Launch, point: Arm, first: Arm) -> list[Step]:
    turns = [turn for turn in launch.turns if point in turn.arms and first in turn.arms]
    slowest = slowest_rank(turns, in_memory(point, turns))
    return [_step(turn, point, first, slowest) for turn in turns]


def in_memory(point: Arm, turns: Sequence[Turn]) -> Arm:
    """The arm that differs from a point only in that its batch is in memory; the point itself without one."""
    other = replace(point, role="in-memory")
    return other if turns and all(other in turn.arms for turn in turns) else point


def slowest_rank(turns: Sequence[Turn], arm: Arm) -> int:
    """The rank of an arm whose gradients are ready last, on average over the turns of a launch."""
    known = [found for turn in turns if (found := turn.arms[arm].computing_s) is not None]
    return int(np.argmax(np.mean([np.mean(found, axis=1) for found in known], axis=0))) if known else 0


def _step(turn: Turn, point: Arm, first: Arm, slowest: int) -> Step:
    """The parts of a point in one turn."""
    read, base = turn.arms[point], turn.arms[first]
    kept = in_memory(point, [turn])
    held, alone = turn.arms[kept], turn.arms[in_memory(first, [turn])]
    scale = point.batch_per_rank / first.batch_per_rank
    parts: dict[Part, float] = {"alone": float(np.mean(alone.steps_s)) * scale}
    if point != first:
        control = turn.arms.get(replace(point, role="control"))
        parts |= _beside_others(held, control, slowest, _Alone.of(alone, scale))
    if held is not read:
        parts["input"] = float(np.mean(read.steps_s) - np.mean(held.steps_s))
    parts["rest"] = read.measured_s - float(np.mean(read.steps_s))
    base_input_s = scale * float(np.mean(base.steps_s) - np.mean(alone.steps_s))
    exchange_alone_s = turn.exchanges_s.get(point.nodes)
    return Step(read.measured_s, base.measured_s * scale, base_input_s, parts, exchange_alone_s, turn.repeat)


@dataclass(frozen=True)
class _Alone:
    """The fewest nodes in one turn, in seconds a step, scaled with the batch; None: not known."""

    step_s: float
    computing_s: float | None  # until the gradients are ready
    lost_s: float | None  # that others took of its cores

    @staticmethod
    def of(measured: Measured, scale: float) -> _Alone:
        """From what was measured of them, at a batch so many times smaller."""
        computing_s, lost_s = (
            None if times is None else float(np.mean(times)) * scale
            for times in (measured.computing_s, measured.lost_s)
        )
        return _Alone(float(np.mean(measured.steps_s)) * scale, computing_s, lost_s)


def _beside_others(held: Measured, control: Measured | None, slowest: int, alone: _Alone) -> dict[Part, float]:
    """The parts that several nodes add to the step of the fewest.

    held: with allreduce and the batch in memory. control: the same without allreduce.
    """
    if not held.waits:
        return _of_their_own(held, alone)
    others = np.arange(len(held.steps_s)) != slowest
    parts: dict[Part, float] = {}
    if held.computing_s is not None:
        behind = held.computing_s.max(axis=0) - held.computing_s[others].mean(axis=0)
        parts["waiting"] = float(np.mean(behind))
    if control is not None:
        parts |= _without_allreduce(control, slowest, alone, parts)
    elif held.computing_s is not None and alone.computing_s is not None:
        parts["slower"] = float(np.mean(held.computing_s[others])) - alone.computing_s
    left: Part = "exchange" if "slower" in parts else "slower_or_exchange"
    parts[left] = float(np.mean(held.steps_s)) - alone.step_s - sum(parts.values())
    return parts


def _of_their_own(held: Measured, alone: _Alone) -> dict[Part, float]:
    """The parts that ranks which do not wait for each other add to the step of the fewest: means over all of them."""
    longer_s = float(np.mean(held.steps_s)) - alone.step_s
    if held.computing_s is None or alone.computing_s is None:
        return {"slower_or_exchange": longer_s}
    slower_s = float(np.mean(held.computing_s)) - alone.computing_s
    return {"slower": slower_s, "exchange": longer_s - slower_s}


def _without_allreduce(
    control: Measured, slowest: int, alone: _Alone, parts: Mapping[Part, float]
) -> dict[Part, float]:
    """What the same ranks without allreduce tell of computing, and of `waiting` where that is among the parts."""
    others = np.arange(len(control.steps_s)) != slowest
    slower_s = float(np.mean(control.steps_s[others])) - alone.step_s
    if "waiting" in parts and control.computing_s is not None:
        after_s = (control.steps_s - control.computing_s).mean(axis=1)
        parts = {"waiting": parts["waiting"] + float(after_s[slowest] - after_s[others].mean())}
    if control.lost_s is None or alone.lost_s is None or "waiting" not in parts:
        return {**parts, "slower": slower_s}
    lost_others_s, lost_slowest_s = float(np.mean(control.lost_s[others])), float(control.lost_s[slowest])
    return {
        "shared": lost_slowest_s - alone.lost_s,
        "slower": slower_s - (lost_others_s - alone.lost_s),
        "waiting": parts["waiting"] - (lost_slowest_s - lost_others_s),
    }
