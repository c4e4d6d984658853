"""Curves for `analysis.predict` whose step times are known."""

from collections.abc import Callable, Sequence

import numpy as np

from analysis.predict import Curve, Learned

# Near what the published curves teach, in round numbers.
LEARNED = Learned(0.06)


def curve(
    step_s: Callable[[float], float] | Sequence[float], ranks: Sequence[float] = (1, 2, 4, 8, 16), **known
) -> Curve:
    """A curve of these step times at these ranks, for a batch of one unless `known` says otherwise."""
    n = np.asarray(ranks, float)
    times = np.array([step_s(x) for x in n] if callable(step_s) else step_s, float)
    batch = np.asarray(known.pop("batch", np.ones(len(n))), float)
    spread = np.asarray(known.pop("spread", np.full(len(n), np.nan)), float)
    names = {"model": known.pop("model", "resnet50"), "name": "", "source": known.pop("source", "a machine")}
    return Curve(**names, ranks=n, batch=batch, images_per_s=n * batch / times, spread=spread,
                 repeats=np.ones(len(n)), **known)  # fmt: skip
