"""Write docs/results.md, and the small table in README.md, from records.

    python -m benchmarks.results_page results [more folders]

Each experiment and machine has a section: the days, the commits and the versions of its records, and the table that
its command ends with. It replaces the section of the same title; the others stay. The table in README.md is that of
weak scaling on whole cores.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from tabulate import tabulate

from analysis import labels
from analysis.compare.sessions import days
from analysis.experiments import summary_points
from analysis.study import Study, record_files
from benchmarks.common import ROOT, options
from common.terminal import counted
from record.schema import RunRecord

PAGE, README = ROOT / "docs/results.md", ROOT / "README.md"
_MARKED = re.compile(r"(<!-- results: .*? -->\n).*?(<!-- end of results -->)", re.S)
_PACKAGES = ("tensorflow", "tensorflow-cpu", "horovod")  # of the versions
HEAD = """# Results

Written by `python -m benchmarks.results_page` from records. Brackets hold 95 % intervals.
[statistics.md](statistics.md) explains them.
"""


def table(local: pd.DataFrame) -> str:
    """Return the results of one experiment as a table in Markdown: its speedups over nodes, or else all its points."""
    speedups = summary_points.speedup_rows(local)
    rows = summary_points.rows(local).fillna("") if speedups.empty else speedups
    rows.columns = [str(name).replace("-\n", "").replace("\n", " ") for name in rows.columns]
    return tabulate(rows, headers="keys", tablefmt="github", showindex=False, disable_numparse=True)


def cpus(records: Sequence[RunRecord]) -> str:
    """Return the CPUs that records were measured on."""
    hosts = [host for record in records if record.environment for host in record.environment.hosts]
    return "; ".join(sorted({f"{host.cpu_model}, {host.cores} cores" for host in hosts}))


def origin(records: Sequence[RunRecord]) -> str:
    """Return when, where and with what versions records were measured, in a sentence."""
    started = [record.started_at for record in records]
    environments = [record.environment for record in records if record.environment]
    commits = sorted({(env.git_commit or "")[:7] + "+" * bool(env.git_dirty) for env in environments} - {""})
    versions = {f"{name} {env.versions[name]}" for env in environments for name in _PACKAGES if name in env.versions}
    loads = [host.state.load for env in environments for host in env.hosts if host.state]
    busy = [f"load when they began {min(loads):.1f} to {max(loads):.1f}"] if loads else []
    when, commit = days(min(started), max(started)), f"commit {', '.join(commits)}"
    count = counted(len(records), "record")
    return "; ".join([when, cpus(records), commit, ", ".join(sorted(versions)), count, *busy]) + "."


def notes(rows: pd.DataFrame) -> str:
    """Return what the intervals of a table allow for, and the rounds that do not count."""
    in_rounds = f"In brackets: {labels.interval_meaning(rows)}." if rows["round"].notna().any() else ""
    return " ".join(filter(None, [in_rounds, labels.rounds_left_out(rows)]))


def sections(study: Study) -> dict[str, str]:
    """Return the section of each experiment and machine of a study, by title."""
    by_title = {}
    for (experiment, machine), rows in study.local.groupby(["experiment", "machine"], sort=True):
        records = [study.records[path] for path in rows["record"].unique()]
        emulation = str(machine).partition("; ")[2]
        title = f"{experiment} ({'; '.join(filter(None, [cpus(records), emulation]))})"
        by_title[title] = _paragraphs(origin(records), table(rows), notes(rows))
    return by_title


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(filter(None, texts)) + "\n"


def sections_of(page: str) -> dict[str, str]:
    """Return the sections of a page, by title."""
    return {part.partition("\n\n")[0]: part.partition("\n\n")[2].rstrip() + "\n" for part in page.split("\n## ")[1:]}


def readme_table(study: Study) -> str:
    """Return the speedups of weak scaling on whole cores, and where they come from; "" without any."""
    local = study.local
    rows = local[local["experiment"].eq("weak_scaling") & local["cpu_quota_per_node"].isna()]
    if rows.empty:
        return ""
    records = [study.records[path] for path in rows["record"].unique()]
    return _paragraphs(table(rows), origin(records), notes(rows))


def main() -> None:
    """Write both files."""
    parser = options("results_page", __doc__)
    parser.add_argument("results", nargs="+", type=Path, help="folders of records")
    arguments = parser.parse_args()
    files = [path for folder in arguments.results for path in record_files(folder)]
    study = Study(*files)
    by_title = sections_of(PAGE.read_text()) | sections(study)
    PAGE.write_text("\n".join([HEAD, *(f"## {title}\n\n{by_title[title]}" for title in sorted(by_title))]))
    if rows := readme_table(study):
        README.write_text(_MARKED.sub(lambda match: f"{match[1]}{rows}{match[2]}", README.read_text()))


if __name__ == "__main__":
    main()
