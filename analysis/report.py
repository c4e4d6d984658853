"""`report`: one HTML page with everything: figures, tables, claims and findings of the reports, and one's own runs.

The page needs no network and no script; its figures are in it.
"""

from __future__ import annotations

import argparse
import base64
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis import audit, claims, derived, draw, figures, schema, summary, tables
from analysis.audit.command import TITLES
from analysis.audit.finding import SEVERITIES, Finding
from analysis.audit.points import called
from analysis.claims import VERDICTS, Judged
from analysis.compare import command, published, sets, tolerances
from analysis.figures import Entry
from analysis.tables import Own
from train.record import record

TEMPLATE = Path(__file__).with_name("report.html.j2")
MOST_RUNS = 200  # of one experiment that the page lists one by one

Row = dict[str, str]


@dataclass(frozen=True)
class Drawn:
    """A figure as the page shows it."""

    id: str
    shows: str
    image: str  # data URI
    caption: list[str]


def _drawn(entry: Entry, table: pd.DataFrame, own: pd.DataFrame, folder: Path) -> Drawn:
    svg = base64.b64encode((folder / f"{entry.id}.svg").read_bytes()).decode()
    paragraphs = draw.caption(entry, entry.points(table, own)).split("\n\n")[1:]
    return Drawn(
        entry.id,
        entry.shows,
        f"data:image/svg+xml;base64,{svg}",
        [text.replace("**", "").replace("`", "") for text in paragraphs],
    )


