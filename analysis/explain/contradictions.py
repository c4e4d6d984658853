"""Measured speeds and wall times that cannot both be right. No statistics: each is off by more than noise can be."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.curves import ranks_in_words
from analysis.explain import models
from analysis.stats.mixture import Array
from analysis.thresholds import limit


@dataclass(frozen=True)
class Finding:
    """Runs whose numbers contradict each other. `runs`: their index. `kind`: impossible, whole_job, speed_off.

    `stated` and `follows` are both numbers in words, `off` is stated / follows - 1.
    """

    kind: str
    runs: tuple[int, ...]
    ranks: tuple[int, ...]
    says: str
    stated: str
    follows: str
    off: float
    leaves_out: str = "speeds"  # or "runs": then the runs themselves cannot be trusted


def check(runs: pd.DataFrame) -> list[Finding]:
    """What contradicts itself, the worst first; see `analysis.explain.models` for the columns of `runs`."""
    known = runs[runs["images_per_s_per_rank"].notna()]
    for whole in (_whole_job, _all_impossible, _all_off):
        if found := whole(known):
            return [found]
    impossible = list(_impossible(known))
    contradicted = [run for finding in impossible for run in finding.runs]
    return impossible + list(_off(known.drop(index=contradicted)))


def without(runs: pd.DataFrame, findings: list[Finding]) -> pd.DataFrame:
    """The runs that can be used, and of these without the speeds that cannot."""
    runs = runs.copy()
    for finding in findings:
        if finding.leaves_out == "runs":
            runs = runs.drop(index=list(finding.runs))
        else:
            runs.loc[list(finding.runs), "images_per_s_per_rank"] = np.nan
    return runs


def unbelieved(runs: pd.DataFrame, findings: list[Finding]) -> pd.DataFrame:
    """All runs, without the speeds that a finding names."""
    named = [run for finding in findings for run in finding.runs]
    return runs.assign(images_per_s_per_rank=runs["images_per_s_per_rank"].mask(runs.index.isin(named)))


def _ranks(runs: pd.DataFrame) -> tuple[int, ...]:
    return tuple(int(ranks) for ranks in sorted(set(runs["ranks"])))


def _rows(runs: pd.DataFrame) -> list[tuple[int, dict[Hashable, Any]]]:
    """Each run with its index."""
    return list(zip(runs.index.tolist(), runs.to_dict("records"), strict=True))


def _slope(x: Array, y: Array, apart: float) -> float:
    """The median slope over all pairs whose x differ by more than `apart` (Theil and Sen); NaN without such a pair."""
    first, second = np.triu_indices(len(x), 1)
    run, rise = x[second] - x[first], y[second] - y[first]
    far = abs(run) > apart
    return float(np.median(rise[far] / run[far])) if far.any() else math.nan


def _whole_job(known: pd.DataFrame) -> Finding | None:
    if known["ranks"].nunique() < 3:
        return None
    ranks, speeds = (np.log2(known[column].to_numpy(float)) for column in ("ranks", "images_per_s_per_rank"))
    if not _slope(ranks, speeds, apart=0.1) > limit("speed_growth"):
        return None
    ordered = known.sort_values("ranks").to_dict("records")
    ends = ordered[0], ordered[-1]
    first, last = (f"{point['images_per_s_per_rank']:.4g} images/s on {point['ranks']:g}" for point in ends)
    return Finding(
        "whole_job",
        tuple(known.index),
        _ranks(known),
        f"The speed given as that of one rank grows with the ranks, from {first} to {last}: it looks like the speed of "
        "the whole job. Divide it by the ranks, or name its column images_per_s. It is not used.",
        f"{last}, as of one rank",
        f"no more than {first}, but for noise",
        metrics.change_fraction(*(float(point["images_per_s_per_rank"]) for point in ends)),
    )


def _too_short(known: pd.DataFrame) -> pd.DataFrame:
    """The runs that are too short for their images, of the points that are so in the mean over their repeats."""
    runs = known.assign(steps_s=models.steps_s(known))
    means = runs.groupby(["ranks", "images_per_rank"])[["steps_s", "wall_s"]].transform("mean")
    short = [metrics.change_fraction(of["steps_s"], of["wall_s"]) < -limit("impossible") for of in (means, runs)]
    return known[short[0] & short[1]]


def _all_impossible(known: pd.DataFrame) -> Finding | None:
    short = _too_short(known)
    if len(known) < 3 or len(short) <= len(known) / 2:
        return None
    times = float((models.steps_s(short) / short["wall_s"]).median())
    return Finding(
        "impossible",
        tuple(known.index),
        _ranks(known),
        f"{len(short)} of {len(known)} runs took less than their images take at their measured speed, the median one "
        f"{times:.3g} times less. The speeds, the steps or the batches are wrong (the batch or the steps of the whole "
        "job, or another unit?). The speeds are not used.",
        f"wall times of {len(short)} of {len(known)} runs",
        f"{times:.3g} times as long or more, at the median",
        1 / times - 1,
    )


def _impossible(known: pd.DataFrame) -> Iterator[Finding]:
    for index, run in _rows(_too_short(known)):
        needed = run["images_per_rank"] / run["images_per_s_per_rank"]
        work = f"{run['images_per_rank']:g} images a rank at {run['images_per_s_per_rank']:.4g} images/s"
        yield Finding(
            "impossible",
            (index,),
            (int(run["ranks"]),),
            f"The run on {ranks_in_words(run['ranks'])} is impossible: {run['images_per_rank']:g} images a rank take "
            f"{needed:.4g} s at the measured {run['images_per_s_per_rank']:.4g} images/s, and its wall time is "
            f"{run['wall_s']:.4g} s. One of the four numbers is wrong. The run is left out.",
            f"{run['wall_s']:.4g} s",
            f"{needed:.4g} s or more: {work}",
            metrics.change_fraction(needed, run["wall_s"]),
            "runs",
        )


def _all_off(known: pd.DataFrame) -> Finding | None:
    if len(known) < 3:
        return None
    took = models.steps_s(known).to_numpy(float)
    times = _slope(took, known["wall_s"].to_numpy(float), apart=0.1 * took.max())
    if not times > limit("speed_times_off"):
        return None
    return Finding(
        "speed_off",
        tuple(known.index),
        _ranks(known),
        f"The wall times grow {times:.3g} times as fast with the images as the measured speeds say: the speeds are in "
        "another unit, or of something else. They are not used.",
        f"speeds of {len(known)} runs",
        f"1/{times:.3g} of them, by how the wall times grow with the images",
        times - 1,
    )


def _off(known: pd.DataFrame) -> Iterator[Finding]:
    """Single speeds that are too high; one that is too low makes its run impossible."""
    if len(known) < 3:
        return
    usual_s = float((known["wall_s"] - models.steps_s(known)).median())
    left_s = known["wall_s"] - usual_s
    speeds, most = known["images_per_s_per_rank"], limit("speed_times_off")
    times = speeds * left_s / known["images_per_rank"]
    # A run that something held up looks the same, but for its speed, which is as at other points.
    for index, run in _rows(known[(times > most) & (speeds > most * speeds.median())]):
        allowed = metrics.rate(run["images_per_rank"], left_s.at[index])
        yield Finding(
            "speed_off",
            (index,),
            (int(run["ranks"]),),
            f"The speed on {ranks_in_words(run['ranks'])}, {run['images_per_s_per_rank']:.4g} images/s, is "
            f"{times.at[index]:.3g} times what its wall time allows: {run['images_per_rank']:g} images a rank took "
            f"{left_s.at[index]:.4g} s beyond the fixed cost of the other points. The speed is not used.",
            f"{run['images_per_s_per_rank']:.4g} images/s a rank",
            f"{allowed:.4g} images/s, which its wall time leaves",
            metrics.change_fraction(allowed, run["images_per_s_per_rank"]),
        )
