"""Settings of all tests."""

import gc
import os
import re
from pathlib import Path

import pytest
from hypothesis import settings

from tests.helpers import shell, time_limit  # noqa: F401  before any module that changes the environment

# No deadline: the first example imports modules, and machines are busy. The same examples in every run, so that no test
# passes by chance; --hypothesis-profile=default draws others. A third of the usual number, as pandas is slow.
settings.register_profile("unhurried", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("unhurried")

# Modules and collected tests stay to the end. Searching them for garbage takes a tenth of the time of the fast tests.
gc.disable()

# No test cuts the power of this machine, and waiting for the disk takes half a minute in all.
os.fsync = lambda descriptor: None

_ALL_SLOW = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.(slow|end_to_end)", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore modules of slow tests when those are deselected: importing TensorFlow takes seconds."""
    if "not slow" not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    return bool(_ALL_SLOW.search(collection_path.read_text())) or None


pytest_configure = time_limit.keep_stderr
pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = pytest.hookimpl(tryfirst=True)(time_limit.start)


def pytest_runtest_logfinish() -> None:
    """Stop the limit of a test's time."""
    time_limit.stop()


def pytest_collection_finish() -> None:
    """Collect garbage from now on, but only among new objects."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put end-to-end tests first, then slow ones, the largest files first: short tests fill the remaining time."""

    def order(item: pytest.Item) -> tuple[bool, bool, int]:
        layers = {mark.name for mark in item.iter_markers()}
        return "end_to_end" not in layers, "slow" not in layers, -item.path.stat().st_size

    items.sort(key=order)
