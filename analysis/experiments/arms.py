"""Arms of an experiment: the throughput of each over that of its counterpart on as many ranks, in each pair of runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis import labels, speedups
from analysis.stats.repeats import Launches
from analysis.table.identity import SCALING
from train.record import backends


@dataclass(frozen=True, eq=False)
class Ratio:
    """Throughputs of one arm over those of another: a ratio for each round, or repeat; `words` say what is compared."""

    model: str
    series: str  # of the arm that is over the other
    ranks: int
    words: list[str]
    launches: Launches
    what: str  # is counted: a round, or a repeat


def ratios(local: pd.DataFrame) -> Iterator[Ratio]:
    """Of the arms on one number of ranks, each over their base."""
    runs = speedups.rates(local)
    for (model, _), rows in runs.groupby(["model", "arms"], sort=False):
        for ranks, at in rows.groupby("ranks"):
            arms = sorted((series for _, series in at.groupby("series")), key=_work)
            bases = [arm for arm in arms if arm["role"].eq("base").any()]
            for under, over in ((under, over) for under in bases for over in arms if over is not under):
                if launches := speedups.paired_ratios(over, under):
                    compared = _compared(over.iloc[0], under.iloc[0])
                    words = f"{labels.name(model)}, {ranks} rank{'s' * (int(str(ranks)) > 1)}: {compared}"
                    apart = [*labels.told_apart(rows, runs, "arm"), *_more_cores(over, under)]
                    said = [words, ", ".join(apart)]
                    what = "repeat" if over["round"].isna().all() else "round"
                    yield Ratio(str(model), str(over["series"].iloc[0]), int(str(ranks)), said, launches, what)


def compared(local: pd.DataFrame) -> bool:
    """Whether an experiment has several arms on one number of ranks; along another axis than ranks they are curves."""
    measured = local[local["kind"].eq("measured")]
    on_ranks = measured["axis"].isin(("", *SCALING)).all()
    return bool(on_ranks and measured.groupby(["arms", "ranks"])["series"].nunique().max() > 1)


def _work(series: pd.DataFrame) -> tuple[bool, bool, str]:
    """Orders arms from the one that does least: without Horovod, without allreduce."""
    first = series.iloc[0]
    return first["backend"] != "none", bool(first["allreduce"]), str(first["arm"])


def _compared(over: Any, under: Any) -> str:
    if under["backend"] == "none" and over["backend"] == "horovod":
        return "with Horovod / without"
    if under["allreduce"] != over["allreduce"]:
        return "with allreduce / without"
    return f"{_name(over)} / {_name(under)}"


def _more_cores(*arms: pd.DataFrame) -> Iterator[str]:
    """A phrase for each arm whose parameter servers had cores beside those of the ranks: "ps: +2 cores for servers"."""
    for arm in arms:
        yield from (f"{arm['arm'].iloc[0]}: {phrase}" for phrase in labels.servers(arm))


def _name(series: Any) -> str:
    """The name of an arm, with what must be said beside it."""
    return f"{series['arm']} (asynchronous)" if series["backend"] in backends.ASYNCHRONOUS else str(series["arm"])
