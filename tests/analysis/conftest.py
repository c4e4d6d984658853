import functools
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis import audit, claims, reports
from analysis.claims import Claim, Judged
from analysis.explain import fit
from analysis.table import loading
from tests.helpers.own_records import Results


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """An empty results folder."""
    return Results(tmp_path / "results")


def judging_once(read: Callable[[], pd.DataFrame], judge: Callable[..., list[Judged]]) -> Callable[..., list[Judged]]:
    """`claims.judge_numbers` that keeps the verdicts which the published numbers alone decide."""
    known: dict[str, Judged] = {}

    def judged(chosen: list[Claim], table: pd.DataFrame, *more: pd.DataFrame) -> list[Judged]:
        if table is not read():
            return judge(chosen, table, *more)
        rest = [claim for claim in chosen if claim.id not in known or known[claim.id].claim != claim]
        fresh = {one.claim.id: one for one in judge(rest, table, *more)} if rest else {}
        known.update({name: one for name, one in fresh.items() if not one.claim.experiment})
        return [fresh.get(claim.id) or known[claim.id] for claim in chosen]

    return judged


def explaining_once(explain: Callable[..., fit.Explanation]) -> Callable[..., fit.Explanation]:
    """`fit.explain` that keeps what it returned for equal runs: rules, claims, figures and commands ask for them."""
    known: dict[tuple[str, bytes], fit.Explanation] = {}

    def explained(runs: pd.DataFrame, name: str = "") -> fit.Explanation:
        key = name, pickle.dumps(runs)
        if key not in known:
            known[key] = explain(runs, name)
        return known[key]

    return explained


@pytest.fixture(scope="session", autouse=True)
def published_numbers_are_read_and_audited_once() -> Iterator[None]:
    """Have what follows from the published numbers alone found once a process: it takes seconds."""
    read = functools.cache(loading.published)

    def once(function: Callable[[pd.DataFrame], Any]) -> Callable[[pd.DataFrame], Any]:
        result = functools.cache(lambda: function(read()))
        return lambda table: result() if table is read() else function(table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "published", read)
        for module, name in ((audit, "table_findings"), (reports, "recompute")):
            patch.setattr(module, name, once(getattr(module, name)))
        patch.setattr(claims, "judge_numbers", judging_once(read, claims.judge_numbers))
        patch.setattr(fit, "explain", explaining_once(fit.explain))
        yield
