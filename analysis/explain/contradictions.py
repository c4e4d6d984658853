"""Measured speeds and wall times that cannot both be right. No statistics: each is off by more than noise can be."""

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.curves import ranks_in_words
from analysis.explain.models import steps_s
from analysis.explain.runs import SPEED
from analysis.stats.mixture import Array
from analysis.thresholds import limit


@dataclass(frozen=True)
class Finding:
    """Runs whose numbers contradict each other. `runs`: their index. `kind`: impossible, whole_job, speed_off.

    `stated` and `follows` are both numbers as text, `off` is stated / follows - 1.
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
    """Return the contradictions among prepared runs: one for the whole curve, else one for each run."""
    measured = runs[runs[SPEED].notna()]
    if len(measured) >= 3:
        for whole in (_whole_job, _all_impossible, _all_off):
            if finding := whole(measured):
                return [finding]
    impossible = list(_impossible(measured))
    contradicted = [run for finding in impossible for run in finding.runs]
    return impossible + list(_off(measured.drop(index=contradicted)))


def trusted(runs: pd.DataFrame, findings: list[Finding]) -> pd.DataFrame:
    """Return the runs that can be used, without those of their speeds that cannot."""
    dropped = [run for finding in findings if finding.leaves_out == "runs" for run in finding.runs]
    return without_doubted_speeds(runs, findings).drop(index=dropped)


def without_doubted_speeds(runs: pd.DataFrame, findings: list[Finding]) -> pd.DataFrame:
    """Return all runs, without the speeds that a finding names."""
    named = [run for finding in findings for run in finding.runs]
    return runs.assign(**{SPEED: runs[SPEED].mask(runs.index.isin(named))})


def _curve_finding(kind: str, runs: pd.DataFrame, says: str, stated: str, follows: str, off: float) -> Finding:
    ranks = tuple(int(ranks) for ranks in sorted(set(runs["ranks"])))
    return Finding(kind, tuple(runs.index), ranks, says, stated, follows, off)


def _records(runs: pd.DataFrame) -> list[tuple[int, dict[Hashable, Any]]]:
    """Return the index and the values of each run."""
    return list(zip(runs.index.tolist(), runs.to_dict("records"), strict=True))


def _slope(x: Array, y: Array, apart: float) -> float:
    """Return the median slope over pairs whose x differ by more than `apart` (Theil and Sen); NaN without a pair."""
    first, second = np.triu_indices(len(x), 1)
    run, rise = x[second] - x[first], y[second] - y[first]
    far = abs(run) > apart
    return float(np.median(rise[far] / run[far])) if far.any() else math.nan


def _whole_job(runs: pd.DataFrame) -> Finding | None:
    if runs["ranks"].nunique() < 3:
        return None
    ranks, speeds = (np.log2(runs[column].to_numpy(float)) for column in ("ranks", SPEED))
    if not _slope(ranks, speeds, apart=0.1) > limit("speed_growth"):
        return None
    ordered = runs.sort_values("ranks").to_dict("records")
    ends = ordered[0], ordered[-1]
    first, last = (f"{run[SPEED]:.4g} images/s on {run['ranks']:g}" for run in ends)
    return _curve_finding(
        "whole_job",
        runs,
        f"The speed given as that of one rank grows with the ranks, from {first} to {last}: it looks like the speed of "
        "the whole job. Divide it by the ranks, or name its column images_per_s. It is not used.",
        f"{last}, as of one rank",
        f"no more than {first}, but for noise",
        metrics.change_fraction(*(float(run[SPEED]) for run in ends)),
    )


def _too_short(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that are too short for their images, at points that are too short in the mean over repeats."""
    times = runs.assign(steps_s=steps_s(runs))
    means = times.groupby(["ranks", "images_per_rank"])[["steps_s", "wall_s"]].transform("mean")
    short = [metrics.change_fraction(each["steps_s"], each["wall_s"]) < -limit("impossible") for each in (means, times)]
    return runs[short[0] & short[1]]


def _all_impossible(runs: pd.DataFrame) -> Finding | None:
    short = _too_short(runs)
    if len(short) <= len(runs) / 2:
        return None
    factor = float((steps_s(short) / short["wall_s"]).median())
    return _curve_finding(
        "impossible",
        runs,
        f"{len(short)} of {len(runs)} runs took less than their images take at their measured speed, the median one "
        f"{factor:.3g} times less. The speeds, the steps or the batches are wrong (the batch or the steps of the whole "
        "job, or another unit?). The speeds are not used.",
        f"wall times of {len(short)} of {len(runs)} runs",
        f"{factor:.3g} times as long or more, at the median",
        1 / factor - 1,
    )


def _impossible(runs: pd.DataFrame) -> Iterator[Finding]:
    for index, run in _records(_too_short(runs)):
        needed = run["images_per_rank"] / run[SPEED]
        work = f"{run['images_per_rank']:g} images a rank at {run[SPEED]:.4g} images/s"
        yield Finding(
            "impossible",
            (index,),
            (int(run["ranks"]),),
            f"The run on {ranks_in_words(run['ranks'])} is impossible: {run['images_per_rank']:g} images a rank take "
            f"{needed:.4g} s at the measured {run[SPEED]:.4g} images/s, and its wall time is {run['wall_s']:.4g} s. "
            "One of the four numbers is wrong. The run is left out.",
            f"{run['wall_s']:.4g} s",
            f"{needed:.4g} s or more: {work}",
            metrics.change_fraction(needed, run["wall_s"]),
            "runs",
        )


def _all_off(runs: pd.DataFrame) -> Finding | None:
    steps = steps_s(runs).to_numpy(float)
    factor = _slope(steps, runs["wall_s"].to_numpy(float), apart=0.1 * steps.max())
    if not factor > limit("speed_times_off"):
        return None
    return _curve_finding(
        "speed_off",
        runs,
        f"The wall times grow {factor:.3g} times as fast with the images as the measured speeds say: the speeds are in "
        "another unit, or of something else. They are not used.",
        f"speeds of {len(runs)} runs",
        f"1/{factor:.3g} of them, by how the wall times grow with the images",
        factor - 1,
    )


def _off(runs: pd.DataFrame) -> Iterator[Finding]:
    """Yield single speeds that are too high; one that is too low makes its run impossible."""
    if len(runs) < 3:
        return
    usual_s = float((runs["wall_s"] - steps_s(runs)).median())
    left_s = runs["wall_s"] - usual_s
    speeds, most = runs[SPEED], limit("speed_times_off")
    factors = speeds * left_s / runs["images_per_rank"]
    # A run that something held up looks the same, but for its speed, which is as at other points.
    for index, run in _records(runs[(factors > most) & (speeds > most * speeds.median())]):
        allowed = metrics.rate(run["images_per_rank"], left_s.at[index])
        yield Finding(
            "speed_off",
            (index,),
            (int(run["ranks"]),),
            f"The speed on {ranks_in_words(run['ranks'])}, {run[SPEED]:.4g} images/s, is {factors.at[index]:.3g} times "
            f"what its wall time allows: {run['images_per_rank']:g} images a rank took {left_s.at[index]:.4g} s beyond "
            "the fixed cost of the other points. The speed is not used.",
            f"{run[SPEED]:.4g} images/s a rank",
            f"{allowed:.4g} images/s, which its wall time leaves",
            metrics.change_fraction(allowed, run[SPEED]),
        )
