import shutil
from pathlib import Path

import pytest

from tests.helpers import launched


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results with all launches of a plan, which no test changes."""
    return launched.results(tmp_path_factory.mktemp("launched") / "results")


@pytest.fixture
def results(untouched: Path, tmp_path: Path) -> Path:
    """A copy of these results."""
    return shutil.copytree(untouched, tmp_path / "results")
