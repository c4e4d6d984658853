"""Whether records are what their launches wrote, and each launch is accounted for.

A record names the SHA-256 of `run.json` and of its ranks' files; it is made again of them, and every digit is compared.
The ledger of a point has a line when a launch begins and one when it ends. What cannot be verified is one note for an
experiment. Who changes files, record and ledger alike is not found.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from analysis import grouped
from analysis.finding import Finding
from analysis.verify import launches, remade
from analysis.verify.point import Point, in_archive, on_disk
from record.schema import RecordError

__all__ = ["RULES", "in_archive", "on_disk", "verify"]
RULES = (remade.CHANGED, launches.BROKEN, launches.UNACCOUNTED, "measured_again", "not_verifiable")


def verify(points: Iterable[Point]) -> Iterator[Finding]:
    """Yield what does not agree, and what cannot be verified, of the launches of these points."""
    for experiment, members in sorted(grouped(points, lambda point: point.experiment).items()):
        yield from _experiment(experiment, members)


def _experiment(experiment: str, points: Iterable[Point]) -> Iterator[Finding]:
    made, count = launches.Launches(), 0
    lacking: dict[str, int] = defaultdict(int)  # why records cannot be verified -> how many
    for point in points:
        records = dict(point.records())
        count += len(records)
        for run_name, run in records.items():
            made.begun.add(f"{point.name}/r{run.repeat}")
            reason, findings = remade.check(point, run_name, run)
            yield from findings
            lacking[reason] += bool(reason)
        try:
            yield from launches.check(point, records, made)
        except RecordError:
            lacking["no ledger: launches that were dropped do not show"] += len(records)
    yield from launches.planned(experiment, made)
    again = [f"{name} {times} times" for name, times in made.complete.items() if times > 1]
    reasons = [f"{number} of {count} records: {reason}" for reason, number in lacking.items() if number]
    for rule, stated, follows, meaning in (
        ("measured_again", ", ".join(again), "once each", "The last one counts (FORCE=1)."),
        ("not_verifiable", "; ".join(reasons), "digests, files and a ledger", "They are used as the others are."),
    ):
        if stated:
            yield Finding("local", experiment, rule, "note", stated, follows, None, meaning)
