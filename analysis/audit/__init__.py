"""The audit: named rules over the numbers of reports, over a user's table and over run records, and their findings.

Each rule is a small function; its docstring has the reason for it. It knows quantities, not reports.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis import atlas, verify
from analysis.audit import (  # noqa: F401 - each adds to the lists of rules
    curve_rules,
    machine,
    measuring,
    provenance_rules,
    records,
    stated,
    user_table_rules,
    wall_times,
)
from analysis.audit.audited_table import AuditedTable
from analysis.audit.compared_launches import ComparedLaunch, covered, launch
from analysis.audit.findings import EXPERIMENT_RULES, RECORD_RULES, TABLE_RULES
from analysis.finding import SEVERITIES, Finding, Severity, local_finding
from analysis.study import Study
from analysis.user_table.table_contract import UserTable
from record.schema import RunRecord


def table_findings(table: pd.DataFrame) -> list[Finding]:
    """Return the findings of all rules over a tidy table, in order."""
    audited = AuditedTable(table)
    return in_order(finding for rule in TABLE_RULES.values() for finding in rule(audited))


def atlas_findings() -> list[Finding]:
    """Return the findings of all rules over the atlas that can be judged, and of throughputs that logs state.

    Each curve counts as a machine. Its numbers are published as one each, however often they were measured.
    """
    rows = atlas.numbers()
    numbers = rows.assign(quantity=rows["quantity"].replace("rate", "images_per_s"), machine=rows["curve"])
    logged = rows["quantity"].eq("rate") & rows["kind"].eq("stated")
    judged = [finding for finding in table_findings(numbers[~logged]) if "cannot be judged" not in finding.meaning]
    texts = (("images_per_s ", ""), ("each was measured once", "each is one published number"))
    for old, new in texts:
        judged = [replace(f, stated=f.stated.replace(old, new), meaning=f.meaning.replace(old, new)) for f in judged]
    return in_order([*judged, *stated.logged_throughput(rows)])


def user_table_findings(table: UserTable) -> tuple[list[Finding], list[str]]:
    """Return the findings of all rules over a user's table, in order, and notes on omissions.

    Findings that belong to no report carry the name of the file. Raises TableError for an unsound tidy table.
    """
    rows, notes = user_table_rules.tidy_study(table)
    name = Path(table.path).name
    findings = table_findings(rows)
    if table.published is None:  # `identities` checks the ratios that a user states
        findings = [each for each in findings if each.rule != "stated_speedup"]
    from_table = [replace(f, report=name) if f.report in ("", "local") else f for f in findings]
    from_runs = [replace(f, report=name) for rule in user_table_rules.RUN_RULES.values() for f in rule(table)]
    return in_order([*from_table, *from_runs]), notes


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by report, then serious ones before warnings before notes, then by rule and place."""
    return sorted(findings, key=lambda f: (f.report, SEVERITIES.index(f.severity), f.rule, f.place))


def record_findings(study: Study) -> list[Finding]:
    """Return the findings in local records: over their tidy table, in each, between them, and on how they were made.

    Files that are no trustworthy record, and failed runs, are left out and named. If a launch failed in rounds, its
    whole rounds count.
    """
    table = table_findings(study.local) if len(study.local) else []
    runs = run_findings((path, study.records[path]) for path in sorted(set(study.local["record"])))
    # Records that cannot be read are among those left out.
    verified = [finding for finding in study.verification().findings if finding.rule != verify.UNREADABLE]
    return in_order([*table, *runs, *_left_out(study), *verified])


def run_findings(runs: Iterable[tuple[str, RunRecord]]) -> Iterator[Finding]:
    """Yield the findings of every rule in these paths with records, and between the records, which are not kept."""
    launches: dict[str, list[ComparedLaunch]] = defaultdict(list)
    findings: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for path, run in runs:
        for name, check in RECORD_RULES.items():
            findings[run.experiment, name] += check(run, path)
        launches[run.experiment].append(launch(run, path))
    for (experiment_name, _), group in findings.items():  # the worst of one rule, and how many more there are
        if not group:
            continue
        group = [covered(launches[experiment_name], each) for each in group]
        worst = min(group, key=lambda finding: (SEVERITIES.index(finding.severity), -abs(finding.off or 0)))
        yield worst if len(group) == 1 else replace(worst, place=f"{worst.place}, and {len(group) - 1} more runs")
    for experiment in launches.values():
        for compare in EXPERIMENT_RULES.values():
            yield from compare(experiment)


def _left_out(study: Study) -> Iterator[Finding]:
    """Yield a finding for each record that the table leaves out."""
    meaning = "It is left out of everything."
    for notice in study.left_out:
        rule, expected = "unreadable_record", "a whole record"
        if notice.unconfirmed:
            rule, expected = "unconfirmed_number", "a number that the running times confirm"
        yield local_finding(rule, notice.path, "serious", notice.reason, expected, meaning)
    for notice in study.failed:
        rounds = f"Its {notice.rounds} whole rounds count." if notice.rounds else meaning
        grade: Severity = "note" if notice.settled else "warning"
        yield local_finding("failed_run", notice.path, grade, notice.reason, "a complete run", rounds)
