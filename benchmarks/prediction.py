"""How well `predict` does: on public curves, beside repeating the last doubling, and on simulated physics.

    python -m benchmarks.prediction [--curves 400]

Each public curve is cut after each of its points from the third on, and what was cut off is predicted with what the
curves of other machines teach; DLPerf's curves teach nothing. `error` is the median of the absolute relative errors.
Simulated curves have points up to 16 ranks; a simulated measurement with the noise of the points is what the interval
should hold. The command is
told of an allreduce, but for the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from analysis.metrics import hops
from analysis.predict import Curve, Learned, calibration, predict, reading, weak
from analysis.predict.calibration import Check, PublishedCurves
from analysis.study import Study
from analysis.user_table import table as user_table
from benchmarks.common import Rng, Row, options, show

StepTime = Callable[[np.ndarray], np.ndarray]  # ranks -> the time of a step, 1 where ranks only compute
TABLES = Path("tests/analysis/user_table/published")
POINTS, TARGETS = 2.0 ** np.arange(5), np.array([32.0, 64.0, 128.0])


def last_doubling(check: Check) -> np.ndarray:
    """The relative errors of repeating the last doubling of the rate."""
    lower = check.cut.lower
    slope = np.log(lower.images_per_s[-1] / lower.images_per_s[-2]) / np.log(lower.ranks[-1] / lower.ranks[-2])
    rate = lower.images_per_s[-1] * (check.cut.beyond.ranks / lower.largest) ** slope
    return np.asarray(rate / check.measured - 1)


def _set(check: Check) -> str:
    """The set of curves that one belongs to."""
    source = check.cut.curve.source
    names = {"ec2": "EC2", "dgx-1": "DGX-1"}
    return "Azure" if source.startswith("Azure") else "DLPerf" if "dlperf" in source else names.get(source, source)


def public(checks: list[Check]) -> Iterator[Row]:
    """A line for each set of curves, and for how far it was predicted."""
    for machine in dict.fromkeys(map(_set, checks)):
        of_machine = [check for check in checks if _set(check) == machine]
        for name, least, most in (("one doubling or less", 0, 1), ("more", 1, 9)):
            rows = np.array(
                [
                    (abs(error), abs(last), held, high / low)
                    for check in of_machine
                    for error, last, held, high, low, beyond in zip(
                        check.error, last_doubling(check), check.held, check.predicted.high, check.predicted.low,
                        np.log2(check.cut.beyond.ranks / check.cut.lower.largest), strict=True,
                    )
                    if least < beyond <= most
                ]
            )  # fmt: skip
            if len(rows):
                yield {
                    "curves": machine,
                    "beyond the points": name,
                    "number": str(len({id(check.cut.curve) for check in of_machine})),
                    "error": f"{np.median(rows[:, 0]):.1%}",
                    "error of the last doubling": f"{np.median(rows[:, 1]):.1%}",
                    "held": f"{rows[:, 2].sum():.0f} of {len(rows)}",
                    "high / low": f"{np.median(rows[:, 3]):.2f}",
                }


def dlperf(learned: Learned) -> list[Check]:
    """The predictions of DLPerf's curves."""
    tables = [user_table.read(TABLES / f"dlperf_{name}.md") for name in ("frameworks", "paddle", "repeats")]
    curves = [curve for table in tables for curve in reading.file(table, "allreduce")]
    return [Check(cut, predict(cut.lower, cut.beyond, learned)) for cut in calibration.cuts(curves)]


def all_checks(published: PublishedCurves) -> list[Check]:
    """The predictions of the published curves, and of DLPerf's."""
    return [*published.checks, *dlperf(published.in_general)]


def ring(rng: Rng, per_node: int) -> StepTime:
    """Computing, and the sends of a ring, with a latency for each."""
    sends, latency = rng.uniform(0.02, 0.4), rng.uniform(0, 0.002)
    return lambda n: 1 + sends * hops(n) + latency * n


def hierarchical(rng: Rng, per_node: int) -> StepTime:
    """Within nodes, and between them."""
    within, between = rng.uniform(0, 0.1), rng.uniform(0.02, 0.4)
    return lambda n: 1 + within * hops(np.minimum(n, per_node)) + between * hops(np.ceil(n / per_node))


def stragglers(rng: Rng, per_node: int) -> StepTime:
    """The slowest of n ranks whose steps scatter normally."""
    scatter = rng.uniform(0.01, 0.1)
    return lambda n: 1 + scatter * np.sqrt(2 * np.log(n))


def overlap(rng: Rng, per_node: int) -> StepTime:
    """An exchange that is hidden until it takes longer than the computing, somewhere beyond the points."""
    hidden_to, power = 2 ** rng.uniform(4, 7), rng.uniform(0.5, 1)
    return lambda n: np.maximum(1, (n / hidden_to) ** power)


def file_system(rng: Rng, per_node: int) -> StepTime:
    """Images from a file system that all share, and that delivers no more somewhere beyond the points."""
    busy_at, before = 2 ** rng.uniform(4, 7), ring(rng, per_node)
    return lambda n: np.maximum(before(n), n / busy_at)


def rack_uplink(rng: Rng, per_node: int) -> StepTime:
    """Beyond a rack of 16 to 64 ranks the exchange between nodes takes 2 to 6 times as long."""
    rack, factor, between = 2.0 ** rng.integers(4, 7), rng.uniform(2, 6), rng.uniform(0.02, 0.2)
    return lambda n: 1 + between * hops(np.ceil(n / per_node)) * np.where(n > rack, factor, 1)


def server(rng: Rng, per_node: int) -> StepTime:
    """One server that all ranks send to, and that is busy somewhere beyond the points."""
    busy_at, power = 2 ** rng.uniform(4, 6), rng.uniform(2, 6)
    return lambda n: (1 + (n / busy_at) ** power) ** (1 / power)


PHYSICS = (ring, hierarchical, stragglers, overlap, file_system, rack_uplink, server)


def simulate(physics: Callable[[Rng, int], StepTime], learned: Learned, curves: int, noise: float) -> Row:
    """A line of the table: the share of simulated measurements that the intervals hold."""
    rng, rows = np.random.default_rng(17), []
    for _ in range(curves):
        per_node = int(rng.choice([1, 4, 8]))
        sizes = np.append(POINTS, TARGETS)
        rates = sizes / physics(rng, per_node)(sizes) * np.exp(rng.normal(0, noise, len(sizes)))
        n, ones = len(POINTS), np.ones(len(POINTS))
        unknown, saturates = np.full(n, np.nan), physics is server
        curve = Curve("", "", "", POINTS, ones, rates[:n], unknown, ones, float(per_node), may_saturate=saturates)
        predicted = predict(curve, weak(curve, TARGETS), learned)
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
    """Print what the curves teach, and both tables."""
    curves = options("prediction", __doc__, curves=(400, "simulated for each line")).parse_args().curves
    published = calibration.published_curves(Study().published)
    print(published.in_general, "\n")
    show(public(all_checks(published)), end="\n\n")
    show(simulate(one, published.in_general, curves, noise) for one in PHYSICS for noise in (0.005, 0.03))


if __name__ == "__main__":
    main()
