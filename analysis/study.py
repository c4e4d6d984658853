"""A study: the published numbers and a user's records, each loaded once, on first use."""

import copy
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import pandas as pd

from analysis.table import loading
from analysis.table.record_rows import Notice
from analysis.verify import UNREADABLE, Verification, on_disk, verify
from record.schema import RECORD_NAME, is_backup

_FEW = 3  # changed records that each command names


class Study:
    """The published numbers, and the records in some folders or files."""

    def __init__(self, *paths: Path, every_generation: bool = False, all_rounds: bool = False) -> None:
        """Take the paths, and load nothing yet.

        every_generation: all repeated measurements, not the newest alone. all_rounds: also those that others disturbed.
        """
        self._paths = paths
        self._selected = {"every_generation": every_generation, "all_rounds": all_rounds}

    @cached_property
    def published(self) -> pd.DataFrame:
        """The tidy table of the printed numbers of the reports."""
        return loading.published()

    @cached_property
    def _loaded(self) -> loading.LocalTable:
        return loading.local(*self._paths, **self._selected)

    @property
    def local(self) -> pd.DataFrame:
        """The tidy table of the measurements in the records."""
        return self._loaded.table

    @property
    def notices(self) -> list[Notice]:
        """The records that are not in the table, or not in full, each with the reason."""
        return self._loaded.notices

    @property
    def left_out(self) -> list[Notice]:
        """The files that are no trustworthy record."""
        return [notice for notice in self.notices if not notice.failed]

    @property
    def failed(self) -> list[Notice]:
        """The runs that failed."""
        return [notice for notice in self.notices if notice.failed]

    @property
    def records(self) -> loading.RecordsByPath:
        """All records that can be read, by path, also those that are not in the table."""
        return self._loaded.records

    @cached_property
    def _verifications(self) -> dict[str | None, Verification]:
        return {}

    def verification(self, experiment: str | None = None) -> Verification:
        """Return what of the records does not agree with the files of their launches, and how many were compared.

        experiment: the only one whose records are compared.
        """
        if experiment in self._verifications:
            return self._verifications[experiment]
        paths = dict.fromkeys([*self.records, *(notice.path for notice in self.left_out if not notice.unconfirmed)])
        wanted = (path for path in paths if experiment is None or experiment in Path(path).parts)
        return self._verifications.setdefault(experiment, verify(on_disk(wanted, self.records)))

    def trust(self, experiment: str | None = None) -> list[str]:
        """Return a line for each of the first changed records, and how many are what their launches wrote."""
        verified = self.verification(experiment)
        changed = [finding for finding in verified.serious if finding.rule != UNREADABLE]
        lines = [f"warning: {each.place}: {each.stated}; follows: {each.follows}" for each in changed[:_FEW]]
        lines += [f"warning: {len(changed) - _FEW} more: make audit"] if len(changed) > _FEW else []
        return lines + ([str(verified)] if verified.records else [])

    def narrowed(self, local: pd.DataFrame, notices: Iterable[Notice] = ()) -> "Study":
        """Return the same study with these local rows and notices alone."""
        part = copy.copy(self)
        part.__dict__["_loaded"] = loading.LocalTable(local, list(notices), self.records)
        return part


def record_files(folder: Path) -> list[Path]:
    """Return the record files at any depth below a folder, sorted, without backups; for a file, the file itself."""
    return [folder] if folder.is_file() else sorted(p for p in folder.rglob(RECORD_NAME) if not is_backup(p))
