"""A study: the published numbers and a user's records, each loaded once, on first use."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import pandas as pd

from analysis.table import loading
from analysis.table.loading import Local, Records
from analysis.table.runs import Notice
from record.schema import RECORD_NAME


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
    def _loaded(self) -> Local:
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
    def records(self) -> Records:
        """All records that can be read, by path, also those that are not in the table."""
        return self._loaded.records

    def narrowed(self, local: pd.DataFrame, notices: Iterable[Notice] = ()) -> Study:
        """Return the same study with these local rows and notices alone."""
        part = copy.copy(self)
        part.__dict__["_loaded"] = Local(local, list(notices), self.records)
        return part


def record_files(folder: Path) -> list[Path]:
    """Return the record files at any depth below a folder, sorted; for a file, the file itself."""
    return [folder] if folder.is_file() else sorted(folder.rglob(RECORD_NAME))
