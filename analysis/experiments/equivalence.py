"""Does averaging gradients lose precision? The loss curve of several ranks compared with that of one, step by step."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis import metrics
from analysis.thresholds import limit
from common.terminal import text_table

TOLERANCE = limit("loss_apart")
NEEDS = "records of `make equivalence`: the same steps on one rank and on several, and steps with a larger global batch"

# The columns that two compared runs share; runs with other seeds start from other weights.
_ALIKE = ["arms", "repeat", "seed", "optimizer"]
_INDEX = [*_ALIKE, "series", "backend", "learning_rate", "global_batch", "batch_per_rank", "ranks"]


@dataclass(frozen=True, eq=False)
class Pair:
    """A run of several ranks, and the run of one rank that it is compared with; both by the names of _INDEX."""

    run: pd.Series
    one: pd.Series
    losses: pd.Series  # by step, counted from 1 over the whole run
    one_losses: pd.Series

    @property
    def same_steps(self) -> bool:
        """Whether both made the same updates from the same samples, so that only the averaging differs."""
        return bool(self.run["global_batch"] == self.one["global_batch"]) and self.same_rate

    @property
    def same_rate(self) -> bool:
        """Whether both had the same learning rate, of the whole job."""
        return bool(self.run["learning_rate"] == self.one["learning_rate"])

    @property
    def off(self) -> pd.Series:
        """Relative difference of the losses at each step that both made, over the loss of one rank: fractions."""
        return metrics.change_fraction(self.one_losses, self.losses).abs().dropna()

    @property
    def agree(self) -> bool:
        """Whether the losses are the same at every step, within TOLERANCE."""
        return float(self.off.max()) <= TOLERANCE


def pairs(local: pd.DataFrame) -> list[Pair]:
    """Return each run of several ranks with the run of one rank that it is compared with.

    That has its global batch and learning rate, else its batch per rank. Runs without such a counterpart are left out.
    """
    losses = local[local["quantity"] == "step_loss"]
    wide = losses.pivot_table("value", _INDEX, "step").sort_index()
    runs = wide.index.to_frame(index=False)
    pairs = [
        Pair(run, ones.iloc[0], wide.iloc[nth], wide.iloc[ones.index[0]])
        for nth, run in enumerate(runs.iloc[nth] for nth in range(len(runs)))
        if run["ranks"] > 1 and len(ones := _counterparts(runs, run))
    ]
    return sorted(pairs, key=lambda p: (not p.same_steps, not p.same_rate, p.run["backend"], p.run["ranks"]))


def _counterparts(runs: pd.DataFrame, run: pd.Series) -> pd.DataFrame:
    """Return the runs of one rank that a run of several is compared with."""
    bases = runs[(runs["ranks"] == 1) & (runs[_ALIKE] == run[_ALIKE]).all(axis=1)]
    same_rate = bases["learning_rate"] == run["learning_rate"]
    same = bases[same_rate & (bases["global_batch"] == run["global_batch"])]
    # A learning rate that is scaled with the ranks is another one, in the same series.
    like = bases[(same_rate | (bases["series"] == run["series"])) & (bases["batch_per_rank"] == run["batch_per_rank"])]
    return same if len(same) else like


def ranks_label(pair: Pair) -> str:
    """Return a label of the ranks of a pair, with their backend unless that is Horovod."""
    backend = pair.run["backend"]
    return f"{pair.run['ranks']} ranks" + (f" ({backend})" if backend != "horovod" else "")


def _each(pairs: Sequence[Pair]) -> str:
    return ", ".join(f"{ranks_label(p)} {p.off.max():.2g}" for p in pairs)


def verdict(pairs: Sequence[Pair]) -> tuple[bool | None, str]:
    """Return whether averaging loses precision, None where it is undecided, and the numbers that decide it."""
    same_steps, other_steps = [p for p in pairs if p.same_steps], [p for p in pairs if not p.same_steps]
    if not same_steps or not other_steps:
        return None, f"it would take {NEEDS}"
    steps = min(len(p.off) for p in pairs)
    lost = [p for p in same_steps if not p.agree]
    numbers = (
        f"the same samples, learning rate and {steps} steps on one rank and on several: the losses differ by at most "
        f"{_each(same_steps)} (relative; tolerance {TOLERANCE:g})"
    )
    for same_rate, rate in ((True, ""), (False, ", the learning rate too")):
        if group := [p for p in other_steps if p.same_rate == same_rate]:
            numbers += f"; batch per rank kept, so that the global batch grows with the ranks{rate}: {_each(group)}"
    if lost:
        return True, numbers
    return (None if any(p.agree for p in other_steps) else False), numbers


def summary(pairs: Sequence[Pair]) -> str:
    """Return the pairs as a table, and below it the verdict."""
    rows = [
        {
            "joined by": p.run["backend"],
            "optimizer": p.run["optimizer"],
            "ranks x batch": f"{p.run['ranks']} x {p.run['batch_per_rank']}",
            "global\nbatch": p.run["global_batch"],
            "learning\nrate": f"{p.run['learning_rate']:g}",
            "beside\none rank of": f"{p.one['global_batch']} at {p.one['learning_rate']:g}",
            "largest relative\ndifference of loss": f"{p.off.max():.2g}",
            "at step": f"{p.off.idxmax()}",
            "": ("the same steps: " if p.same_steps else "other steps: ") + ("agree" if p.agree else "differ"),
        }
        for p in pairs
    ]
    loses, numbers = verdict(pairs)
    answer = {True: "yes", False: "no", None: "not decidable"}[loses]
    return f"{text_table(rows)}\n\nDoes averaging gradients lose precision? {answer}: {numbers}."
