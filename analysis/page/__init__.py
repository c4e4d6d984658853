"""The HTML page with everything, or about one report: figures, tables, claims, findings, and the local runs.

The page needs no network and no script; its figures are in it.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from analysis import PUBLISHED, audit, judged_claims, labels, reports
from analysis.audit.findings import point_label
from analysis.compare import Comparisons, provenance
from analysis.compare import published as comparison
from analysis.compare.comparison_text import published_tables
from analysis.diagnose.diagnosis_text import largest_losses
from analysis.diagnose.split import split_curves
from analysis.documents import tally
from analysis.evaluation import Evaluation
from analysis.experiments import summary_points
from analysis.figures import FigureEntry, atlas_figure, figure_files
from analysis.finding import SEVERITIES, Finding
from analysis.judged_claims import VERDICTS, JudgedClaim
from analysis.proposal.document import Section
from analysis.proposal.facts import BLANK
from analysis.study import Study
from analysis.table import tidy_columns
from common.grouping import gathered
from common.terminal import counted
from record import reproduction
from record.progress import duration

MAX_RUNS = 200  # of one experiment that the page lists one by one

Row = dict[str, str]


@dataclass(frozen=True)
class PageFigure:
    """A figure as the page shows it."""

    entry: FigureEntry
    image: str  # data URI; "" of a figure of a report whose points are lost
    caption: str
    data: str  # data URI of a CSV file; "" without a row
    svg: str = ""  # in place of the image, where the page shows names on hover; and a table of the names
    names: Sequence[Row] = ()


@dataclass(frozen=True)
class Analysed:
    """The content of a page without its figures; `only`: it is about this report alone."""

    study: Study
    judged: Sequence[JudgedClaim]
    findings: Sequence[Finding]  # in the reports
    local_findings: Sequence[Finding]
    recomputed: pd.DataFrame  # the derived numbers of the reports
    published: pd.DataFrame
    comparisons: Comparisons  # of local numbers with published ones
    only: "ReportScope | None" = None


def analyse(study: Study, only: "ReportScope | None" = None) -> Analysed:
    """Judge, audit, recompute and compare: return the content of a page without its figures."""
    published = study.published
    if only:
        published = published[published["report"].eq(only.report)]
    judged = judged_claims.judge(judged_claims.read_claims(), study)
    findings = audit.table_findings(study.published), audit.record_findings(study)
    compared = comparison.compare(published, study.local, comparison.read_tolerances())
    return Analysed(study, judged, *findings, reports.recompute(study.published), published, compared, only)


def _page_figure(entry: FigureEntry, analysed: Analysed, folder: Path) -> PageFigure:
    points = entry.points(analysed.study)
    image = _image(folder / f"{entry.id}.svg") if points.several or entry.local is None else ""
    caption = f"{entry.title[0].upper()}{entry.title[1:]}. {entry.caption(points.local)}"
    figure = PageFigure(entry, image, caption, figure_files.data_link(points))
    if entry.texts != atlas_figure.ATLAS.key:
        return figure
    svg = (folder / f"{entry.id}.svg").read_text()
    named = re.sub(rf'<g id="{atlas_figure.NAMED}([^"]*)">', r"<g><title>\1</title>", svg[svg.index("<svg") :])
    named = named.replace("<svg", f'<svg role="img" aria-label="{entry.id}"', 1)
    return replace(figure, svg=named, names=atlas_figure.names(points))


_NEEDLESS = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->|\s+(?=<)", re.S)
_DECIMALS = re.compile(r"(\.\d\d)\d+(?=[ '])")  # not in transformations of glyphs, which end with )
_IN_URL = " =:;/,.()-+'!*?@$[]_~|{}^<>"  # what an attribute in double quotes may hold as it is


def _image(svg: Path) -> str:
    """Return an SVG file as a data URI, without what a page needs not: its size would be twice that in base64."""
    text = "<svg" + svg.read_text().partition("<svg")[2]
    text = " ".join(_NEEDLESS.sub("", text).replace('"', "'").split())
    text = _DECIMALS.sub(r"\1", text)
    return f"data:image/svg+xml,{quote(text, safe=_IN_URL)}"


def sources() -> dict[str, str]:
    """Return the citation of each report in SOURCES.md, by its number."""
    citations: dict[str, str] = {}
    for line in (PUBLISHED / "SOURCES.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 2 and (number := cells[0][1:4]) in tidy_columns.REPORTS:
            citations.setdefault(number, cells[1].replace("*", ""))
    return citations


def _number(value: Any) -> str:
    return "" if pd.isna(value) else f"{value:.5g}"


def _findings(findings: Sequence[Finding]) -> list[Row]:
    names = ("severity", "rule", "place", "stated", "follows", "off", "meaning")
    return [
        {name: getattr(f, name) for name in names}
        | {"rule": f.rule.replace("_", " "), "off": "" if f.off is None else f"{f.off:+.1%}"}
        for f in findings
    ]


def _claims(judged: Sequence[JudgedClaim]) -> list[Row]:
    shared = ("place", "evidence", "remark")
    return [
        {"verdict": j.verdict, "claim": f"\u201c{j.text}\u201d"} | {name: getattr(j, name) for name in shared}
        for j in judged
    ]


def _derived(row: Mapping[Hashable, Any]) -> Row:
    of = ", ".join(filter(None, (row["run"], point_label(row))))
    return reports.text_row(row) | {"of": of, "quantity": f"{row['quantity']} [{row['unit']}]"}


def _provenance(runs: Sequence[dict[str, str]], names: Sequence[str]) -> list[Row]:
    return [{"what": name, "value": provenance.values(runs, name)} for name in names]


def _in_order(local: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the rows of each experiment, in the order in which they were begun."""
    begun = local.groupby("experiment")["started_at"].min().sort_values(kind="stable")
    return [(str(name), local[local["experiment"].eq(name)]) for name in begun.index]


