"""Two sets of local records or users' tables: the values of each point, and the differences of their runs."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pandas as pd

from analysis import TableError
from analysis.compare import EQUAL, Comparisons, comparisons
from analysis.compare.launch_values import Change, Key, Quantity, Side, Values, compare_launches, launch_values
from analysis.compare.provenance import Details, by_experiment, details
from analysis.study import Study, record_files
from analysis.user_table import table_contract
from analysis.user_table.headers import TEXT
from analysis.user_table.rates import rates
from common.grouping import gathered, grouped
from common.terminal import counted
from record.intervals import Turn
from record.schema import RECORD_NAME


@dataclass
class _Set:
    name: str  # A or B
    place: str
    values: dict[Key, Values] = field(default_factory=dict)
    runs: dict[str, tuple[str, Details, str]] = field(default_factory=dict)  # path -> experiment, details, config hash
    records: set[str] = field(default_factory=set)  # checksums
    notes: list[str] = field(default_factory=list)

    @property
    def rate_units(self) -> set[str]:
        """Return the units of its rates."""
        return {key.unit for key in self.values if key.quantity == "images_per_s"}

    def configurations(self, key: Key) -> frozenset[str]:
        """Return the hashes of the configurations of a point."""
        return frozenset(self.runs[path][2] for path in self.values[key].records)

    def details(self, keys: list[Key]) -> dict[str, list[Details]]:
        """Return how the runs of some points were made, by experiment."""
        paths = dict.fromkeys(path for key in keys for path in sorted(self.values[key].records))
        return gathered(self.runs[path][:2] for path in paths)


def _read(name: str, path: Path, columns: str) -> _Set:
    """Return the values in a folder of records, in a record file or in a user's table."""
    if (path.is_file() and path.name != RECORD_NAME) or (
        path.is_dir() and any(path.iterdir()) and not record_files(path)
    ):
        return _read_table(name, path, columns)
    study = Study(*record_files(path))
    paths = study.local["record"].unique()
    if not len(paths):
        reason = f"no complete run ({len(study.left_out)} left out, {len(study.failed)} failed)"
        reason = reason if path.exists() else "does not exist"
        raise TableError(f"{path}: {reason}; give a folder of records, as A=results, or a table")
    records = {file: study.records[file] for file in paths}
    runs: dict[str, tuple[str, Details, str]] = {
        file: (run.experiment, details(run), run.config_hash) for file, run in records.items()
    }
    checksums = {run.sha256 for run in records.values()}
    notes = [*(str(notice) for notice in (*study.left_out, *study.failed)), *study.trust()]
    return _Set(name, str(path), launch_values({1: study.local}), runs, checksums, notes)


def _read_table(name: str, path: Path, columns: str) -> _Set:
    """Return the values in a user's table; rows of one model, setting, number of ranks and batch are repeats."""
    table = table_contract.read_table(path, columns)
    if table.published is not None:
        raise TableError(f"{path}: a tidy table of published numbers; give a table with one row a run, or records")
    result = _Set(name, str(path), notes=[*table.interpretation, *table.notes])
    texts = [text for text in TEXT if text in table.runs]
    measured: dict[Key, list[tuple[str, float]]] = {}
    for (row, run), (rate, work) in zip(table.runs.iterrows(), rates(table.runs).to_numpy(), strict=True):
        if not rate > 0:
            continue
        batch = run.get("batch_per_rank", math.nan)
        point = counted(float(run["ranks"]), "rank") + ("" if pd.isna(batch) else f", batch {batch:g}")
        setting = " ".join(str(run[name]) for name in ("model", "setting") if name in texts) or "table"
        rate_unit = {"samples": "images/s", "": "x"}.get(work, f"{work}/s")
        numbers: tuple[tuple[Quantity, str, float], ...] = (
            ("images_per_s", rate_unit, rate),
            ("wall_s", "s", run.get("wall_s", 0)),
            ("job_s", "s", run.get("job_s", 0)),
        )
        for quantity, unit, number in numbers:
            if number > 0:
                key = Key(setting, "", int(run["ranks"]), point, quantity, "", "", unit)
                measured.setdefault(key, []).append((str(row), float(number)))
        result.runs[str(row)] = (setting, {text: str(run[text]) for text in texts}, "")
    for key, repeats in measured.items():
        numbers_of_runs = [number for _, number in repeats]
        turns = [Turn("", 0, nth) for nth in range(len(repeats))]
        rows = pd.DataFrame(turns).rename(columns={"number": "turn"})
        rows = rows.assign(record=[row for row, _ in repeats], round=math.nan, rate=numbers_of_runs)
        values = Values(key.quantity, {1: numbers_of_runs}, {1: rows.assign(value=rows["rate"])})
        result.values[key] = values
    return result


