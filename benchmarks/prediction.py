"""The accuracy of `predict`: on public curves, and on simulated physics.

    python -m benchmarks.prediction [--curves 400]

The points of each public curve after its second one, its third, ..., are held out, and predicted with the calibration
from other networks, without DLPerf's curves. `error` is the median of the absolute relative errors. Simulated curves
have points up to 16 ranks; the interval should hold a simulated measurement with the noise of the points. All
curves except that of the server use an allreduce.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.metrics import hops
from analysis.predict import Curve, calibration, predict, reading
from analysis.predict.calibration import PublishedCurves
from analysis.study import Study
from analysis.user_table import table_contract
from benchmarks.common import Rng, Row, options, show

StepTime = Callable[[np.ndarray], np.ndarray]  # ranks -> the time of a step, 1 where ranks only compute
TABLES = Path("tests/analysis/user_table/published")
# Doublings beyond the points.
DISTANCES = {"one doubling or less": (0, 1), "two": (1, 2), "three or four": (2, 4)}
POINTS, TARGETS = 2.0 ** np.arange(5), np.array([32.0, 64.0, 128.0])


def public(checks: pd.DataFrame) -> Iterator[Row]:
    """Yield a line for each set of curves and distance of the prediction. checks: as of `calibration.checked`."""
    checks = checks.assign(set=checks["source"].mask(checks["source"].str.contains("dlperf"), "DLPerf"))
    sets = [*checks.groupby("set", sort=False), ("all", checks)]
    for (network, points), (name, (least, most)) in itertools.product(sets, DISTANCES.items()):
        rows = points[points["doublings"].gt(least) & points["doublings"].le(most)]
        if len(rows):
            widths = rows["high"] / rows["low"]
            yield {
                "curves": network,
                "beyond the points": name,
                "number": str(rows["curve"].nunique()),
                "error": f"{(rows['predicted'] / rows['measured'] - 1).abs().median():.1%}",
                "held": f"{rows['held'].sum()} of {len(rows)}",
                "high / low": f"{widths.median():.2f}",
                "largest": f"{widths.max():.2f}",
            }


def dlperf(learned: float) -> pd.DataFrame:
    """Return the points held out of DLPerf's curves, checked."""
    columns = {"frameworks": "cells=images_per_s", "paddle": "", "repeats": "rows=repeats"}
    tables = [table_contract.read_table(TABLES / f"dlperf_{name}.md", text) for name, text in columns.items()]
    points = calibration.held_out([curve for table in tables for curve in reading.file(table, "allreduce")])
    return calibration.checked(points.assign(curve=-1 - points["curve"]), learned)


def all_checks(published: PublishedCurves) -> pd.DataFrame:
    """Return the checks of the published curves, and of DLPerf's."""
    return pd.concat([published.checks, dlperf(calibration.learn(published.held_out))])


def ring(rng: Rng, per_node: int) -> StepTime:
    """Return computing, and the sends of a ring, with a latency for each."""
    sends, latency = rng.uniform(0.02, 0.4), rng.uniform(0, 0.002)
    return lambda n: 1 + sends * hops(n) + latency * n


def hierarchical(rng: Rng, per_node: int) -> StepTime:
    """Return computing, and an exchange within nodes and between them."""
    within, between = rng.uniform(0, 0.1), rng.uniform(0.02, 0.4)
    return lambda n: 1 + within * hops(np.minimum(n, per_node)) + between * hops(np.ceil(n / per_node))


def stragglers(rng: Rng, per_node: int) -> StepTime:
    """Return the slowest of n ranks whose steps scatter normally."""
    scatter = rng.uniform(0.01, 0.1)
    return lambda n: 1 + scatter * np.sqrt(2 * np.log(n))


def overlap(rng: Rng, per_node: int) -> StepTime:
    """Return an exchange that is hidden until it takes longer than the computing, somewhere beyond the points."""
    hidden_to, power = 2 ** rng.uniform(4, 7), rng.uniform(0.5, 1)
    return lambda n: np.maximum(1, (n / hidden_to) ** power)


