import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis import audit
from analysis.reports import recompute
from analysis.table import loading
from tests.helpers.own_records import Results


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """An empty results folder."""
    return Results(tmp_path / "results")


@pytest.fixture(scope="session", autouse=True)
def published_numbers_are_read_and_audited_once() -> Iterator[None]:
    """Have what follows from the published numbers alone found once a process: it takes seconds."""
    read = functools.cache(loading.published)

    def once(function: Callable[[pd.DataFrame], Any]) -> Callable[[pd.DataFrame], Any]:
        result = functools.cache(lambda: function(read()))
        return lambda table: result() if table is read() else function(table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "published", read)
        for module, name in ((audit, "table_findings"), (recompute, "recompute")):
            patch.setattr(module, name, once(getattr(module, name)))
        yield
