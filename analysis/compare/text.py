"""Comparisons as text and tables."""

import math
import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import get_args

from tabulate import tabulate

from analysis.compare.curves import SIZES
from analysis.compare.published import AllowedRange, Comparisons, ReportComparison, VerdictName
from analysis.compare.sets import SetComparisons
from analysis.documents import tally
from analysis.stats import Number

Section = tuple[str, list[dict[str, str]]]
Notes = dict[str, Sequence[str]]


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.4g}"


def _published(number: Number) -> str:
    """Return a published number, with the interval that rounds to it if the digits show it."""
    return number.text() if len({_number(end) for end in number.interval}) > 1 else _number(number.value)


def _allowed(allowed: AllowedRange) -> str:
    ends = (("from", allowed.low), ("to", allowed.high))
    return " ".join(f"{word} {end:.4g}" for word, end in ends if end is not None and math.isfinite(end))


def _at(row: ReportComparison) -> str:
    axis = row.axis.replace("_", " ")
    return "" if row.at is None else f"{row.at:g} {axis.removesuffix('s') if row.at == 1 and axis in SIZES else axis}"


def _cells(row: ReportComparison) -> dict[str, str]:
    return {
        "model": row.model or "all",
        "quantity": f"{row.quantity} [{row.unit}]",
        "at": _at(row),
        "published (rounding)": _published(row.published),
        "local (95 % interval)": row.local.text(),
        "n": str(row.local.n),
        "allowed": _allowed(row.allowed),
        "p": _number(row.p_value),
        "verdict": row.verdict,
        "note": row.note,
    }


def published_sections(compared: Comparisons) -> tuple[list[Section], Notes]:
    """Return the tables of a comparison with the reports, one for each pair of settings, and the notes."""

    def title(row: ReportComparison) -> str:
        report = f"report {row.report}, " if row.report else ""
        return f"{report}{row.experiment}: {row.published_on}; local: {row.local_on}"

    ordered = sorted(compared.rows, key=lambda row: (row.report or "~", row.experiment, title(row)))
    sections = [(name, [_cells(row) for row in rows]) for name, rows in groupby(ordered, key=title)]
    counts = tally([row.verdict for row in compared.rows], get_args(VerdictName))
    how = [
        "A number is within the allowed values if its 90 % interval is, outside if its whole 95 % interval is; p is "
        "how often that would come from chance. Over all numbers that are judged p is corrected (Holm): together they "
        "are wrong at most 5 times in 100. Without an interval (fewer than 6 values) nothing is decided."
    ]
    if any("in rounds" in row.local_on for row in compared.rows):
        how.append(
            "Curves in rounds: the reports measured each point in a separate launch; it is not shown that both give "
            "the same number (docs/statistics.md)."
        )
    return sections, {
        "How": how if compared.rows else [],
        "Local records without a published counterpart": compared.local_alone,
        "Published numbers without a local counterpart": compared.published_alone,
        "Verdicts": [f"{len(compared.rows)} comparisons: {counts}"],
    }


def sets_sections(compared: SetComparisons, a: Path, b: Path) -> tuple[list[Section], Notes]:
    """Return the tables of a comparison of two sets (ratios, differences of the runs), and the notes."""
    ratios = [
        {
            "experiment": row.experiment,
            "point": row.point,
            "quantity": f"{row.quantity.replace('_per_', '/')} by {row.by}",
            "of A": _number(row.a.value),
            "n": str(row.a.n),
            "of B": _number(row.b.value),
            "n of B": str(row.b.n),
            "B / A (95 % interval)": row.ratio.text(),
            "p": _number(row.p_value),
            "verdict": row.verdict,
            "note": row.note,
        }
        for row in compared.ratios
    ]
    differences = [
        {"what": row.what, "A": row.a, "B": row.b, "experiments": row.experiments} for row in compared.differences
    ]
    how = [
        "Each repeat is an independent launch: A and B are not paired. Rates: Welch's interval (Student's t, each set "
        "with its own variance), on the logarithm of the ratio. Speedups of points in rounds: the ratio of the medians "
        "over rounds, by order statistics. p is corrected for the number of ratios (Holm)."
    ]
    return [(f"B = {b} against A = {a}", ratios), ("How their runs differ", differences)], {
        "How": how,
        "Not compared": compared.alone,
        "Notes": compared.left_out,
    }


def _text(sections: Sequence[Section], notes: Notes) -> str:
    parts = []
    for title, rows in sections:
        widths = [34 if key in ("note", "A", "B", "what") else None for key in rows[0]] if rows else []
        table = tabulate(rows, headers="keys", disable_numparse=True, maxcolwidths=widths) if rows else "nothing"
        parts.append("\n".join([*textwrap.wrap(f"== {title}", 110), "", table]))
    for title, lines in notes.items():
        if lines:
            # A path stays whole, to be copied.
            wrapper = textwrap.TextWrapper(110, "  ", "    ", break_long_words=False, break_on_hyphens=False)
            parts.append("\n".join([f"{title}:", *map(wrapper.fill, lines)]))
    return "\n\n".join(parts)


def _markdown(sections: Sequence[Section], notes: Notes) -> str:
    parts = []
    for title, rows in sections:
        cells = [{key: value.replace("|", "\\|") for key, value in row.items()} for row in rows]
        table = tabulate(cells, headers="keys", tablefmt="github", disable_numparse=True) if rows else "Nothing."
        parts.append(f"## {title}\n\n{table}")
    parts += [f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines) for title, lines in notes.items() if lines]
    return "\n\n".join(parts)


FORMATS = {"table": _text, "markdown": _markdown}
