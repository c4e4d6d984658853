"""What follows from the published numbers alone, once for all tests whose module or conftest.py imports the fixture."""

import fcntl
import functools
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis import audit, explain, reports
from analysis.predict import calibration
from analysis.table import loading

Shared = Callable[[str, Callable[[], Any]], Any]


def shared_by_workers(folder: Path) -> Shared:
    """Return a function that computes a result in the first process that needs it, and reads it in the others."""

    def shared(name: str, compute: Callable[[], Any]) -> Any:
        path = folder / f"{name}.pickle"
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                path.write_bytes(pickle.dumps(compute()))
        return pickle.loads(path.read_bytes())

    return shared


def explaining_once(compute: Callable[..., explain.Explanation]) -> Callable[..., explain.Explanation]:
    """Return an `explain.explain` that keeps its result for equal runs, which many rules and figures ask for."""
    explanations: dict[tuple[str, bytes], explain.Explanation] = {}

    def explained(runs: pd.DataFrame, name: str = "") -> explain.Explanation:
        key = name, pickle.dumps(runs)
        if key not in explanations:
            explanations[key] = compute(runs, name)
        return explanations[key]

    return explained


@pytest.fixture(scope="session", autouse=True)
def published_numbers_are_read_and_audited_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compute what follows from the published numbers alone once for all processes: it takes seconds."""
    if hasattr(loading.published, "cache_info"):  # by this fixture, which another module has imported too
        yield
        return
    read, base = functools.cache(loading.published), tmp_path_factory.getbasetemp()
    shared = shared_by_workers(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)

    def cached(function: Callable[[pd.DataFrame], Any]) -> Callable[[pd.DataFrame], Any]:
        result = functools.cache(lambda: shared(function.__name__, lambda: function(read())))
        return lambda table: result() if table is read() else function(table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "published", read)
        functions = ((audit, "table_findings"), (calibration, "published_curves"), (reports, "recompute"))
        for module, name in functions:
            patch.setattr(module, name, cached(getattr(module, name)))
        patch.setattr(explain, "explain", explaining_once(explain.explain))
        yield