def file_system(rng: Rng, per_node: int) -> StepTime:
    """Return reading from a file system that all share, and that saturates somewhere beyond the points."""
    busy_at, before = 2 ** rng.uniform(4, 7), ring(rng, per_node)
    return lambda n: np.maximum(before(n), n / busy_at)


def rack_uplink(rng: Rng, per_node: int) -> StepTime:
    """Return an exchange between nodes that takes 2 to 6 times as long beyond a rack of 16 to 64 ranks."""
    rack, factor, between = 2.0 ** rng.integers(4, 7), rng.uniform(2, 6), rng.uniform(0.02, 0.2)
    return lambda n: 1 + between * hops(np.ceil(n / per_node)) * np.where(n > rack, factor, 1)


def server(rng: Rng, per_node: int) -> StepTime:
    """Return one server that all ranks send to, and that saturates somewhere beyond the points."""
    busy_at, power = 2 ** rng.uniform(4, 6), rng.uniform(2, 6)
    return lambda n: (1 + (n / busy_at) ** power) ** (1 / power)


def amdahl(rng: Rng, per_node: int) -> StepTime:
    """Return strong scaling with a part that is not divided: the time of a step of an equal share of the work."""
    serial = rng.uniform(0.005, 0.05)
    return lambda n: 1 - serial + serial * n


def superlinear(rng: Rng, per_node: int) -> StepTime:
    """Return steps that get shorter with each doubling, as more of the data fits into caches."""
    gain = rng.uniform(0.01, 0.08)
    return lambda n: (1 - gain) ** np.log2(n)


def dip(rng: Rng, per_node: int) -> StepTime:
    """Return steps that are slower on one number of ranks, at 4 to 16, and recover."""
    size, loss = 2.0 ** rng.integers(2, 5), rng.uniform(0.05, 0.4)
    return lambda n: 1 + 0.02 * np.log2(n) + loss * (n == size)


PHYSICS = (ring, hierarchical, stragglers, overlap, file_system, rack_uplink, server, amdahl, superlinear, dip)


def simulate(physics: Callable[[Rng, int], StepTime], learned: float, curves: int, noise: float) -> Row:
    """Return a line of the table: the share of simulated measurements that the intervals hold."""
    rng, rows = np.random.default_rng(17), []
    for _ in range(curves):
        per_node = int(rng.choice([1, 4, 8]))
        ranks = np.append(POINTS, TARGETS)
        rates = ranks / physics(rng, per_node)(ranks) * np.exp(rng.normal(0, noise, len(ranks)))
        n, ones = len(POINTS), np.ones(len(POINTS))
        unknown, saturates = np.full(n, np.nan), physics is server
        curve = Curve("", "", "", POINTS, ones, rates[:n], unknown, float(per_node), may_saturate=saturates)
        predicted = predict(curve, TARGETS, learned)
        held = (predicted.low <= rates[n:]) & (rates[n:] <= predicted.high)
        rows.append((abs(predicted.images_per_s / rates[n:] - 1), held))
    errors, held = (np.array(column) for column in zip(*rows, strict=True))
    return {
        "truth": physics.__name__.replace("_", " "),
        "noise": f"{noise:.1%}",
        **{f"held at {n:g}": f"{held[:, i].mean():.3f}" for i, n in enumerate(TARGETS)},
        "held": f"{held.mean():.3f}",
        "error at 32": f"{np.median(errors[:, 0]):.1%}",
    }


def main() -> None:
    """Print the calibration, and both tables."""
    curves = options("prediction", __doc__, curves=(400, "simulated for each line")).parse_args().curves
    published = calibration.published_curves(Study().published)
    learned = calibration.learn(published.held_out)
    print(learned, "\n")
    show(public(all_checks(published)), end="\n\n")
    show(simulate(physics, learned, curves, noise) for physics in PHYSICS for noise in (0.01, 0.1))


if __name__ == "__main__":
    main()