def _result(name: str, rows: pd.DataFrame, study: Study) -> dict[str, Any]:
    """Return what an experiment shows, in sentences, and its table of speedups."""
    sentences = summary_points.sentences(rows)
    if sentences and (losses := largest_losses(split_curves(rows, study.records))):
        sentences.append(f"Largest loss: {'; '.join(losses)} (make diagnose EXPERIMENT={name}).")
    if sentences and (left_out := labels.rounds_left_out(rows)):
        sentences.append(f"{left_out[0].upper()}{left_out[1:]}.")
    return {"name": name, "sentences": sentences, "speedups": _text_rows(summary_points.speedup_rows(rows))}


def _text_rows(table: pd.DataFrame) -> list[Row]:
    columns = [str(name).replace("-\n", "").replace("\n", " ") for name in table]
    texts = table.fillna("").astype(str)
    return [dict(zip(columns, row, strict=True)) for row in texts.itertuples(index=False, name=None)]


def _experiments(study: Study, page_figures: Sequence[PageFigure]) -> tuple[list[dict[str, Any]], list[Row]]:
    """Return the section of each local experiment, and the provenance that all runs share."""
    local = (study.records[path] for path in study.local["record"].unique())
    runs = gathered((run.experiment, provenance.details(run)) for run in local)
    all_runs = [run for experiment_runs in runs.values() for run in experiment_runs]
    names = list(dict.fromkeys(name for run in all_runs for name in run))
    alike = [name for name in names if len({run.get(name) for run in all_runs}) == 1]
    varied = [name for name in names if name not in alike]
    experiments = [_experiment(name, rows, page_figures) for name, rows in _in_order(study.local)]
    for experiment in experiments:
        experiment_runs = runs[experiment["name"]]
        known = {name for run in experiment_runs for name in run}
        experiment["provenance"] = _provenance(experiment_runs, [name for name in varied if name in known])
    return experiments, _provenance(all_runs, alike)


