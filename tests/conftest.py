"""Settings of all tests."""

import gc
import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.helpers import ROOT, shell, time_limit

# No deadline: the first example imports modules, and machines are busy. The same examples in every run, so that no test
# passes by chance; --hypothesis-profile=default draws others. A third of the usual number, as pandas is slow.
settings.register_profile("unhurried", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("unhurried")

# Modules and collected tests stay to the end. Searching them for garbage takes a tenth of the time of the fast tests.
gc.disable()

# No test cuts the power of this machine, and waiting for the disk takes half a minute in all.
os.fsync = lambda descriptor: None

_ALL_SLOW = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.(slow|end_to_end)", re.MULTILINE)
# On these the training of every end-to-end test depends.
_COMMON = ("uv.lock", "requirements/", "train/worker.py", "train/distribution/", "tests/helpers/", "tests/conftest.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which `make test` leaves out long tests of what has not changed."""
    text = "leave out tests that are marked on_change_of, unless what they name differs from this commit"
    parser.addoption("--changed-since", metavar="COMMIT", help=text)


def _is_left_out(item: pytest.Item, changed: list[str]) -> bool:
    """Return whether a test is marked on_change_of other files than these."""
    mark = item.get_closest_marker("on_change_of")
    own = str(item.path.relative_to(ROOT)) if mark else ""
    return mark is not None and not any(path.startswith((own, *_COMMON, *mark.args)) for path in changed)


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


@pytest.fixture(autouse=True)
def sentences_are_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands that run in this process have wide lines, as those have that tests start."""
    monkeypatch.setenv("COLUMNS", shell.UNBROKEN)


@pytest.fixture(autouse=True)
def no_fork_beside_tensorflow() -> None:
    """Let pools of processes start from a clean process once TensorFlow is loaded: forks of its threads' locks hang."""
    if "tensorflow" in sys.modules:
        multiprocessing.set_start_method("forkserver", force=True)


def pytest_collection_finish() -> None:
    """Collect garbage from now on, but only among new objects."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long tests of what has not changed, and sort: larger files first, fast tests last.

    Files of tests end to end, which often wait, take turns with files of slow ones, which compute. Short tests fill the
    remaining time.
    """

    def layer(item: pytest.Item) -> str:
        layers = {mark.name for mark in item.iter_markers()}
        return "end_to_end" if "end_to_end" in layers else "slow" if "slow" in layers else "fast"

    if commit := config.option.changed_since:
        diff = subprocess.run(["git", "diff", "--name-only", commit], cwd=ROOT, capture_output=True, text=True)
        left_out = [] if diff.returncode else [item for item in items if _is_left_out(item, diff.stdout.split())]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    files: dict[str, dict[Path, int]] = {"end_to_end": {}, "slow": {}, "fast": {}}
    for item in sorted(items, key=lambda item: -item.path.stat().st_size):
        files[layer(item)].setdefault(item.path, len(files[layer(item)]))
    items.sort(key=lambda item: (layer(item) == "fast", files[layer(item)][item.path], layer(item)))
