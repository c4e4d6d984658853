"""What all tests share."""

import gc
import os
import re
from pathlib import Path

import pytest
from hypothesis import settings

from tests.helpers import shell  # noqa: F401  before any module that changes the environment

# How long an example takes says nothing about it: the first one imports what the others use, and machines are busy. The
# same examples in every run: whether a test passes is no matter of luck. --hypothesis-profile=default draws others. As
# pandas takes a millisecond for anything, a third of the usual number.
settings.register_profile("unhurried", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("unhurried")

# What is imported and collected stays to the end: to look through it for garbage, again and again, takes a tenth of the
# time of the fast tests.
gc.disable()

# No test cuts the power of this machine, and a disk takes milliseconds to write a record: half a minute in all.
os.fsync = lambda descriptor: None

_ALL_SLOW = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.(slow|end_to_end)", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave unread what is slow as a whole where slow tests are not asked for: TensorFlow takes seconds to import."""
    if "not slow" not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    return bool(_ALL_SLOW.search(collection_path.read_text())) or None


def pytest_collection_finish() -> None:
    """Look for garbage from now on, but only among what the tests make."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put end-to-end tests first, then slow ones, each from the largest file on: short ones fill what time is left."""

    def order(item: pytest.Item) -> tuple[bool, bool, int]:
        layers = {mark.name for mark in item.iter_markers()}
        return "end_to_end" not in layers, "slow" not in layers, -item.path.stat().st_size

    items.sort(key=order)