def _experiment(name: str, rows: pd.DataFrame, page_figures: Sequence[PageFigure]) -> dict[str, Any]:
    runs = rows.drop_duplicates("record").sort_values("record")
    images_per_s = rows[rows["quantity"].eq("images_per_s") & rows["round"].isna()].set_index("record")["value"]
    rounds = {path: counted(n, "round") for path, n in rows.groupby("record")["round"].nunique().items() if n}
    return {
        "name": name,
        "runs": counted(len(runs), "run"),
        "machines": "; ".join(rows["machine"].unique()),
        "summary": _text_rows(summary_points.rows(rows)),
        "figures": [f for f in page_figures if (f.entry.local or {}).get("experiment") == name],
        "records": [
            {
                "record": row["record"],
                "started": row["started_at"],
                "generation": str(row["generation"]),
                labels.rate_unit(rows): _number(images_per_s.get(row["record"])),
                "notes": "; ".join(filter(None, (rounds.get(row["record"]), row["note"]))),
            }
            for row in runs.head(MAX_RUNS).to_dict("records")
        ],
        "more": max(0, len(runs) - MAX_RUNS),
    }


def _report(number: str, analysed: Analysed, page_figures: Sequence[PageFigure]) -> dict[str, Any]:
    """Return the section of a report."""
    findings = [finding for finding in analysed.findings if finding.report == number]
    judged = [claim for claim in analysed.judged if claim.report == number]
    derived = analysed.recomputed[analysed.recomputed["report"].eq(number)]
    figures = [figure for figure in page_figures if figure.entry.report == number]
    return {
        "number": number,
        "title": reports.TITLES[number][0].upper() + reports.TITLES[number][1:],
        "source": sources()[number],
        "figures": [figure for figure in figures if figure.image],
        "lost": [{"figure": f.entry.id, "would show, and what is known": f.caption} for f in figures if not f.image],
        "claims": _claims(sorted(judged, key=lambda claim: VERDICTS.index(claim.verdict))),
        "verdicts": tally([claim.verdict for claim in judged], VERDICTS),
        "findings": _findings(findings),
        "severities": tally([finding.severity for finding in findings], SEVERITIES),
        "derived": [_derived(row) for row in derived.to_dict("records")],
        "recomputed": f"{reports.counts(derived)}; {derived['stated'].isna().sum()} more are only plotted.",
    }


# Columns that are shown also if all rows have the same value, as their cells colour the row.
_VERDICTS = ("verdict", "severity", "agrees", "outcome")
_WIDE = 5  # columns


def _folded(rows: Sequence[Row]) -> tuple[Row, list[Row]]:
    """Return what all rows of a wide table have in common, and the rows without it and without empty columns."""
    if not rows or len(rows[0]) < _WIDE:
        return {}, [*rows]
    same = {
        name: value
        for name, value in [*rows[0].items()][1:]
        if name not in _VERDICTS and (len(rows) > 1 or not value) and all(row[name] == value for row in rows)
    }
    others = [{name: cell for name, cell in row.items() if name not in same} for row in rows]
    return {name: value for name, value in same.items() if value}, others


def templates(**options: Any) -> Environment:
    """Return the environment of the templates in this folder, with options of Jinja."""
    loader = FileSystemLoader(Path(__file__).parent)
    return Environment(loader=loader, undefined=StrictUndefined, keep_trailing_newline=True, **options)


def _html_templates() -> Environment:
    environment = templates(autoescape=True)
    environment.filters["folded"] = _folded
    environment.filters["marked"] = lambda text: escape(text).replace(BLANK, Markup(f"<mark>{BLANK}</mark>"))
    return environment


