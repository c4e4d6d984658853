"""Predictions in words and tables."""

from __future__ import annotations

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

WIDTH = 100
# Forms that are further apart disagree: then what each of them says is shown.
_APART = 1.05
_NAMED = 3  # curves of one reason that are named; the JSON has all


def report(answers: Sequence[Answer], accuracy: str) -> str:
    """All answers: a table of what is predicted, why the rest is not, and how good such predictions were."""
    shown = table(answers) if any(target.supported for found in answers for target in found.targets) else ""
    notes = [(_how_to_read(answers, shown) if shown else "") + accuracy, *_saturating(answers), *_once(answers)]
    lines = [*filter(None, [shown]), *not_given(answers)]
    return "\n\n".join([*lines, *(textwrap.fill(note, WIDTH) for note in notes)])


def table(answers: Sequence[Answer]) -> str:
    """What is predicted, one line a curve and target."""
    rows = [_row(found.curve, target) for found in answers for target in found.targets if target.supported]
    kept = {header: any(row.get(header) for row in rows) for header in _HEADERS}
    cells = [[row.get(header, "") for header in _HEADERS if kept[header]] for row in rows]
    works = {found.curve.work for found in answers}
    rate = f"{works.pop()}/s".lstrip("/") if len(works) == 1 and works != {""} else "rate"
    shown = [rate if header == "images/s" else header for header in _HEADERS if kept[header]]
    return tabulate(cells, shown, disable_numparse=True)


_HEADERS = ("model", "curve", "ranks", "images/s", "measured", "speedup", "efficiency", "wall time", "cost", "forms")


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
    alone = sorted(target.of_forms.values())
    if alone[-1] > _APART * alone[0]:
        row["forms"] = f"{_plain(alone[0], '.4g')} to {_plain(alone[-1], '.4g')}"
    return row


def _ends(number: Number, form: str, unit: str = "") -> str:
    value, low, high = (_plain(x, form) for x in (number.value, number.low, number.high))
    return f"{value}{unit}\n({low} to {high})"


def _plain(number: float, form: str) -> str:
    """A number without an exponent: of 1000 or more in whole ones."""
    return f"{number:{form}}" if number < 1000 else f"{number:,.0f}"


def not_given(answers: Sequence[Answer]) -> Iterator[str]:
    """Why the rest is not predicted: one paragraph a reason, with the curves that it holds for."""
    reasons: dict[tuple[str, tuple[int, ...]], list[str]] = defaultdict(list)
    for found in answers:
        for why in dict.fromkeys(target.why for target in found.targets if target.why):
            ranks = tuple(target.ranks for target in found.targets if target.why == why)
            reasons[why, ranks].append(_called(found.curve))
    for (why, ranks), curves in reasons.items():
        more = f"; and {len(curves) - _NAMED} more" if len(curves) > _NAMED else ""
        to = ", ".join(map(str, ranks))
        yield textwrap.fill(f"Not predicted to {to}: {why}. {'; '.join(curves[:_NAMED])}{more}.", WIDTH)


def _called(curve: Curve) -> str:
    return ", ".join(word for word in (curve.model, curve.name) if word) or "the curve"


def _how_to_read(answers: Sequence[Answer], shown: str) -> str:
    """What the columns mean."""
    bases = {int(found.curve.ranks[found.curve.base]) for found in answers if len(found.curve.ranks)}
    of = f", {bases.pop()}" if len(bases) == 1 else ""
    said = f"In brackets: the {LEVEL:.0%} interval of one measurement there. Speedup and efficiency: over the fewest "
    said += f"ranks of the curve{of}. "
    return said + ("Forms: what each of them says where they disagree. " if "forms" in shown else "")


def _saturating(answers: Sequence[Answer]) -> Iterator[str]:
    """Why lower ends are so low, where a server may saturate beyond the points."""
    if any(found.curve.may_saturate and target.supported for found in answers for target in found.targets):
        yield (
            "How gradients are exchanged is not known. One server that all ranks send to may saturate just beyond the "
            "points, which nothing in them tells: the lower ends allow for it. Where it was an allreduce (Horovod, "
            "NCCL, MPI), say so: EXCHANGE=allreduce (--exchange allreduce)."
        )


def _once(answers: Sequence[Answer]) -> Iterator[str]:
    """What a job pays once in the wall times, and why a cost is missing: one line for the curves that share it."""
    curves: dict[str, list[str]] = defaultdict(list)
    for found in answers:
        for target in found.targets[-1:] if any("wall_s" in target.numbers for target in found.targets) else []:
            once = found.fixed_s
            said = "without what a job pays once, which these points do not tell"
            if once is not None:
                said = f"with {max(once.value, 0.0):.3g} s that a job pays once (make explain)"
            curves[said + ("; no cost: ranks_per_node is not known" if math.isnan(target.nodes) else "")].append(
                _called(found.curve)
            )
    for said, of in curves.items():
        yield f"Wall time of {'; '.join(of)}: {said}."


def next_points(curve: Curve, points: Sequence[NextPoint], command: str) -> str:
    """What to measure next for one curve."""
    said = [_point(point) for point in points]
    filled = textwrap.fill(f"To measure next, {_called(curve)}: {'; then '.join(said)}.", WIDTH)
    return f"{filled}\n    {command}" if command else filled


def _point(point: NextPoint) -> str:
    cost = "" if math.isnan(point.node_hours) else f", about {point.node_hours:.2g} node hours"
    where = f"{point.ranks} ranks ({point.nodes} node{'s' * (point.nodes != 1)}{cost})"
    if math.isinf(point.after):
        return where
    if math.isnan(point.before):
        return f"{where}, with which a target is supported, within a factor of {point.after:.2f}"
    return f"{where}, which narrows the interval from a factor of {point.before:.2f} to {point.after:.2f}"


def accuracy_sentence(found: Accuracy) -> str:
    """The accuracy in one sentence."""
    share = f"{found.held / found.points:.0%}; {found.low:.0%} to {found.high:.0%}, were they independent"
    return (
        f"Checked on the {found.curves} published curves with points above {ABOVE} ranks, each predicted with what the "
        f"curves of other machines taught: the largest point was predicted from all below it within "
        f"{found.largest_error:.1%} (median), and the {LEVEL:.0%} interval held {found.held} of {found.points} points "
        f"({share}), on {found.machines} machines."
    )
