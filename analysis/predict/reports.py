"""The published curves of the kit, and what they teach: worked out once for a table."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pandas as pd

from analysis.curves import cached_by_table
from analysis.predict import calibration, reading
from analysis.predict.average import Learned
from analysis.predict.calibration import Check
from analysis.predict.points import Curve


@dataclass(frozen=True)
class Reports:
    """The published curves with what all of them teach, and what those of all other machines teach, by machine."""

    curves: list[Curve]
    in_general: Learned
    by_source: dict[str, Learned]

    def learned(self, curve: Curve) -> Learned:
        """What may be used for a curve: nothing of its own machine."""
        return self.by_source.get(curve.source, self.in_general)

    @functools.cached_property
    def checks(self) -> list[Check]:
        """How predictions of the published curves did, each with what the other machines taught."""
        return calibration.checks(self.curves, self.by_source)


@cached_by_table
def learned(published: pd.DataFrame) -> Reports:
    """Return the published curves, and what they teach."""
    curves = reading.published(published)
    in_general = calibration.learn(curves)
    return Reports(curves, in_general, calibration.by_source(curves, in_general))
