from pathlib import Path

import pytest
from hypothesis import settings

from tests.helpers.own_records import Results

# How long an example takes says nothing about it: the first one imports what the others use, and machines are busy.
# As pandas takes a millisecond for anything, a third of the usual examples.
settings.register_profile("unhurried", deadline=None, max_examples=30)
settings.load_profile("unhurried")


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """An empty results folder."""
    return Results(tmp_path / "results")
