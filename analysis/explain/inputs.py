"""Measured speeds and wall times that cannot both be right. No statistics: each is off by more than noise can be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.explain import models
from analysis.explain.linear import Array

# The wall time and the speed of a run repeat within a few per cent: where both are 1 % off, a difference of 5 % is 3.5
# standard deviations. Less is left to the regression, which knows the noise.
IMPOSSIBLE = 0.05
# A speed so many times off is an error of the input: reports 000 to 004 have no curve whose speed per rank falls to a
# third. A misfit of the wall time alone can look twice off.
TIMES_OFF = 3.0
# Where the speed a rank grows with the ranks as fast as their square root it is none: ideal is no growth. The speed of
# the whole job grows as the ranks.
GROWTH = 0.5


@dataclass(frozen=True)
class Finding:
    """Runs whose numbers contradict each other. `runs`: their index. `kind`: impossible, whole_job, speed_off."""

    kind: str
    runs: tuple[int, ...]
    ranks: tuple[int, ...]
    says: str
    leaves_out: str  # "runs": the runs themselves cannot be trusted; "speeds": their speeds alone


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


def _finding(kind: str, runs: pd.DataFrame, says: str, leaves_out: str = "speeds") -> Finding:
    return Finding(kind, tuple(runs.index), _ranks(runs), says, leaves_out)


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
    if not _slope(ranks, speeds, apart=0.1) > GROWTH:
        return None
    ends = known.sort_values("ranks").iloc[[0, -1]].to_dict("records")
    first, last = (f"{point['images_per_s_per_rank']:.4g} images/s on {point['ranks']:g}" for point in ends)
    return _finding(
        "whole_job",
        known,
        f"The speed given as that of one rank grows with the ranks, from {first} to {last}: it looks like the speed of "
        "the whole job. Divide it by the ranks, or name its column images_per_s. It is not used.",
    )


def _too_short(known: pd.DataFrame) -> pd.DataFrame:
    return known[models.steps_s(known) > known["wall_s"] * (1 + IMPOSSIBLE)]


def _all_impossible(known: pd.DataFrame) -> Finding | None:
    short = _too_short(known)
    if len(short) <= len(known) / 2:
        return None
    times = float((models.steps_s(short) / short["wall_s"]).median())
    return _finding(
        "impossible",
        known,
        f"{len(short)} of {len(known)} runs took less than their images take at their measured speed, the median one "
        f"{times:.3g} times less. The speeds, the steps or the batches are wrong (the batch or the steps of the whole "
        "job, or another unit?). The speeds are not used.",
    )


def _impossible(known: pd.DataFrame) -> Iterator[Finding]:
    for index, run in _too_short(known).to_dict("index").items():
        needed = run["images_per_rank"] / run["images_per_s_per_rank"]
        yield _finding(
            "impossible",
            known.loc[[index]],
            f"The run on {run['ranks']:g} ranks is impossible: {run['images_per_rank']:g} images a rank take "
            f"{needed:.4g} s at the measured {run['images_per_s_per_rank']:.4g} images/s, and its wall time is "
            f"{run['wall_s']:.4g} s. One of the four numbers is wrong. The run is left out.",
            "runs",
        )


def _all_off(known: pd.DataFrame) -> Finding | None:
    if len(known) < 3:
        return None
    took = models.steps_s(known).to_numpy(float)
    times = _slope(took, known["wall_s"].to_numpy(float), apart=0.1 * took.max())
    if not times > TIMES_OFF:
        return None
    return _finding(
        "speed_off",
        known,
        f"The wall times grow {times:.3g} times as fast with the images as the measured speeds say: the speeds are in "
        "another unit, or of something else. They are not used.",
    )


def _off(known: pd.DataFrame) -> Iterator[Finding]:
    """Single speeds that are too high; one that is too low makes its run impossible."""
    if len(known) < 3:
        return
    usual_s = float((known["wall_s"] - models.steps_s(known)).median())
    left_s = known["wall_s"] - usual_s
    speeds = known["images_per_s_per_rank"]
    times = speeds * left_s / known["images_per_rank"]
    # A run that something held up looks the same, but for its speed, which is as at other points.
    for index, run in known[(times > TIMES_OFF) & (speeds > TIMES_OFF * speeds.median())].to_dict("index").items():
        yield _finding(
            "speed_off",
            known.loc[[index]],
            f"The speed on {run['ranks']:g} ranks, {run['images_per_s_per_rank']:.4g} images/s, is "
            f"{times.at[index]:.3g} times what its wall time allows: {run['images_per_rank']:g} images a rank took "
            f"{left_s.at[index]:.4g} s beyond the fixed cost of the other points. The speed is not used.",
        )
