"""What all tests share."""

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

# The end-to-end tests that take longest, the longest first. Each file runs in one process (--dist loadfile):
# one that began last would run alone at the end.
LONGEST = (
    "test_strategies.py",
    "test_diagnose.py",
    "test_slurm_time_limit.py",
    "test_faults.py",
    "test_container.py",
    "test_emulated.py",
    "test_rounds.py",
    "test_epochs.py",
    "test_clusters.py",
    "test_launch.py",
    "test_names.py",
    "test_experiments.py",
    "test_by_hand.py",
    "test_same_steps.py",
    "test_slurm_requeue.py",
    "test_watching.py",
)

_ALL_SLOW = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.(slow|end_to_end)", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave unread what is slow as a whole where slow tests are not asked for: TensorFlow takes seconds to import."""
    if "not slow" not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    return bool(_ALL_SLOW.search(collection_path.read_text())) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, then the other end-to-end tests, then all others, which fill what time is left."""

    def turn(item: pytest.Item) -> int:
        if item.get_closest_marker("end_to_end") is None:
            return len(LONGEST) + 1
        return LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST)

    items.sort(key=turn)
