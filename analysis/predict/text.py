"""Predictions as tables and sentences."""

import math
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tabulate import tabulate

from analysis.predict.answers import Answer, Target
from analysis.predict.calibration import ABOVE, Accuracy
from analysis.predict.next_points import NextPoint
from analysis.predict.points import Curve
from analysis.predict.prediction import LEVEL
from analysis.stats.number import Number
from analysis.text import counted

WIDTH = 100
_MAX_CURVES = 3  # that are named for one reason; the JSON has all


def report(answers: Sequence[Answer], accuracy: str) -> str:
    """Return a table of the predictions, why others are missing, and how good such predictions were."""
    shown = table(answers) if any(target.supported for one in answers for target in one.targets) else ""
    notes = [(_how_to_read(answers) if shown else "") + accuracy, *_saturating(answers), *_fixed_costs(answers)]
    parts = [*filter(None, [shown]), *_missing(answers)]
    return "\n\n".join([*parts, *(textwrap.fill(note, WIDTH) for note in notes)])


def table(answers: Sequence[Answer]) -> str:
    """Return the predictions, one line a curve and target."""
    rows = [_row(one.curve, target) for one in answers for target in one.targets if target.supported]
    headers = [header for header in _HEADERS if any(row.get(header) for row in rows)]
    cells = [[row.get(header, "") for header in headers] for row in rows]
    works = {one.curve.work for one in answers}
    rate = f"{works.pop()}/s" if len(works) == 1 and works != {""} else "rate"
    shown = [rate if header == "images/s" else header for header in headers]
    return tabulate(cells, shown, disable_numparse=True)


_HEADERS = ("model", "curve", "ranks", "images/s", "measured", "speedup", "efficiency", "wall time", "cost")


def _row(curve: Curve, target: Target) -> dict[str, str]:
    numbers = target.numbers
    row = {
        "model": curve.model,
        "curve": "\n".join(textwrap.wrap(curve.name, 24)),
        "ranks": f"{target.ranks}",
        "images/s": _ends(numbers["images_per_s"], ".4g"),
        "speedup": _ends(numbers["speedup"], ".3g"),
        "efficiency": _ends(numbers["efficiency"], ".2f"),
    }
    if not math.isnan(target.measured):
        inside = numbers["images_per_s"].contains(target.measured)
        row["measured"] = f"{_plain(target.measured, '.4g')}\n({'inside' if inside else 'outside'})"
    if "wall_s" in numbers:
        factor, unit = (1 / 3600, " h") if numbers["wall_s"].value >= 7200 else (1.0, " s")
        row["wall time"] = _ends(numbers["wall_s"].scaled(factor), ".3g", unit)
    if "cost" in numbers:
        row["cost"] = _ends(numbers["cost"], ".3g")
    return row


def _ends(number: Number, form: str, unit: str = "") -> str:
    value, low, high = (_plain(x, form) for x in (number.value, number.low, number.high))
    return f"{value}{unit}\n({low} to {high})"


def _plain(number: float, form: str) -> str:
    """Return a number without an exponent: from 1000 on without decimals."""
    return f"{number:{form}}" if number < 1000 else f"{number:,.0f}"


def _missing(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield why predictions are missing: one paragraph a reason, with the curves that it holds for."""
    reasons: dict[tuple[str, tuple[int, ...]], list[str]] = defaultdict(list)
    for one in answers:
        for why in dict.fromkeys(target.why for target in one.targets if target.why):
            ranks = tuple(target.ranks for target in one.targets if target.why == why)
            reasons[why, ranks].append(_title(one.curve))
    for (why, ranks), curves in reasons.items():
        more = f"; and {len(curves) - _MAX_CURVES} more" if len(curves) > _MAX_CURVES else ""
        to = ", ".join(map(str, ranks))
        yield textwrap.fill(f"Not predicted to {to}: {why}. {'; '.join(curves[:_MAX_CURVES])}{more}.", WIDTH)


def _title(curve: Curve) -> str:
    return ", ".join(filter(None, (curve.model, curve.name))) or "the curve"


def _how_to_read(answers: Sequence[Answer]) -> str:
    """Return the meaning of the columns."""
    bases = {int(one.curve.ranks[one.curve.base]) for one in answers if len(one.curve.ranks)}
    base = f", {bases.pop()}" if len(bases) == 1 else ""
    return (
        f"In brackets: the {LEVEL:.0%} interval of one measurement there. Speedup and efficiency: over the fewest "
        f"ranks of the curve{base}. "
    )


def _saturating(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield why lower ends are so low, where something may saturate beyond the points."""
    shown = [(one.curve, target) for one in answers for target in one.targets if target.supported]
    if any(curve.largest < target.ranks <= 2 * curve.largest and not curve.may_saturate for curve, target in shown):
        yield (
            "At the next doubling the lower ends allow for what curves do from one doubling to the next, not for a "
            "bend right beyond the points, which no point excludes: measure there before you rely on it."
        )
    if any(target.ranks > 2 * curve.largest for curve, target in shown):
        yield (
            "Beyond one doubling the lower ends allow for a bend that the points cannot show: a link, a file system or "
            "a server that all ranks share may saturate just beyond them, and the rate then grows no more."
        )
    if any(curve.may_saturate for curve, _ in shown):
        yield (
            "How gradients are exchanged is not known, so the lower ends allow for that from the largest point on. "
            "Where it was an allreduce (Horovod, NCCL, MPI), say so: EXCHANGE=allreduce (--exchange allreduce)."
        )


def _fixed_costs(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield the fixed cost in the wall times, and why a cost is missing: one line for the curves that share it."""
    curves: dict[str, list[str]] = defaultdict(list)
    for one in answers:
        if not any("wall_s" in target.numbers for target in one.targets):
            continue
        note = "without the fixed cost of a job, which these points do not show"
        if one.fixed_s is not None:
            note = f"with a fixed cost of {max(one.fixed_s.value, 0.0):.3g} s a job (make explain)"
        if math.isnan(one.targets[-1].nodes):
            note += "; no cost: ranks_per_node is not known"
        curves[note].append(_title(one.curve))
    for note, titles in curves.items():
        yield f"Wall time of {'; '.join(titles)}: {note}."


def next_points(curve: Curve, points: Sequence[NextPoint], command: str) -> str:
    """Return the points to measure next for one curve, and the command for them."""
    proposals = "; then ".join(map(_point, points))
    filled = textwrap.fill(f"To measure next, {_title(curve)}: {proposals}.", WIDTH)
    return f"{filled}\n    {command}" if command else filled


def _point(point: NextPoint) -> str:
    cost = "" if math.isnan(point.node_hours) else f", about {point.node_hours:.2g} node hours"
    where = f"{point.ranks} ranks ({counted(point.nodes, 'node')}{cost})"
    if math.isinf(point.after):
        return where
    if math.isnan(point.before):
        return f"{where}, with which a target is supported, within a factor of {point.after:.2f}"
    return f"{where}, which narrows the interval from a factor of {point.before:.2f} to {point.after:.2f}"


def accuracy_sentence(accuracy: Accuracy) -> str:
    """Return the accuracy in one sentence."""
    share = f"{accuracy.held / accuracy.points:.0%}; {accuracy.low:.0%} to {accuracy.high:.0%}, were they independent"
    return (
        f"Checked on the {accuracy.curves} published curves with points above {ABOVE} ranks, each calibrated on "
        f"the curves of other machines: the largest point was predicted from all below it within "
        f"{accuracy.largest_error:.1%} (median), and the {LEVEL:.0%} interval held {accuracy.held} of "
        f"{accuracy.points} points ({share}), on {accuracy.machines} machines."
    )
