"""Two curves beside each other: rates, their ratios to the smallest size of both, and the shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from analysis import metrics, speedups
from analysis.compare.comparison import Comparison, Subject, compared
from analysis.compare.curves import SIZES, Curve
from analysis.compare.tolerances import Tolerance
from analysis.curves import uncertain
from analysis.stats.number import Number, combined, unknown
from analysis.stats.repeats import median


def compare_curves(published: Curve, local: Curve, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """Two curves of one model over the same axis: raw rates, their ratios to the smallest size of both, their shape.

    Where the axis is one of scaling the ratios are speedup and efficiency, and the shape is the efficiency that each
    doubling keeps, over all sizes of each curve, which need not be the same.
    """
    by = local.by.replace(" ", "_")
    both = sorted(set(published.sizes) & set(local.sizes))
    mine = points(local.only(both))
    if published.unit == local.unit == "images/s" and local.by == "throughput":
        for size in both:
            what = Subject(published, local, "images_per_s", size)
            yield compared(what, published.printed(size), mine[size]["rate"], what.around(limits))
    for size in both[1:]:
        rates = {"rate": published.printed(size), "base": published.printed(both[0])}
        stated = combined(lambda rate, base: metrics.speedup(rate, base), rates)
        scaled = {"speedup": stated, "efficiency": stated.over(size / both[0])} if local.axis in SIZES else {}
        for name, value in (scaled or {"speedup": stated}).items():
            what = Subject(published, local, f"{name}_{by}" if scaled else "relative_throughput", size, both[0])
            limit, note = what.around(limits), f"over {both[0]:g}"
            if name == "efficiency" and limit is None and what.find(what.quantity.replace(name, "speedup"), limits):
                note += "; judged as the speedup"
            yield compared(what, value, mine[size][name], limit, note)
    yield from _shapes(published, local, limits)


def _shapes(published: Curve, local: Curve, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """The efficiency that each doubling keeps, without the points that are no measurement of scaling.

    For information where both curves have the same two sizes: then it is their speedup once more.
    """
    kept = local.only(size for size in local.sizes if not local.why_lost(size))
    if local.axis not in SIZES or len(set(published.sizes)) < 2 or len(set(kept.sizes)) < 2:
        return
    quantity = f"efficiency_{local.by.replace(' ', '_')}_per_doubling"
    spans = (f"{min(c.sizes):g} to {max(c.sizes):g}" for c in (published, kept))
    note = "report {}, local {} {}".format(*spans, local.axis)
    if left := local.why_lost():
        note += f"; without {left}"
    what = Subject(published, replace(kept, lost=()), quantity)
    same = set(published.sizes) == set(kept.sizes) and len(set(kept.sizes)) == 2
    rates = {f"r{nth}": published.printed(size) for nth, size in enumerate(published.sizes)}

    def shape(**found: float) -> float:
        return metrics.per_doubling(published.sizes, [*found.values()]).value

    stated = combined(shape, rates) if len(rates) <= 8 else unknown(shape(**{n: r.value for n, r in rates.items()}))
    limit = None if same else what.around(limits)
    yield compared(what, stated, _per_doubling(kept), limit, note + ("; judged as the speedup" if same else ""))


def _per_doubling(local: Curve) -> Number:
    if local.in_rounds:
        return median(speedups.shares_per_doubling(local.points(), "size"))
    return metrics.per_doubling(local.sizes, local.rates)


def points(curve: Curve) -> dict[float, dict[str, Number]]:
    """Rate, speedup and efficiency at each size of a local curve, each with the interval of its rounds or repeats."""
    return uncertain(curve.points(), "size")
