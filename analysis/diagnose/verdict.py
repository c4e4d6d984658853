"""Which part of a step is the largest that a user could win back, as far as the turns can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.diagnose.split import LOSSES, Part, Split
from analysis.stats.verdict import is_above


@dataclass(frozen=True)
class Verdict:
    """The largest loss of a point: surely one part, one of several, or none that is surely more than nothing."""

    parts: Sequence[Part]  # the largest on average first; several: the turns do not tell which is larger
    enough: bool = True  # turns for intervals

    @property
    def largest(self) -> Part | None:
        """The part that is surely the largest; None where none is."""
        return self.parts[0] if len(self.parts) == 1 and self.enough else None


def judge(split: Split) -> Verdict:
    """The losses that are surely above zero, and not surely smaller than another one, the largest first.

    A part is surely smaller where the whole interval of the difference within turns is.
    """
    losses = sorted((part for part in split.parts if part in LOSSES), key=lambda part: -split.part(part).value)
    if not losses:
        return Verdict(())
    largest = losses[0]
    if not split.part(largest).has_interval:
        return Verdict(losses, enough=False)
    rivals = [part for part in losses[1:] if not is_above(split.more(largest, part))]
    found = [part for part in (largest, *rivals) if is_above(split.part(part))]
    return Verdict(found)
