"""Arms of an experiment on as many nodes: by which parts of a step one of them takes longer than their base.

Launches of one repeat belong together: a difference is taken within a repeat, so that the machine's drift cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.diagnose.split import PARTS, Part, Split, Step
from analysis.diagnose.turns import Curve
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.stats.verdict import is_above

# What is one part where one of two arms does not tell them apart.
_TOGETHER: tuple[Part, ...] = ("slower", "shared", "waiting", "exchange", "slower_or_exchange")


Arm = tuple[Curve, Split]


@dataclass(frozen=True, eq=False)
class Compared:
    """One arm: its steps, and by how many seconds each is longer than that of the base in the same repeat."""

    curve: Curve
    split: Split
    longer: Number
    parts: Mapping[Part, Number]  # of the difference; together they are all of it
    reasons: Sequence[Part] = ()  # of a sure difference: parts that surely differ so, not surely less than another

    @property
    def differs(self) -> bool:
        """Whether its steps are surely longer, or shorter, than those of the base."""
        return is_above(self.longer) or is_above(self.longer.scaled(-1))


@dataclass(frozen=True, eq=False)
class Comparison:
    """The arms of one model on so many nodes: the base, and beside it the others, in the order of their names."""

    nodes: int
    curve: Curve
    split: Split
    others: Sequence[Compared]

    @property
    def arms(self) -> list[Arm]:
        """The base and the others."""
        return [(self.curve, self.split), *((other.curve, other.split) for other in self.others)]


def comparisons(found: Sequence[tuple[Curve, Sequence[Split]]]) -> list[Comparison]:
    """The arms that can be compared, by model and nodes: those of launches that belong together."""
    at: dict[tuple[str, str, int], list[Arm]] = {}
    for curve, of in found:
        fewest = min(split.point.nodes for split in of)
        for split in of if curve.arm else ():
            if split.point.nodes > fewest:
                at.setdefault((curve.model, curve.arms, split.point.nodes), []).append((curve, split))
    in_order = {key: sorted(arms, key=lambda arm: (not arm[0].is_base, arm[0].arm)) for key, arms in at.items()}
    made = [_comparison(nodes, arms) for (_, _, nodes), arms in in_order.items() if arms[0][0].is_base]
    return [comparison for comparison in made if comparison.others]


def _comparison(nodes: int, arms: Sequence[Arm]) -> Comparison:
    """The arms beside the base, the first of them; without a repeat in common an arm is left out."""
    (curve, first), *others = arms
    pairs = [(arm, list(_pairs(first, arm[1]))) for arm in others]
    return Comparison(nodes, curve, first, [_longer(arm, of_both) for arm, of_both in pairs if of_both])


def _pairs(first: Split, other: Split) -> Iterator[tuple[Step, Step]]:
    """The steps of both in each repeat that both have."""
    known = {step.repeat: step for steps in first.launches for step in steps}
    for step in (step for steps in other.launches for step in steps if step.repeat in known):
        yield known[step.repeat], step


def _longer(arm: Arm, pairs: Sequence[tuple[Step, Step]]) -> Compared:
    """One arm with its differences, and the parts that they come from. pairs: steps of the base and of this."""

    def difference(of_step: Callable[[Step], float]) -> Number:
        return repeats.arithmetic_mean(repeats.singles([of_step(step) - of_step(first) for first, step in pairs]))

    numbers = _numbers(pairs)
    whole = difference(lambda step: step.measured_s)
    parts = {part: difference(number) for part, number in numbers.items()}
    if not (is_above(whole) or is_above(whole.scaled(-1))):
        return Compared(*arm, whole, parts)
    sign = 1 if is_above(whole) else -1
    largest, *others = sorted(parts, key=lambda part: -sign * parts[part].value)

    def less(part: Part) -> bool:
        return is_above(difference(lambda step: sign * (numbers[largest](step) - numbers[part](step))))

    rivals = [largest, *(part for part in others if not less(part))]
    sure = [part for part in rivals if is_above(parts[part].scaled(sign))]
    return Compared(*arm, whole, parts, sure)


def _numbers(pairs: Sequence[tuple[Step, Step]]) -> dict[Part, Callable[[Step], float]]:
    """The seconds of each part in which steps can differ; a part that an arm does not have takes no time.

    Where only one of both tells slower computing, waiting and exchange apart, they are one part.
    """
    steps = [step for pair in pairs for step in pair]
    there = {part for step in steps for part in step.parts_s}
    if any("slower_or_exchange" in step.parts_s for step in steps):
        there -= {*_TOGETHER}
        there |= {"slower_or_exchange"}

    def number(part: Part) -> Callable[[Step], float]:
        parts = _TOGETHER if part == "slower_or_exchange" else (part,)
        return lambda step: sum(step.parts_s.get(one, 0.0) for one in parts)

    return {part: number(part) for part in PARTS if part in there}
