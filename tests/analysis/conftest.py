from pathlib import Path

import pytest

from tests.helpers.published_once import published_numbers_are_read_and_audited_once  # noqa: F401
from tests.helpers.run_records import Results


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """An empty results folder."""
    return Results(tmp_path / "results")
