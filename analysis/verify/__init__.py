"""Whether records are what their launches wrote, and each launch is accounted for.

A record names the SHA-256 of `run.json` and of its ranks' files; it is made again of them, and every digit is compared.
The ledger of a point has a line when a launch begins and one when it ends; it, and not the record, decides what is
compared. Who changes files, record and ledger alike is not found.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from analysis.finding import Finding, local_finding
from analysis.verify import accounted_launches, remade
from analysis.verify.accounted_launches import Launches
from analysis.verify.point import PointFolder, in_archive, on_disk
from common.grouping import grouped
from record import run_files as files
from record.schema import RECORD_NAME, RecordError

__all__ = ["RULES", "UNREADABLE", "Verification", "in_archive", "on_disk", "verify"]
UNREADABLE = "unreadable_record"
RULES = (
    *(remade.CHANGED, accounted_launches.BROKEN, accounted_launches.UNACCOUNTED, accounted_launches.REWRITTEN),
    *("measured_again", "not_compared", "backup"),
)


@dataclass
class Verification:
    """What does not agree, and how many records were compared with the files of their launches."""

    findings: list[Finding] = field(default_factory=list)
    records: int = 0
    remade: int = 0  # made again of their files, without a difference
    not_compared: Counter[str] = field(default_factory=Counter)  # why -> how many

    def __add__(self, other: "Verification") -> "Verification":
        """Return both together."""
        return Verification(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))

    @property
    def serious(self) -> list[Finding]:
        """Return the findings that something is wrong."""
        return [finding for finding in self.findings if finding.severity == "serious"]

    def __str__(self) -> str:
        """Return what was compared, in one line."""
        text = f"{self.remade} of {self.records} records made again from their files"
        if changed := self.records - self.remade - self.not_compared.total():
            text += f"; {changed} changed"
        if reasons := [f"{reason} ({count})" for reason, count in self.not_compared.most_common()]:
            text += f"; {self.not_compared.total()} not compared: {'; '.join(reasons)}"
        return text


def verify(points: Iterable[PointFolder]) -> Verification:
    """Return what does not agree, and what cannot be verified, of the launches of these points."""
    by_experiment = sorted(grouped(points, lambda point: point.experiment).items())
    return sum((_experiment(experiment, members) for experiment, members in by_experiment), Verification())


def _experiment(experiment: str, points: Iterable[PointFolder]) -> Verification:
    launches, result, no_ledger = Launches(), Verification(), 0
    for point in points:
        records, compared = _records(point, launches)
        accounted_launches.add_assignments(point, launches)
        try:
            findings = [*accounted_launches.check(point, launches)]
        except RecordError:
            findings, no_ledger = [], no_ledger + records.records
        records.remade -= len(_changed_records(findings) & compared)
        result += records
        named = {(finding.rule, finding.place) for finding in result.findings}
        result.findings += [finding for finding in findings if (finding.rule, finding.place) not in named]
    result.findings += accounted_launches.remembered(experiment, launches)
    result.findings += accounted_launches.planned(experiment, launches)
    result.findings += _notes(experiment, launches, result, no_ledger)
    return result


def _changed_records(findings: Iterable[Finding]) -> set[str]:
    """Return the paths of the records that are others than their launches wrote."""
    return {each.place for each in findings if each.rule == remade.CHANGED and each.place.endswith(f"/{RECORD_NAME}")}


def _records(point: PointFolder, launches: Launches) -> tuple[Verification, set[str]]:
    """Return what the records of a point do not agree on with the files beside them, and the paths of those that do.

    Add their launches to `launches`.
    """
    result, compared = Verification(), set()
    for run_name in point.runs:
        place = f"{point.folder}/{run_name}/{RECORD_NAME}"
        if point.is_in_results and not files.is_run(run_name):
            meaning = "Only folders as r0 and r0.2 are those of launches."
            result.findings.append(local_finding("backup", place, "note", "a record", "not used", meaning))
            continue
        result.records += 1
        try:
            run = point.record(run_name)
            launches.begun.add(f"{point.name}/r{run.repeat}")
            result.findings += accounted_launches.copied(place, run, launches)
            differences = remade.check(point, run_name, run)
            result.findings += differences
            compared |= set() if differences else {place}
        except remade.NotComparedError as error:
            result.not_compared[str(error)] += 1
        except RecordError as error:
            result.not_compared["cannot be read"] += 1
            reason = str(error).removeprefix(f"{place}: ")
            result.findings.append(local_finding(UNREADABLE, place, "serious", reason, "a record", "It is not used."))
    result.remade = len(compared)
    return result, compared


def _notes(experiment: str, launches: Launches, result: Verification, no_ledger: int) -> list[Finding]:
    again = [f"{name} {times} times" for name, times in launches.complete.items() if times > 1]
    lacking = [f"{count} of {result.records} records: {reason}" for reason, count in result.not_compared.items()]
    if no_ledger:
        lacking.append(f"{no_ledger} of {result.records} records: no ledger: launches that were dropped do not show")
    return [
        local_finding(rule, experiment, "note", stated, follows, meaning)
        for rule, stated, follows, meaning in (
            ("measured_again", ", ".join(again), "once each", "The last one counts (FORCE=1)."),
            ("not_compared", "; ".join(lacking), "digests, files and a ledger", "They are used as the others are."),
        )
        if stated
    ]
