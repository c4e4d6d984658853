"""Comparisons as text and tables."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import get_args

from analysis import labels
from analysis.compare import AllowedRange, Comparison, Comparisons, ComparisonVerdict
from analysis.compare.launch_values import LEAST_DAYS, Key
from analysis.compare.sessions import MachineHistory, PointHistory, days
from analysis.documents import markdown_table, tally
from analysis.stats import Number
from common.terminal import counted, paragraph, text_table

Section = tuple[str, list[dict[str, str]]]
Notes = dict[str, Sequence[str]]
# How tables and figures show a quantity: its name, its unit ("": none), and the factor to that unit.
DISPLAY: dict[str, tuple[str, str, float]] = {
    "images_per_s": ("throughput", "images/s", 1.0),
    "speedup": ("speedup", "", 1.0),
    "wall_s": ("wall time", "s", 1.0),
    "job_s": ("job time", "s", 1.0),
    "bus_bandwidth_bytes_per_s": ("bus bandwidth", "GB/s", 1e-9),
    "allreduce_s": ("allreduce", "ms", 1e3),
}


def display(quantity: str, unit: str = "images/s") -> tuple[str, str, float]:
    """Return how a quantity in a unit is shown, as in DISPLAY."""
    if quantity == "images_per_s":  # that of a table may count something else
        return "throughput", unit, 1.0
    return DISPLAY.get(quantity, (quantity.replace("_", " "), unit if unit != "fraction" else "", 1.0))


def quantity(row: Comparison | Key) -> str:
    """Return the quantity of a comparison or a point with its unit."""
    name, unit, _ = display(row.quantity, row.unit)
    return f"{name} [{unit}]" if unit else name


def subject(model: str, quantity: str) -> str:
    """Return the name of the model, or of allreduce alone, or of all models."""
    alone = "allreduce" if quantity in ("allreduce_s", "bus_bandwidth_bytes_per_s") else "all"
    return labels.name(model) if model else alone


def _mean(row: Comparison, number: Number) -> str:
    count = "" if number.variation == "rounding" else f" ({number.n})"
    return "" if math.isnan(number.value) else f"{display(row.quantity)[2] * number.value:.4g}{count}"


def _allowed(allowed: AllowedRange) -> str:
    if allowed.low == allowed.high:
        return f"{allowed.low:g}"
    ends = (("from", allowed.low), ("to", allowed.high))
    return " ".join(f"{word} {end:.4g}" for word, end in ends if end is not None and math.isfinite(end))


def _cells(row: Comparison, reference: str, measured: str) -> dict[str, str]:
    return {
        "model": subject(row.model, row.quantity),
        "point": row.point,
        "quantity": quantity(row),
        f"{reference} (n)": _mean(row, row.reference),
        f"{measured} (n)": _mean(row, row.measured),
        "ratio (95 % interval)": "" if math.isnan(row.ratio.value) else row.ratio.text(),
        "allowed": _allowed(row.allowed),
        "p": "" if row.p_value is None else f"{row.p_value:.2g}",
        "verdict": row.verdict,
        "note": row.note,
    }


def sections(rows: Sequence[Comparison], reference: str, measured: str) -> list[Section]:
    """Return a table of comparisons for each experiment and pair of settings; the texts name the two sides."""

    def title(row: Comparison) -> str:
        return f"{row.experiment}: {row.on}, against {row.source}"

    ordered = sorted(rows, key=title)
    return [(name, [_cells(row, reference, measured) for row in alike]) for name, alike in groupby(ordered, key=title)]


def counts(rows: Sequence[Comparison]) -> str:
    """Return how many comparisons have each verdict."""
    return f"{len(rows)} comparisons: {tally([row.verdict for row in rows], get_args(ComparisonVerdict))}"


EXPLANATION = (
    "The ratio is of what was measured to what it is compared with. Alike: its 90 % interval is within the allowed "
    "ratios. Worse, better: its whole 95 % interval is beyond them; of times and epochs, worse is above. Without an "
    "interval nothing is decided. p is how often a verdict would come from chance, corrected for the number of "
    "comparisons (Holm): all verdicts together are wrong at most 5 times in 100. docs/history.md, docs/claims.md"
)
_IN_ROUNDS = (
    "Curves in rounds: the reports measured each point in a separate launch; it is not shown that both give "
    "the same number (docs/statistics.md)."
)
_SETS = "A value is of one launch: of a speedup in rounds, their median. No margin is given: equality cannot be shown."


def published_tables(compared: Comparisons) -> tuple[list[Section], Notes]:
    """Return the tables of a comparison with the reports, one for each pair of settings, and the notes."""
    rows = compared.comparisons
    how = [EXPLANATION, *([_IN_ROUNDS] if any("in rounds" in row.on for row in rows) else [])]
    return sections(rows, "published", "local"), {
        "How": how if rows else [],
        "Local records without a published counterpart": compared.unpaired,
        "Published numbers without a local counterpart": compared.reference_alone,
        "Verdicts": [counts(rows)],
        "Among published curves (docs/atlas.md)": compared.placements,
    }


def sets_tables(compared: Comparisons) -> tuple[list[Section], Notes]:
    """Return the tables of a comparison of two sets (values, differences of the runs), and the notes."""
    differences = [
        {"what": row.what, "A": row.reference, "B": row.measured, "experiments": row.experiments}
        for row in compared.differences
    ]
    tables = sections(compared.comparisons, "A", "B") or [("B against A", [])]
    return [*tables, ("How their runs differ", differences)], {
        "How": [EXPLANATION, _SETS],
        "Not compared": compared.unpaired,
        "Notes": compared.left_out,
    }


def failures(rows: Sequence[Comparison]) -> dict[str, str]:
    """Return the name of each value, with its ratio and interval if it is worse, else with ""."""
    return {
        f"{row.experiment} {subject(row.model, row.quantity)}, {row.point}, {quantity(row)}, {row.on}": (
            f"worse: {row.ratio} times {row.source}" if row.verdict == "worse" else ""
        )
        for row in rows
    }


_MOST = 8  # of provenance that the table names; the JSON has all


def session_table(history: MachineHistory) -> str:
    """Return a table of the sessions of one machine, and what changed between them."""
    cells = [
        {
            "session": session.number,
            "measured": days(session.began, session.ended),
            "launches": len(session.records),
            "commit": session.provenance.commit[0] or "not known",
            "GPU driver": session.provenance.driver[0] or "none",
            "kernel": session.provenance.kernel[0],
            "image": session.provenance.image[0] or "none",
        }
        for session in history.sessions
    ]
    lines = [paragraph(f"== {history.machine}"), "", text_table(cells)]
    for session in history.sessions:
        if changes := session.changed:
            lines += ["", f"what changed before session {session.number}:"]
            lines += [f"  {change.what}: {change.reference} -> {change.measured}" for change in changes[:_MOST]]
            lines += [f"  and {len(changes) - _MOST} more (--format json)"] if len(changes) > _MOST else []
    return "\n".join(lines)


def value_table(values: Iterable[tuple[Key | PointHistory, Number]], unit_of_n: str) -> str:
    """Return a table of the values of points with their intervals; `unit_of_n`: what their n counts."""
    cells = [
        {
            "experiment": point.experiment,
            "model": subject(point.model, point.quantity),
            "point": point.point,
            "quantity": quantity(point),
            "value (95 % interval)": str(number.scaled(display(point.quantity)[2])),
            unit_of_n: number.n,
        }
        for point, number in values
    ]
    return text_table(cells)


def days_text(points: Sequence[PointHistory]) -> str:
    """Return the values of points over days; until there are enough, how many are missing."""
    values = [(point, point.over_days) for point in points if point.over_days.has_interval]
    if values:
        return f"== for any day: mean over days, interval between days\n\n{value_table(values, 'days')}"
    known = max((point.over_days.n for point in points), default=0)
    return paragraph(
        f"What holds on any day needs {LEAST_DAYS} days with the same commit and versions (so far "
        f"{counted(known, 'day')}): until then intervals are about the launches that were made."
    )


def text(tables: Sequence[Section], notes: Mapping[str, Sequence[str]]) -> str:
    """Return tables and notes as text."""
    parts = []
    for title, rows in tables:
        parts.append(f"{paragraph(f'== {title}')}\n\n{text_table(rows) if rows else 'nothing'}")
    for title, lines in notes.items():
        if lines:
            parts.append("\n".join([f"{title}:", *(paragraph(line, "  ", "  ") for line in lines)]))
    return "\n\n".join(parts)


def markdown(tables: Sequence[Section], notes: Mapping[str, Sequence[str]]) -> str:
    """Return tables and notes as Markdown."""
    parts = [f"## {title}\n\n{markdown_table(rows) if rows else 'Nothing.'}" for title, rows in tables]
    parts += [f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines) for title, lines in notes.items() if lines]
    return "\n\n".join(parts)
