"""The document of a proposal: its parts, and the same as Markdown, LaTeX and CSV."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd
from tabulate import tabulate

from analysis import labels
from analysis.documents import csv_text, markdown_table
from analysis.proposal import JobPlan, Proposal, ProposedSize, SupportedCurve, sentence
from analysis.stats import Number

FIGURE = "proposal-scaling"
_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "'": r"\textquotesingle{}", "\n": " ",
    **{character: f"\\{character}" for character in "&%$#_{}"},
})  # fmt: skip
# What pdflatex has no character for in the encoding T1, so that it would stop: names may have any.
_UNKNOWN_TO_LATEX = re.compile(
    "[^\n -~\xa0-\u0125\u0128-\u0137\u0139-\u013e\u0141-\u0148\u014a-\u0165\u0168-\u017e"
    "\u2013\u2014\u2018-\u201a\u201c-\u201e\u2020-\u2022\u2026\u20ac]"
)


@dataclass(frozen=True)
class Section:
    """A part of the document: paragraphs, then the figure if it is here, then facts by name, then rows of a table."""

    title: str
    paragraphs: list[str] = field(default_factory=list)
    rows: list[dict[str, str]] = field(default_factory=list)
    facts: Mapping[str, str] = field(default_factory=dict)
    figure: bool = False


def title(content: Proposal) -> str:
    """Return the title of the document."""
    return f"Scaling of {', '.join(dict.fromkeys(curve.model for curve in content.curves))}"


def sections(content: Proposal) -> list[Section]:
    """Return the parts of the document in order."""
    plan, in_order = content.plan, [*content.curves_in("weak"), *content.curves_in("strong")]
    result = [*(sentence(curve, content.plan.threshold) for curve in in_order), content.planned, *content.caveats]
    parts = [Section("Result", result, figure=True), Section("Code and problem", facts=content.code)]
    for kind in ("weak", "strong"):
        constant = "work" if kind == "weak" else "problem"
        if curves := content.curves_in(kind):
            rows = [_cells(curve, row, content.plan.threshold, curves) for curve in curves for row in curve.rows]
            whose = "of each rank" if kind == "weak" else "of the whole job"
            parts.append(Section(f"{kind.capitalize()} scaling (constant {constant} {whose})", rows=_filled(rows)))
    works = {labels.work_and_period(curve.unit)[0] for curve in in_order}
    work = (works.pop() if len(works) == 1 else "") or "units of work"
    asked = "" if plan.from_user else " (IMAGES= and EPOCHS= give those of your job)"
    run = f"A run processes {plan.images:,.0f} {work}{asked}"
    text = f"{run}; {plan.runs} of them {'is' if plan.runs == 1 else 'are'} applied for. Time to start is not included."
    sizes = [(curve, row) for curve in in_order for row in curve.rows]
    needs = [_size(curve, row) | _needs(curve, row) for curve, row in sizes]
    parts.append(Section("Size of a job", rows=_filled(needs)))
    costs = [_size(curve, row) | _cost(curve, row, plan) for curve, row in sizes]
    parts.append(Section("Hours of the application", [text], _filled(costs)))
    return [*parts, Section("Machine and data", facts=content.machine), Section("How to read it", content.notes)]


def _filled(rows: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return rows without columns that are empty in all of them."""
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    return [{name: row[name] for name in names} for row in rows]


def _cells(
    curve: SupportedCurve, row: ProposedSize, threshold: float, curves: Sequence[SupportedCurve]
) -> dict[str, str]:
    alike = len({other.unit for other in curves}) == 1
    return {
        "model": curve.name,
        "nodes": _nodes(row),
        "ranks": str(row.ranks),
        curve.unit if alike else "rate": _text(row.rate) + ("" if alike else f" {curve.unit}"),
        "speedup": row.speedup.text(".2f"),
        "gain over the size before": row.gain.text(".2f") + f" of {row.step:g}" if row.gain else "",
        "efficiency": row.efficiency.text(".2f"),
        f"threshold {100 * threshold:g} %": row.verdict,
    }


def _size(curve: SupportedCurve, row: ProposedSize) -> dict[str, str]:
    return {"model": curve.name, "scaling": curve.kind, "nodes": _nodes(row)}


def _nodes(row: ProposedSize) -> str:
    return f"{row.nodes}{' (predicted)' * row.predicted}"


def _needs(curve: SupportedCurve, row: ProposedSize) -> dict[str, str]:
    return {
        "cores": f"{row.nodes * curve.node.cores:g}",
        "GPUs": str(row.nodes * curve.node.gpus or ""),
        "batch a rank": str(row.batch or ""),
        "measured": row.measured,
        "job [s]": "" if math.isnan(row.job_s) else f"{row.job_s:.3g}",
        "GiB a process": f"{row.memory_bytes / 2**30:.2g}" if row.memory_bytes else "",
    }


