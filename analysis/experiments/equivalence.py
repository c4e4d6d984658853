"""Does averaging gradients lose precision? Loss curves of several ranks beside that of one rank, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tabulate import tabulate

from analysis import metrics, plots
from analysis.figures import Points
from analysis.thresholds import limit

TOLERANCE = limit("loss_apart")
NEEDS = "records of `make equivalence`: the same steps on one rank and on several, and steps with a larger global batch"

# What two runs of one comparison share; runs with other seeds start from other weights.
_ALIKE = ["arms", "repeat", "seed", "optimizer"]
_INDEX = [*_ALIKE, "series", "backend", "learning_rate", "global_batch", "batch_per_rank", "ranks"]


@dataclass(frozen=True, eq=False)
class Pair:
    """A run of several ranks beside the run of one rank that it must follow, or is compared with."""

    optimizer: str
    backend: str  # what joined the ranks
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
        """Relative difference of the losses at each step that both made, over the loss of one rank: fractions."""
        return metrics.change_fraction(self.one_losses, self.losses).abs().dropna()

    @property
    def agree(self) -> bool:
        """Whether the losses are the same at every step, within TOLERANCE."""
        return float(self.off.max()) <= TOLERANCE


def pairs(local: pd.DataFrame) -> list[Pair]:
    """Each run of several ranks beside one of one rank: of its global batch and learning rate, else its batch per rank.

    `local` is the local table. Runs without such a counterpart are left out.
    """
    losses = local[local["quantity"] == "step_loss"]
    wide = losses.pivot_table("value", _INDEX, "step").sort_index()
    runs = wide.index.to_frame(index=False)
    found = []
    for number, run in ((number, runs.iloc[number]) for number in range(len(runs))):
        beside = _counterparts(runs, run)
        if run["ranks"] > 1 and len(beside):
            one = beside.iloc[0]
            found.append(
                Pair(
                    optimizer=run["optimizer"],
                    backend=run["backend"],
                    ranks=run["ranks"],
                    repeat=run["repeat"],
                    batch_per_rank=run["batch_per_rank"],
                    global_batch=run["global_batch"],
                    learning_rate=run["learning_rate"],
                    one_global_batch=one["global_batch"],
                    one_learning_rate=one["learning_rate"],
                    losses=wide.iloc[number],
                    one_losses=wide.iloc[beside.index[0]],
                )
            )
    return sorted(found, key=lambda p: (not p.same_steps, not p.same_rate, p.backend, p.ranks))


def _counterparts(runs: pd.DataFrame, run: pd.Series) -> pd.DataFrame:
    """The runs of one rank that a run of several is laid beside."""
    one = runs[(runs["ranks"] == 1) & (runs[_ALIKE] == run[_ALIKE]).all(axis=1)]
    same_rate = one["learning_rate"] == run["learning_rate"]
    same = one[same_rate & (one["global_batch"] == run["global_batch"])]
    # A learning rate that is scaled with the ranks is another one, in the same series.
    like = one[(same_rate | (one["series"] == run["series"])) & (one["batch_per_rank"] == run["batch_per_rank"])]
    return same if len(same) else like


def _name(pair: Pair) -> str:
    """The ranks of a pair in words, with what joined them unless that is Horovod."""
    return f"{pair.ranks} ranks" + (f" ({pair.backend})" if pair.backend != "horovod" else "")


def _each(found: Sequence[Pair]) -> str:
    return ", ".join(f"{_name(p)} {p.off.max():.2g}" for p in found)


def verdict(found: Sequence[Pair]) -> tuple[bool | None, str]:
    """Whether averaging loses precision, with the numbers that decide it; None where they do not."""
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


def summary(found: Sequence[Pair]) -> str:
    """Returns the pairs as a table, and below it the verdict in words."""
    rows = [
        {
            "joined by": p.backend,
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


_COLOURS = {
    "horovod": {2: plots.SKY, 4: plots.RED},
    "mwms": {2: plots.BLUE, 4: plots.ORANGE},
    "ps_cpu": {2: plots.GREEN, 4: plots.PINK},
}
_STYLES = {2: "--", 4: ":"}
# Hollow around those of another backend: where both differ alike, one would hide the other.
_MARKS: dict[str, dict[str, Any]] = {
    "mwms": {"marker": "o", "markersize": 4, "mfc": "none", "mew": 0.7},
    "ps_cpu": {"marker": "s", "markersize": 6, "mfc": "none", "mew": 0.7},
}
_DOTS: dict[str, Any] = {"marker": ".", "markersize": 2}
_ONE: dict[str, Any] = {"color": "0.7", "linewidth": 3.0, "linestyle": "-"}  # so that lines on top of it can be seen


def _look(pair: Pair) -> dict[str, Any]:
    colours = _COLOURS.get(pair.backend, {})
    return {"color": colours.get(pair.ranks, plots.BLACK), "linestyle": _STYLES.get(pair.ranks, "-.")}


def _losses(axes: Axes, pairs: list[Pair], title: str, over_images: bool) -> None:
    drawn = [("1 rank", p.one_global_batch, p.one_losses, _ONE) for p in pairs[:1]]
    drawn += [(_name(p), p.global_batch, p.losses, _look(p)) for p in pairs]
    for label, global_batch, losses, look in drawn:
        x = losses.index * global_batch / 1000 if over_images else losses.index
        axes.plot(x, losses, label=label, **look)
    axes.set_title(title)
    axes.set_xlabel("images [thousands]" if over_images else "step")
    axes.set_ylabel("loss")


def figure(points: Points) -> Figure:
    """Training loss of one rank and of several on handwritten digits, a network without batch normalisation, n = 1.

    Top left: the same global batch, the same samples in each step, the same learning rate. Top right: the batch per
    rank kept, so that the global batch grows with the ranks and there are fewer updates for the same images. Bottom
    left: the same, with Adam and a learning rate of 0.1 x ranks, as in report 004. Bottom right: the difference
    from one rank's loss at each step, over that loss, for the upper two; dotted: the tolerance within which curves
    count as the same. A difference of 0 is not drawn. Rings: ranks joined by TensorFlow's own strategy; squares: all
    in one process, with variables on the CPU.
    """
    fig, (same, kept, as_report, off) = plots.canvas(2, 2, height_mm=108)
    found = [p for p in pairs(points.local) if p.repeat == 0]
    groups = {
        "the same steps": (same, [p for p in found if p.same_steps]),
        "batch per rank kept": (kept, [p for p in found if not p.same_steps and p.same_rate]),
    }
    for title, (axes, group) in groups.items():
        _losses(axes, group, title, over_images=axes is kept)
        highest_loss = max((max(pair.losses.max(), pair.one_losses.max()) for pair in group), default=1.0)
        axes.set_ylim(0, 1.08 * highest_loss)
        for pair in group:
            differs = pair.off[pair.off > 0]
            off.plot(differs.index, differs, linewidth=0.6, **_look(pair), **_MARKS.get(pair.backend, _DOTS))
        highest = max((pair.off.max() for pair in group), default=0.0)
        if highest > 0:  # else nothing of the group is drawn
            off.text(0.03, 3 * highest, title, transform=off.get_yaxis_transform(), fontsize=5.5, color=plots.GREY)
    if scaled := [p for p in found if not p.same_rate]:
        title = f"{scaled[0].optimizer.capitalize()}, rate {scaled[0].one_learning_rate:g} x ranks"
        _losses(as_report, scaled, title, over_images=True)
        as_report.set_yscale("log")
    off.set_yscale("log")
    off.margins(y=0.15)
    off.axhline(TOLERANCE, color=plots.GREY, linestyle=":")
    off.set_title("difference from 1 rank")
    off.set_xlabel("step")
    off.set_ylabel("of its loss [fraction]")
    return plots.legend(fig, f"local: {'; '.join(points.local['machine'].unique())}; one run each")