def sources(folder: Path = tables.PUBLISHED) -> dict[str, str]:
    """What each report is, by its number: the citations in SOURCES.md."""
    found: dict[str, str] = {}
    for line in (folder / "SOURCES.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 2 and (number := cells[0][1:4]) in schema.REPORTS:
            found.setdefault(number, cells[1].replace("*", ""))
    return found


def _counts(values: Sequence[str], names: Sequence[str]) -> str:
    counted = Counter(values)
    return ", ".join(f"{counted[name]} {name}" for name in names)


def _number(value: Any) -> str:
    return "" if pd.isna(value) else f"{value:.5g}"


def _findings(found: Sequence[Finding]) -> list[Row]:
    return [
        {
            "severity": f.severity,
            "rule": f.rule.replace("_", " "),
            "place": f.place,
            "stated": f.stated,
            "follows": f.follows,
            "off": "" if f.off is None else f"{f.off:+.1%}",
            "meaning": f.meaning,
        }
        for f in found
    ]


def _claims(judged: Sequence[Judged]) -> list[Row]:
    return [
        {
            "verdict": j.verdict,
            "claim": f"\u201c{j.claim.text}\u201d",
            "place": j.claim.place,
            "evidence": j.evidence,
            "remark": j.claim.remark,
        }
        for j in judged
    ]


def _derived(rows: pd.DataFrame) -> list[Row]:
    agrees = {True: "yes", False: "no"}
    return [
        {
            "place": row["place"],
            "of": ", ".join(filter(None, (row["run"], called(row)))),
            "quantity": f"{row['quantity']} [{row['unit']}]",
            "stated": " ".join(filter(None, (row["read_as"], _number(row["stated"])))),
            "computed": _number(row["computed"]),
            "agrees": "" if pd.isna(row["agrees"]) else agrees[bool(row["agrees"])],
            "formula": row["formula"],
        }
        for row in rows.to_dict("records")
    ]


def _recomputed(rows: pd.DataFrame) -> str:
    said = rows[rows["stated"].notna()]
    return (
        f"{int(said['agrees'].fillna(False).sum())} of {len(said)} stated numbers follow from the report's primary "
        f"ones; {len(rows) - len(said)} more are only plotted there."
    )


def _making(runs: Sequence[dict[str, str]], names: Sequence[str]) -> list[Row]:
    return [{"what": name, "value": sets.values(runs, name)} for name in names]


def _experiments(own: pd.DataFrame, drawn: Sequence[Drawn]) -> tuple[list[dict[str, Any]], list[Row]]:
    """What the page says of each experiment of one's own, and what all runs have in common."""
    runs: dict[str, list[dict[str, str]]] = defaultdict(list)
    for path in own["record"].unique():
        run = record.load(Path(path))
        runs[run.experiment].append(sets.making(run))
    everything = [run for same in runs.values() for run in same]
    names = list(dict.fromkeys(name for run in everything for name in run))
    alike = [name for name in names if len({run.get(name) for run in everything}) == 1]
    found = []
    for experiment, rows in own.groupby("experiment"):
        name = str(experiment)
        one_each = rows.drop_duplicates("record").sort_values("record")
        images_per_s = rows[rows["quantity"] == "images_per_s"].set_index("record")["value"]
        table = summary.rows(rows).fillna("").astype(str)
        there = {key for run in runs[name] for key in run}
        found.append(
            {
                "name": name,
                "runs": _runs(len(one_each)),
                "machines": "; ".join(rows["machine"].unique()),
                "summary": table.to_dict("records"),
                "figures": [f for f in drawn if _shows(f.id, name)],
                "making": _making(runs[name], [key for key in names if key in there and key not in alike]),
                "records": [
                    {
                        "record": row["record"],
                        "started": row["started_at"],
                        "generation": str(row["generation"]),
                        "images/s": _number(images_per_s.get(row["record"])),
                        "notes": row["note"],
                    }
                    for row in one_each.head(MOST_RUNS).to_dict("records")
                ],
                "more": max(0, len(one_each) - MOST_RUNS),
            }
        )
    return found, _making(everything, alike)


def _runs(number: int) -> str:
    return f"{number} run{'s' * (number != 1)}"


def _shows(id: str, experiment: str) -> bool:
    return id == f"own-{experiment.replace('_', '-')}" or id.startswith(f"own-{experiment.replace('_', '-')}-")


def page(table: pd.DataFrame, own: Own, files: list[Path], ids: list[str], folder: Path) -> str:
    """The page: `table` is the published tidy table, `files` are one's own records.

    `folder` has the figures `ids` as SVG.
    """
    entries = figures.load().values()
    drawn = {e.id: _drawn(e, table, own.table, folder) for e in entries if e.id in ids}
    judged = claims.judge(claims.read(), table, own.table)
    findings = audit.audit_table(table)
    recomputed = derived.recompute(table)
    cited = sources()
    reports = []
    for number in schema.REPORTS:
        found = [f for f in findings if f.report == number]
        said = [j for j in judged if j.claim.report == number]
        numbers = recomputed[recomputed["report"] == number]
        reports.append(
            {
                "number": number,
                "title": TITLES[number][0].upper() + TITLES[number][1:],
                "source": cited[number],
                "figures": [drawn[e.id] for e in entries if e.report == number and e.id in drawn],
                "claims": _claims(sorted(said, key=lambda j: VERDICTS.index(j.verdict))),
                "verdicts": _counts([j.verdict for j in said], VERDICTS),
                "findings": _findings(found),
                "severities": _counts([f.severity for f in found], SEVERITIES),
                "derived": _derived(numbers),
                "recomputed": _recomputed(numbers),
            }
        )
    experiments, shared = _experiments(own.table, [drawn[e.id] for e in entries if e.report == "own" and e.id in drawn])
    own_findings = audit.ordered(audit.audit_records(own)) if files else []
    compared = published.compare(table, own.table, tolerances.read())
    sections, notes = command.beside_published(compared)
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE.parent), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.get_template(TEMPLATE.name).render(
        numbers=len(table),
        runs=own.table["record"].nunique(),
        claims=judged,
        verdicts=_counts([j.verdict for j in judged], VERDICTS),
        reports=reports,
        experiments=experiments,
        shared=shared,
        own_findings=_findings(own_findings),
        own_severities=_counts([f.severity for f in own_findings], SEVERITIES),
        comparisons=sections,
        notes=notes,
    )


def make(results: Path, folder: Path, out: Path) -> list[str]:
    """Draw all figures into `folder` and write the page to `out`; what was left out, in words."""
    own, table = tables.own(results), tables.published()
    ids, _ = draw.draw(list(figures.load().values()), table, own.table, folder)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(table, own, record.find(results), ids, folder), encoding="utf-8")
    return own.left_out + [f"failed: {line}" for line in own.failed]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of one's own records")
    parser.add_argument("--figures", type=Path, default=Path("figures"), help="folder to draw the figures into")
    parser.add_argument("--out", type=Path, default=Path("figures/report.html"), help="default: %(default)s")


def run(options: argparse.Namespace) -> int:
    """Write the page and say where it is; the exit status."""
    for line in make(options.results, options.figures, options.out):
        print(f"left out: {line}", file=sys.stderr)
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB, opens without a network")
    return 0