def _cost(curve: SupportedCurve, row: ProposedSize, plan: JobPlan) -> dict[str, str]:
    in_a_node = {"node": 1.0, "core": curve.node.cores} | ({"GPU": curve.node.gpus} if curve.node.gpus else {})
    hours = {name: row.node_hours.scaled(number) for name, number in in_a_node.items()}
    totals = {name: number.scaled(plan.runs) for name, number in hours.items()} if plan.runs > 1 else {}
    return {
        "hours a run": _text(row.hours),
        **{f"{name} hours a run": _text(number) for name, number in hours.items()},
        **{f"{name} hours, {plan.runs} runs": _text(number) for name, number in totals.items()},
    }


def _text(number: Number) -> str:
    ends = [end for end in (number.value, number.low, number.high) if not math.isnan(end)]
    return number.text(",.0f" if max(ends) >= 1000 else ".3g") if ends else ""


def table(content: Proposal) -> str:
    """Return every size of every curve as CSV: numbers with the ends of their intervals, in the units of the names."""
    return csv_text(pd.DataFrame([_plain(curve, row, content.plan) for curve in content.curves for row in curve.rows]))


def _plain(curve: SupportedCurve, row: ProposedSize, plan: JobPlan) -> dict[str, object]:
    node = curve.node
    numbers = {"rate": row.rate, "speedup": row.speedup, "gain": row.gain, "efficiency": row.efficiency}
    numbers |= {"hours": row.hours, "node_hours": row.node_hours}
    numbers |= {"core_hours": row.node_hours.scaled(node.cores), "gpu_hours": row.node_hours.scaled(node.gpus)}
    return {
        "experiment": curve.experiment, "model": curve.model, "series": curve.series, "scaling": curve.kind,
        "nodes": row.nodes, "ranks": row.ranks, "cores": row.nodes * node.cores, "gpus": row.nodes * node.gpus,
        "batch_per_rank": row.batch, "source": "predicted" if row.predicted else "measured", "unit": curve.unit,
        **{f"{name}{end and '_' + end}": getattr(number, end or "value") if number else None
           for name, number in numbers.items() for end in ("", "low", "high")},
        "verdict": row.verdict, "launch_s": row.job_s, "process_memory_bytes": row.memory_bytes or None,
        "work_a_run": plan.images, "runs": plan.runs,
    }  # fmt: skip


def markdown(content: Proposal) -> str:
    """Return the document as Markdown."""
    parts = [f"# {title(content)}"]
    for section in sections(content):
        parts += [f"## {section.title}", *section.paragraphs]
        parts += [f"![throughput, speedup and efficiency over nodes]({FIGURE}.png)"] if section.figure else []
        rows = section.rows or [{"what": name, "value": text} for name, text in section.facts.items()]
        parts += [markdown_table(rows)] if rows else []
    return "\n\n".join(parts) + "\n"


def latex(content: Proposal) -> str:
    """Return the document as LaTeX, which pdflatex translates."""
    packages = ("[a4paper, margin=15mm]{geometry}", "{booktabs, graphicx, textcomp}", "[T1]{fontenc}")
    parts = [r"\documentclass[10pt]{article}", *(rf"\usepackage{package}" for package in packages)]
    parts += [
        r"\setlength{\parindent}{0pt}",
        r"\begin{document}\raggedright",
        rf"\section*{{{_escaped(title(content))}}}",
    ]
    for section in sections(content):
        parts += [rf"\subsection*{{{_escaped(section.title)}}}"]
        parts += [f"{_escaped(paragraph)}\n" for paragraph in section.paragraphs]
        parts += [rf"\includegraphics[width=\textwidth]{{{FIGURE}.pdf}}"] if section.figure else []
        parts += _description(section.facts) + _tabular(section.rows)
    return "\n".join([*parts, r"\end{document}", ""])


def _escaped(text: str) -> str:
    known = _UNKNOWN_TO_LATEX.sub(lambda character: f"U+{ord(character[0]):04X}", text)
    return known.translate(_LATEX)


def _description(facts: Mapping[str, str]) -> list[str]:
    items = [rf"\item[{_escaped(name)}] {{}}{_escaped(text)}" for name, text in facts.items()]
    return [r"\begin{description}\setlength{\itemsep}{0pt}", *items, r"\end{description}"] if items else []


def _tabular(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a table without vertical lines, scaled down where it is wider than the text."""
    if not rows:
        return []
    table = tabulate(rows, headers="keys", tablefmt="latex_booktabs", disable_numparse=True)
    return [rf"\resizebox{{\ifdim\width>\textwidth\textwidth\else\width\fi}}{{!}}{{\footnotesize {table}}}"]