def _pairs(a: _Set, b: _Set) -> tuple[list[tuple[Key, Key]], list[str]]:
    """Return the points that both sets have, and lines for those that cannot be paired.

    Points of one configuration on one machine are paired; then those of one configuration; then others, if each set has
    one alike. Arms in rounds are not compared with separate launches.
    """
    identities: tuple[Callable[[_Set, Key], Hashable], ...] = (
        lambda side, key: (side.configurations(key), key.machine),
        lambda side, key: side.configurations(key),
        lambda side, key: side.values[key].in_rounds,
    )
    points: dict[Key, tuple[list[Key], list[Key]]] = defaultdict(lambda: ([], []))
    for nth, side in enumerate((a, b)):
        for key in side.values:
            points[replace(key, series="", machine="")][nth].append(key)
    pairs: list[tuple[Key, Key]] = []
    alone = []
    for point, (left, right) in points.items():
        unit = point.unit if point.quantity == "images_per_s" and point.unit != "images/s" else ""
        name = ", ".join(filter(None, (point.experiment, point.model, point.point, unit)))
        before = len(pairs)
        for identity in identities:
            ours, theirs = (grouped(keys, partial(identity, side)) for side, keys in ((a, left), (b, right)))
            for alike in ours:
                if len(ours[alike]) == len(theirs.get(alike, ())) == 1:
                    pairs.append((ours[alike][0], theirs[alike][0]))
                    left.remove(ours[alike][0])
                    right.remove(theirs[alike][0])
        if left and right:
            alone.append(
                f"{name}: {len(left)} other configurations in A, {len(right)} in B: which belong together is not "
                "known; give folders of one configuration each"
            )
        elif left or right:
            alone.append(f"{name}: in {'A' if left else 'B'} only" + ", in this configuration" * (len(pairs) > before))
    return pairs, [*dict.fromkeys(alone)]


def _change(a: _Set, b: _Set, keys: tuple[Key, Key]) -> Change:
    """Return the values of a point in both sets; a time of A for as many images as B trained on."""
    before, now = a.values[keys[0]], b.values[keys[1]]
    more = now.images / before.images if before.images else 1.0
    sides = (("A", before), ("B", now))
    invalid = "; ".join(f"{name}: {why}" for name, values in sides for why in values.invalid.values())
    source, on = (", ".join(filter(None, (f"{side.name} = {side.place}", key.machine)))
                  for side, key in zip((a, b), keys, strict=True))  # fmt: skip
    side = before.side()
    scaled = Side(tuple(value * more for value in side.launches), side.number.scaled(more))
    return Change(keys[1], scaled, now.side(), (), invalid, source, on)


def compare(a_path: Path, b_path: Path, columns: str = "", a_name: str = "") -> Comparisons:
    """Compare the records, or the user's table, in the folder or file `a_path` with those in `b_path`.

    columns: the meaning of headers of tables (COLUMNS). a_name: of the first folder, instead of its path. Raises
    TableError without a complete run.
    """
    a, b = _read("A", a_path, columns), _read("B", b_path, columns)
    a.place = a_name or a.place
    if a.rate_units and b.rate_units and a.rate_units.isdisjoint(b.rate_units):
        units = [", ".join(sorted(side.rate_units)) for side in (b, a)]
        raise TableError(f"{b.place}: its rates are in {units[0]}, those of {a.place} in {units[1]}: give one unit")
    both = counted(len(a.records & b.records), "record")
    if a.records == b.records:
        same = f"A and B hold the same {both}: they cannot differ" if a.records else ""
    else:
        same = f"A and B share {both}: they are not independent" if a.records & b.records else ""
    pairs, unpaired = _pairs(a, b)
    sides = [side.details([keys[nth] for keys in pairs]) for nth, side in enumerate((a, b))]
    rows = compare_launches([_change(a, b, keys) for keys in pairs], EQUAL)
    left_out = [*filter(None, [same]), *(f"{side.name}: {line}" for side in (a, b) for line in side.notes)]
    return comparisons(rows, differences=by_experiment(*sides), unpaired=unpaired, left_out=left_out)
