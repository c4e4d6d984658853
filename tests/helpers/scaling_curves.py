"""Curves for `analysis.predict` with given step times."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from analysis.predict import Curve

# The value learned from the published curves, rounded.
LEARNED = 0.18


def logarithmic(n: float) -> float:
    """Return the time of a step that takes 0.05 s more at each doubling of the ranks."""
    return 1 + 0.05 * math.log2(n)


def curve(
    step_s: Callable[[float], float] | Sequence[float], ranks: Sequence[float] = (1, 2, 4, 8, 16), **fields
) -> Curve:
    """Return a curve with these step times at these ranks; the batch is 1 unless `fields` has another."""
    n = np.asarray(ranks, float)
    times = np.array([step_s(x) for x in n] if callable(step_s) else step_s, float)
    batch = np.asarray(fields.pop("batch", np.ones(len(n))), float)
    spread = np.asarray(fields.pop("spread", np.full(len(n), np.nan)), float)
    names = {"model": fields.pop("model", "resnet50"), "name": "", "source": fields.pop("source", "a machine")}
    return Curve(**names, ranks=n, batch=batch, images_per_s=n * batch / times, spread=spread,
                 **fields)  # fmt: skip