def page(analysed: Analysed, figures: Sequence[FigureEntry], folder: Path) -> str:
    """Return the page as HTML, with the figures that are SVG files in `folder`."""
    study, only = analysed.study, analysed.only
    page_figures = [_page_figure(entry, analysed, folder) for entry in figures]
    experiments, shared = _experiments(study, [figure for figure in page_figures if figure.entry.published is None])
    sections, notes = published_tables(analysed.comparisons)
    shown = [only.report] if only else tidy_columns.REPORTS
    template = _html_templates().get_template("page.html.j2")
    return template.render(
        numbers=len(analysed.published),
        only=only.report if only else None,
        reproduced=only.rows() if only else [],
        runs=study.local["record"].nunique(),
        reports=[_report(number, analysed, page_figures) for number in shown],
        results=[_result(name, rows, study) for name, rows in _in_order(study.local)],
        experiments=experiments,
        shared=shared,
        local_findings=_findings(analysed.local_findings),
        local_severities=tally([f.severity for f in analysed.local_findings], SEVERITIES),
        comparisons=sections,
        notes=notes,
    )


_OUTCOMES = ("measured", "submitted", "failed", "not run")


@dataclass(frozen=True)
class ReportScope:
    """One report, the experiments that are its own, and the last reproduction of it, if any."""

    report: str
    experiments: frozenset[str]
    reproduced: reproduction.Reproduction | None

    def narrowed(self, study: Study) -> Study:
        """Return the study with the local records of its experiments alone."""
        local = study.local[study.local["experiment"].isin(self.experiments)].reset_index(drop=True)
        return study.narrowed(local, [n for n in study.notices if set(Path(n.path).parts) & self.experiments])

    def figures(self, figures: Mapping[str, FigureEntry]) -> dict[str, FigureEntry]:
        """Return its figures, and those of its local records."""
        local = {id for id, entry in figures.items() if (entry.local or {}).get("experiment") in self.experiments}
        return {id: entry for id, entry in figures.items() if entry.report == self.report or
                (entry.published is None and id in local)}  # fmt: skip

    def rows(self) -> list[dict[str, str]]:
        """Return a row for each experiment of the reproduction: its outcome, and why; those that ran come first."""
        outcomes = self.reproduced.outcomes if self.reproduced else []
        return [
            {
                "experiment": outcome.experiment,
                "what": outcome.shows,
                "outcome": outcome.status,
                "launches": f"{outcome.runs} of {outcome.planned}" if outcome.planned else "",
                "took": duration(outcome.took_s) if outcome.took_s >= 1 else "",
                "why": "; ".join(filter(None, (outcome.why, *(f"left out: {why}" for why in outcome.left_out)))),
            }
            for outcome in sorted(outcomes, key=lambda outcome: _OUTCOMES.index(outcome.status))
        ]


def report_scope(report: str, published: pd.DataFrame, results: Path) -> ReportScope:
    """Return the scope of a report: experiments with numbers of it, and those that reproduce it."""
    reproduced = reproduction.read_reproduction(results, report)
    experiments = set(published.loc[published["report"].eq(report), "experiment"]) - {""}
    outcomes = reproduced.outcomes if reproduced else []
    return ReportScope(report, frozenset(experiments | {outcome.experiment for outcome in outcomes}), reproduced)


def proposal_page(title: str, sections: Sequence[Section], svg: str) -> str:
    """Return the page as HTML; svg: the text of its figure, which the page holds."""
    template = _html_templates().get_template("proposal.html.j2")
    return template.render(title=title, sections=sections, svg=svg[svg.index("<svg") :])


def evaluation_text(evaluation: Evaluation) -> str:
    """Return a reviewer's report: claims that are not reproduced come first."""
    environment = templates(trim_blocks=True, lstrip_blocks=True)
    environment.filters["cell"] = lambda text: " ".join(str(text).split()).replace("|", "\\|")
    rows = sorted(evaluation.rows, key=lambda row: ("not reproduced", "reproduced", "not run").index(row.outcome))
    return environment.get_template("evaluation.md.j2").render(evaluation=evaluation, rows=rows)
