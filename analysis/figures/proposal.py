"""Figures of a proposal: throughput, speedup and efficiency of weak and strong scaling, and the document as a PDF."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import matplotlib as mpl

from analysis.figures import plots
from analysis.figures.plots import MM, Line
from analysis.proposal import Kind, Proposal, Section, SupportedCurve
from analysis.stats import Number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PAGE_MM = (210, 297)
_MARGIN_MM, _PANELS_MM = 18, 52
_CELL_SIZE, _LINE_MM, _CELLS = 7, 3.2, 124  # of a table: points, mm, and characters in the width of the page
_QUANTITIES = ("images_per_s", "speedup", "efficiency")


def draw(content: Proposal) -> Figure:
    """Return the figure: a row of three panels for weak and one for strong scaling."""
    kinds = _kinds(content)
    figure = _figure(_PAGE_MM[0] - 2 * _MARGIN_MM, 8 + _PANELS_MM * len(kinds), layout="constrained")
    panels = figure.subplots(len(kinds), 3, squeeze=False)
    for kind, axes in zip(kinds, panels, strict=True):
        _panels(list(axes), content, kind)
    return plots.legend(figure)


def _figure(width_mm: float, height_mm: float, layout: str | None = None) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width_mm * MM, height_mm * MM), layout=layout)  # type: ignore[arg-type]


def _kinds(content: Proposal) -> list[Kind]:
    return [kind for kind in get_args(Kind) if content.curves_in(kind)]


def _panels(panels: Sequence[Axes], content: Proposal, kind: Kind) -> None:
    # Both rows share a legend: a colour stands for one curve in all of them.
    curves = [(number, curve) for number, curve in enumerate(content.curves) if curve.kind == kind]
    nodes = sorted({row.nodes for _, curve in curves for row in curve.rows})
    for axes, quantity in zip(panels, _QUANTITIES, strict=True):
        for number, curve in curves:
            plots.draw(axes, _lines(curve, quantity, number))
        plots.doubling(axes, nodes, "nodes")
    first = min(nodes)
    for number, curve in curves:
        ends = [first, nodes[-1]]
        ideal = [curve.rows[0].images_per_s.value * n / first for n in ends]
        panels[0].plot(ends, ideal, ":", color=plots.nth_colour(number), lw=0.7)
    plots.logarithmic(panels[0], f"{kind} scaling: images/s")
    plots.ideal(panels[1], nodes)
    plots.logarithmic(panels[1], "speedup", base=2)
    plots.fraction(panels[2], "efficiency")
    label = f"threshold {100 * content.threshold:g} %"
    panels[2].axhline(content.threshold, color="black", linestyle="--", lw=0.8, label=label)


def _lines(curve: SupportedCurve, quantity: str, number: int) -> list[Line]:
    """Return the measured sizes as a line, and predicted ones hollow and dotted; invalid sizes are hollow, too."""
    colour = plots.nth_colour(number)
    measured = curve.measured
    predicted = [row for row in curve.rows if row.predicted]
    lines = [_line(curve.name, measured, quantity, colour, plots.nth_marker(number), "-")]
    if predicted:
        lines.append(_line("predicted", predicted, quantity, colour, "o", ":", hollow=True))
    return lines


def _line(
    label: str, rows: Sequence, quantity: str, colour: str, marker: str, style: str, hollow: bool = False
) -> Line:
    numbers: list[Number] = [getattr(row, quantity) for row in rows]
    y, low, high = ([getattr(number, end) for number in numbers] for end in ("value", "low", "high"))
    hollows = [hollow or not row.valid for row in rows]
    return Line(label, [row.nodes for row in rows], y, colour, marker, style, low, high, hollows)


def write_pdf(content: Proposal, sections: Sequence[Section], title: str, path: Path) -> int:
    """Write the document as A4 pages; returns how many."""
    from matplotlib.backends.backend_pdf import PdfPages

    with mpl.rc_context(fname=plots.STYLE):
        pages = _Pages()
        pages.text(title, 13, bold=True)
        for section in sections:
            pages.section(section, content)
        with PdfPages(path, metadata={"CreationDate": None, "Producer": None, "Creator": None}) as pdf:  # type: ignore[dict-item]
            for number, page in enumerate(pages.figures, 1):
                page.text(0.5, 0.025, f"{number} / {len(pages.figures)}", ha="center", fontsize=6.5, color="0.4")
                pdf.savefig(page)
        return len(pages.figures)


class _Pages:
    """Pages that are filled from top to bottom."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self._y = 0.0
        self._turn()

    def _turn(self) -> None:
        self.figures.append(_figure(*_PAGE_MM))
        self._y = float(_PAGE_MM[1] - _MARGIN_MM)

    def _room(self, height_mm: float) -> None:
        if self._y - height_mm < _MARGIN_MM:
            self._turn()

    def _put(self, x_mm: float, text: str, size: float, **style: object) -> None:
        x, y = x_mm / _PAGE_MM[0], self._y / _PAGE_MM[1]
        self.figures[-1].text(x, y, text, fontsize=size, **({"va": "top"} | style))  # type: ignore[arg-type]

    def text(self, text: str, size: float = 8, bold: bool = False) -> None:
        """Write a paragraph; its lines are as long as its font allows on average."""
        width_mm = _PAGE_MM[0] - 2 * _MARGIN_MM
        for line in textwrap.wrap(text, int(width_mm / (size * 0.19))):
            self._room(size * 0.5)
            self._put(_MARGIN_MM, line, size, fontweight="bold" if bold else "normal")
            self._y -= size * 0.5
        self._y -= 1

    def section(self, section: Section, content: Proposal) -> None:
        """Write a section: its title, paragraphs, figure and table."""
        kinds = _kinds(content) if section.figure else []
        self._y -= 2
        self._room(12 + len(kinds) * _PANELS_MM)
        self.text(section.title, 10, bold=True)
        for paragraph in section.paragraphs:
            self.text(paragraph)
        for kind in kinds:
            self._panels(content, kind)
        if section.rows:
            self._table(section.rows)

    def _panels(self, content: Proposal, kind: str) -> None:
        self._room(_PANELS_MM + 8)
        figure, width = self.figures[-1], (_PAGE_MM[0] - 2 * _MARGIN_MM) / 3
        bottom = self._y - _PANELS_MM + 10
        panels = [
            figure.add_axes((
                (_MARGIN_MM + 11 + nth * width) / _PAGE_MM[0], bottom / _PAGE_MM[1],
                (width - 14) / _PAGE_MM[0], (_PANELS_MM - 14) / _PAGE_MM[1],
            ))
            for nth in range(3)
        ]  # fmt: skip
        _panels(panels, content, kind)  # type: ignore[arg-type]
        handles: dict = {}
        for axes in panels:
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        figure.legend(
            handles.values(), handles.keys(), loc="upper center", ncols=min(len(handles), 4), fontsize=6.5,
            bbox_to_anchor=(0.5, (bottom - 8) / _PAGE_MM[1]), frameon=False,
        )  # fmt: skip
        self._y -= _PANELS_MM + 3.5 * (1 + (len(handles) - 1) // 4)

    def _table(self, rows: Sequence[dict[str, str]]) -> None:
        """Write a table as wide as the page at most: cells of the widest columns are wrapped."""
        widths = {name: max(len(name), *(len(row[name]) for row in rows)) + 2 for name in rows[0]}
        while sum(widths.values()) > _CELLS:
            widths[max(widths, key=widths.__getitem__)] -= 1
        self._y -= 2.4
        self._row({name: name for name in rows[0]}, widths, "bold")
        for row in rows:
            self._row(row, widths, "normal")
        self._y -= 1

    def _row(self, cells: dict[str, str], widths: dict[str, int], weight: str) -> None:
        wrapped = {name: textwrap.wrap(text, widths[name] - 1) or [""] for name, text in cells.items()}
        height = _LINE_MM * max(map(len, wrapped.values()))
        self._room(height)
        top, x_mm = self._y, float(_MARGIN_MM)
        for name, lines in wrapped.items():
            for nth, line in enumerate(lines):
                self._y = top - nth * _LINE_MM
                self._put(x_mm, line, _CELL_SIZE, fontweight=weight, va="baseline")
            x_mm += widths[name] * _CELL_SIZE * 0.2
        self._y = top - height - 0.6
