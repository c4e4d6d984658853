"""Does averaging gradients lose precision? Loss curves of several ranks beside that of one rank, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from tabulate import tabulate

# Of the loss, relative, at every step. A sum in another order differs by the rounding of float32, 6e-8 of it, and each
# step hands that on to the next: 2e-7 after 50 steps where this was chosen. Report 004 blames averaging for 0.02.
TOLERANCE = 1e-4
NEEDS = "records of `make equivalence`: the same steps on one rank and on several, and steps with a larger global batch"

_ALIKE = ["series", "repeat"]  # the series is the same where all but ranks and batches is


@dataclass(frozen=True, eq=False)
class Pair:
    """A run of several ranks beside the run of one rank that it must follow, or that it is compared with."""

    optimizer: str
    ranks: int
    repeat: int
    batch_per_rank: int
    global_batch: int
    learning_rate: float  # of the whole job
    one_global_batch: int
    one_learning_rate: float
    losses: pd.Series  # by step, counted from 1 over the whole run
    one_losses: pd.Series

    @property
    def same_steps(self) -> bool:
        """Whether both made the same updates from the same samples, so that only the averaging differs."""
        return self.global_batch == self.one_global_batch and self.same_rate

    @property
    def same_rate(self) -> bool:
        """Whether both had the same learning rate."""
        return self.learning_rate == self.one_learning_rate

    @property
    def off(self) -> pd.Series:
        """Difference of the losses at each step that both made, over the loss of the one rank: fractions."""
        return ((self.losses - self.one_losses).abs() / self.one_losses.abs()).dropna()

    @property
    def agree(self) -> bool:
        """Whether the losses are the same at every step, within TOLERANCE."""
        return float(self.off.max()) <= TOLERANCE


def pairs(own: pd.DataFrame) -> list[Pair]:
    """Each run of several ranks beside one rank's: of its global batch and learning rate, else of its batch a rank.

    `own` is a tidy table of one's own records. Runs without such a counterpart are left out.
    """
    losses = own[own["quantity"] == "step_loss"]
    index = [*_ALIKE, "optimizer", "learning_rate", "global_batch", "batch_per_rank", "ranks"]
    wide = losses.pivot_table("value", index, "step").sort_index()
    runs = wide.index.to_frame(index=False)
    found = []
    for number, run in enumerate(runs.to_dict("records")):
        one = runs[(runs["ranks"] == 1) & (runs["series"] == run["series"]) & (runs["repeat"] == run["repeat"])]
        same = one[(one["global_batch"] == run["global_batch"]) & (one["learning_rate"] == run["learning_rate"])]
        beside = same if len(same) else one[one["batch_per_rank"] == run["batch_per_rank"]]
        if run["ranks"] > 1 and len(beside):
            found.append(
                Pair(
                    optimizer=run["optimizer"],
                    ranks=run["ranks"],
                    repeat=run["repeat"],
                    batch_per_rank=run["batch_per_rank"],
                    global_batch=run["global_batch"],
                    learning_rate=run["learning_rate"],
                    one_global_batch=beside["global_batch"].iloc[0],
                    one_learning_rate=beside["learning_rate"].iloc[0],
                    losses=wide.iloc[number],
                    one_losses=wide.iloc[beside.index[0]],
                )
            )
    return sorted(found, key=lambda p: (not p.same_steps, not p.same_rate, p.ranks))


def _each(found: Sequence[Pair]) -> str:
    return ", ".join(f"{p.ranks} ranks {p.off.max():.2g}" for p in found)


def verdict(found: Sequence[Pair]) -> tuple[bool | None, str]:
    """Whether averaging loses precision, and the numbers that say so; None where they do not decide it."""
    same, other = [p for p in found if p.same_steps], [p for p in found if not p.same_steps]
    if not same or not other:
        return None, f"it would take {NEEDS}"
    steps = min(len(p.off) for p in found)
    lost = [p for p in same if not p.agree]
    told = (
        f"the same samples, learning rate and {steps} steps on one rank and on several: the losses differ by at most "
        f"{_each(same)} (relative; tolerance {TOLERANCE:g})"
    )
    for same_rate, rate in ((True, ""), (False, ", the learning rate too")):
        if group := [p for p in other if p.same_rate == same_rate]:
            told += f"; batch per rank kept, so that the global batch grows with the ranks{rate}: {_each(group)}"
    if lost:
        return True, told
    return (None if any(p.agree for p in other) else False), told


def summary(own: pd.DataFrame) -> str:
    """The pairs as a table, and below it the verdict in words."""
    found = pairs(own)
    rows = [
        {
            "optimizer": p.optimizer,
            "ranks x batch": f"{p.ranks} x {p.batch_per_rank}",
            "global\nbatch": p.global_batch,
            "learning\nrate": f"{p.learning_rate:g}",
            "beside\none rank of": f"{p.one_global_batch} at {p.one_learning_rate:g}",
            "largest relative\ndifference of loss": f"{p.off.max():.2g}",
            "at step": f"{p.off.idxmax()}",
            "": ("the same steps: " if p.same_steps else "other steps: ") + ("agree" if p.agree else "differ"),
        }
        for p in found
    ]
    loses, told = verdict(found)
    said = {True: "yes", False: "no", None: "not decidable"}[loses]
    table = tabulate(rows, headers="keys", disable_numparse=True)
    return f"{table}\n\nDoes averaging gradients lose precision? {said}: {told}."
