"""The runs of curves of wall times: from a user's table or a tidy table, with phases of local records; contradictions.

In a contradiction measured speeds and wall times cannot both be right: they differ by more than noise can explain.
"""

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import TableError, metrics
from analysis.documents import about
from analysis.finding import Finding
from analysis.thresholds import limit
from analysis.user_table.table_contract import UserTable
from analysis.user_table.tidy import settings
from common.terminal import counted
from record.schema import WALL_PHASES

NEEDED = ("ranks", "steps_per_rank", "batch_per_rank", "wall_s")
SPEED = "images_per_s_per_rank"
POINT = ["ranks", "steps_per_rank", "batch_per_rank"]
PROBE = 4
# The columns that identify a run, if the tidy table has them.
_RUN = ["experiment", "run", "model", "series", "axis_value", "ranks", "batch_per_rank", "repeat", "seed", "record"]
_QUANTITIES = ["wall_s", "images", "steps_per_rank", "steps_per_rank_planned", SPEED, "images_per_s"]


def table_runs(table: UserTable) -> tuple[pd.DataFrame, list[str]]:
    """Return the runs in a user's table, and notes on omissions.

    The table has one row a run, with NEEDED, or is a tidy table (`table.tidy_columns`). Raises TableError naming the
    file if a needed column is missing, or no row can be used.
    """
    if table.published is not None:
        return points(table.published, table.path)
    runs = table.runs
    if missing := [name for name in NEEDED if name not in runs]:
        text = f"{table.path}: columns that are needed are missing: {', '.join(missing)} (docs/tables.md)"
        raise TableError("\n".join([text, *table.interpretation]))
    frame = runs.reindex(columns=["model", *NEEDED, SPEED, "epochs", "repeat", "place"])
    texts = [settings(runs), *(runs[name] for name in ("dataset", "gpu", "machine") if name in runs)]
    experiment = [" ".join(filter(None, map(str, row))) for row in zip(*texts, strict=True)]
    frame = frame.assign(model=runs.get("model", ""), experiment=experiment, ranks=frame["ranks"].astype("Int64"))
    usable, notes = _usable(frame, table.path)
    if SPEED not in runs:
        notes.insert(0, "no measured speed is given: the time per image is known from the wall times alone")
    return usable, notes


def points(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the runs in a tidy table, one row a model, series, number of ranks and repeat; and notes on the others.

    Steps per rank are those within the wall time: images / global batch if the images are known (local records: first
    step, warm-up and timed steps), else as stated, else as planned. Local records keep their phases. `source` names the
    table in notes. Raises TableError if no row has a wall time.
    """
    rows = table[table["kind"].isin(["measured", "planned"]) & table["ranks"].notna()]
    if "round" in rows:
        rows = rows[rows["round"].isna()]  # a round has no wall time of its own
    rows = rows[rows["quantity"].isin([*_QUANTITIES, *(f"phase_{name}_s" for name in WALL_PHASES)])]
    if not (rows["quantity"] == "wall_s").any():
        raise TableError(f"{source}: no wall_s among its quantities: there is no wall time to split")
    key = [name for name in _RUN if name in rows.columns]
    runs = rows.set_index([*key, "quantity"])["value"].unstack("quantity").reset_index()
    if "repeat" in key and runs["repeat"].notna().any():
        runs = _share_between_repeats(runs, [name for name in key if name != "repeat"])
    ranks, batch = runs["ranks"].astype(float), runs["batch_per_rank"].astype(float)
    values = runs.reindex(columns=_QUANTITIES).astype(float)
    steps = values["images"] / (ranks * batch)
    runs["steps_per_rank"] = steps.fillna(values["steps_per_rank"]).fillna(values["steps_per_rank_planned"])
    runs[SPEED] = values[SPEED].fillna(metrics.per_rank(values["images_per_s"], ranks))
    return _usable(runs, source)


def _share_between_repeats(runs: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Return the runs with values that are stated without a repeat, as the steps of a point, copied to each repeat."""
    without_repeat = runs["repeat"].isna()
    quantities = [str(name) for name in runs if name not in (*key, "repeat")]
    by = [runs[name] for name in key]
    stated = runs[quantities].where(without_repeat).groupby(by, dropna=False).transform("first")
    repeated = runs["repeat"].notna().groupby(by, dropna=False).transform("any")
    runs = runs.assign(**{name: runs[name].fillna(stated[name]) for name in quantities if name != "wall_s"})
    return runs[~(without_repeat & repeated & runs["wall_s"].isna())].reset_index(drop=True)


def _usable(runs: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the runs that can be used, and a note for each that cannot, or whose speed cannot."""
    notes, needed = [], list(NEEDED)
    for row in runs[runs[needed].isna().any(axis=1)].to_dict("records"):
        empty = ", ".join(name for name in needed if pd.isna(row[name]))
        notes.append(f"left out: {_title(row)}: no {empty}")
    runs = runs.dropna(subset=needed)
    for row in runs[runs[SPEED].eq(0)].to_dict("records"):
        notes.append(f"speed not used: {_title(row)}: 0 images/s beside {row['wall_s']:g} s of training")
    runs[SPEED] = runs[SPEED].replace(0, np.nan)
    if runs.empty:
        raise TableError(f"{source}: no row has all of {', '.join(needed)}")
    identity = [*NEEDED, "model", *(name for name in ("series", "axis_value", "repeat", "seed") if name in runs)]
    copies = runs.duplicated(identity)
    for row in runs[copies].to_dict("records"):
        notes.append(
            f"left out: {row.get('place', source)}: {_title(row)}: its wall time is that of an earlier row to the last "
            "digit, a copy? (repeats that are none: number them in a column 'repeat')"
        )
    return runs[~copies].reset_index(drop=True), notes


def _title(run: Mapping[Hashable, Any]) -> str:
    ranks = "? ranks" if pd.isna(run["ranks"]) else counted(run["ranks"], "rank")
    return f"{run['model'] or 'the curve'}, {ranks}"


def curves(runs: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name and the runs of each curve: one model, one series of local records."""
    key = [name for name in ("experiment", "model", "series") if name in runs]
    for names, rows in runs.groupby(key, sort=False, dropna=False):
        yield " ".join(str(name) for name in names if name), rows


def prepared(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of one curve with the columns that the models need.

    These are images_per_rank, images_per_s_per_rank as a float (NaN: not known), the number of the `point`, and that of
    the `group`: the runs with the same ranks, batch and images per epoch.
    """
    runs = runs.reset_index(drop=True)
    images = (runs["steps_per_rank"] * runs["batch_per_rank"]).astype(float)
    epochs = runs["epochs"].astype(float) if "epochs" in runs else pd.Series(np.nan, runs.index)
    group = [runs["ranks"], runs["batch_per_rank"], (images * runs["ranks"].astype(float) / epochs).round(6)]
    return runs.assign(
        images_per_rank=images,
        point=runs.groupby(POINT).ngroup(),
        group=runs.groupby(group, dropna=False).ngroup(),
        **{SPEED: runs[SPEED].astype(float)},
    )


def phases(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the fixed cost of local records phase by phase [s], one row a rank count, mean over repeats.

    Empty without phases. With `step` = batch_per_rank / images_per_s_per_rank, the time of one steady step, the columns
    are: the broadcast; the first step less `step`; warm-up and timed steps less `step` each; the rest of the wall time
    (ranks that waited in different phases); and their sum, the measured fixed cost.
    """
    columns = [f"phase_{name}_s" for name in WALL_PHASES]
    if any(column not in runs for column in columns):
        return pd.DataFrame()
    step = metrics.step_s(runs["batch_per_rank"].astype(float), runs[SPEED])
    broadcast, first, warm_up, timed = (runs[column] for column in columns)
    split = pd.DataFrame(
        {
            "ranks": runs["ranks"],
            "broadcast_s": broadcast,
            "first_step_s": first - step,
            "warm_up_s": warm_up + timed - (runs["steps_per_rank"] - 1) * step,
            "other_s": runs["wall_s"] - broadcast - first - warm_up - timed,
        }
    )
    split["fixed_s"] = split.drop(columns="ranks").sum(axis=1, skipna=False)
    # Below a microsecond there is only rounding, on either side of 0.
    return split.groupby("ranks", sort=True).mean().dropna().round(6).add(0.0).reset_index()


def steps_s(runs: pd.DataFrame) -> pd.Series:
    """Return the time of the steps of each run at its measured speed [s]; NaN if the speed is not known."""
    return metrics.step_s(runs["images_per_rank"], runs[SPEED])


def shortest_s(runs: pd.DataFrame) -> float:
    """Return the shortest wall time of the runs [s], without runs made only to find the fixed cost.

    These have less than 1 / PROBE of the images of the longest run on as many ranks: nobody asks for their speedup.
    """
    images = runs["images_per_rank"]
    is_probe = images * PROBE < images.groupby(runs["ranks"]).transform("max")
    return float(runs["wall_s"].mask(is_probe).min())


@dataclass(frozen=True)
class Contradiction(Finding):
    """Runs whose numbers cannot all be right; `stated` and `follows` are both numbers as text."""

    runs: Annotated[tuple[int, ...], about("the rows that it is about, from 0")]
    ranks: Annotated[tuple[int, ...], about("of these runs")]
    leaves_out: Annotated[Literal["runs", "speeds"], about("what is not used")]


def _contradiction(
    rule: str, runs: pd.DataFrame, meaning: str, stated: str, follows: str, off: float,
    leaves_out: Literal["runs", "speeds"] = "speeds",
) -> Contradiction:  # fmt: skip
    ranks = tuple(int(ranks) for ranks in sorted(set(runs["ranks"])))
    place = f"{', '.join(map(str, ranks))} ranks"
    return Contradiction(
        "", place, rule, "serious", stated, follows, off, meaning, tuple(runs.index), ranks, leaves_out
    )


def contradictions(runs: pd.DataFrame) -> list[Contradiction]:
    """Return the contradictions among prepared runs: one for the whole curve, else one for each run."""
    measured = runs[runs[SPEED].notna()]
    if len(measured) >= 3:
        for whole in (_whole_job, _all_impossible, _all_off):
            if finding := whole(measured):
                return [finding]
    impossible = list(_impossible(measured))
    contradicted = [run for finding in impossible for run in finding.runs]
    return impossible + list(_off(measured.drop(index=contradicted)))


def trusted_runs(runs: pd.DataFrame, findings: list[Contradiction]) -> pd.DataFrame:
    """Return the runs that no finding leaves out, without the speeds that one contradicts."""
    dropped = [run for finding in findings if finding.leaves_out == "runs" for run in finding.runs]
    return without_contradicted_speeds(runs, findings).drop(index=dropped)


def without_contradicted_speeds(runs: pd.DataFrame, findings: list[Contradiction]) -> pd.DataFrame:
    """Return all runs, without the speeds that a finding names."""
    named = [run for finding in findings for run in finding.runs]
    return runs.assign(**{SPEED: runs[SPEED].mask(runs.index.isin(named))})


def _slope(x: NDArray[np.float64], y: NDArray[np.float64], apart: float) -> float:
    """Return the median slope over pairs whose x differ by more than `apart` (Theil and Sen); NaN without a pair."""
    first, second = np.triu_indices(len(x), 1)
    run, rise = x[second] - x[first], y[second] - y[first]
    far = abs(run) > apart
    return float(np.median(rise[far] / run[far])) if far.any() else math.nan


def _whole_job(runs: pd.DataFrame) -> Contradiction | None:
    if runs["ranks"].nunique() < 3:
        return None
    ranks, speeds = (np.log2(runs[column].to_numpy(float)) for column in ("ranks", SPEED))
    if not _slope(ranks, speeds, apart=0.1) > limit("speed_growth"):
        return None
    ordered = runs.sort_values("ranks").to_dict("records")
    ends = ordered[0], ordered[-1]
    first, last = (f"{run[SPEED]:.4g} images/s on {run['ranks']:g}" for run in ends)
    return _contradiction(
        "speed_of_the_job",
        runs,
        f"The speed given as that of one rank grows with the ranks, from {first} to {last}: it looks like the speed of "
        "the whole job. Divide it by the ranks, or name its column images_per_s. It is not used.",
        f"{last}, as of one rank",
        f"no more than {first}, but for noise",
        metrics.change_fraction(*(float(run[SPEED]) for run in ends)),
    )


def _too_short(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that are too short for their images, at points that are too short in the mean over repeats."""
    times_s = runs.assign(steps_s=steps_s(runs))
    means_s = times_s.groupby(["ranks", "images_per_rank"])[["steps_s", "wall_s"]].transform("mean")
    short = [metrics.change_fraction(t["steps_s"], t["wall_s"]) < -limit("impossible") for t in (means_s, times_s)]
    return runs[short[0] & short[1]]


def _all_impossible(runs: pd.DataFrame) -> Contradiction | None:
    short = _too_short(runs)
    if len(short) <= len(runs) / 2:
        return None
    factor = float((steps_s(short) / short["wall_s"]).median())
    return _contradiction(
        "too_short",
        runs,
        f"{len(short)} of {len(runs)} runs took less than their images take at their measured speed, the median one "
        f"{factor:.3g} times less. The speeds, the steps or the batches are wrong (the batch or the steps of the whole "
        "job, or another unit?). The speeds are not used.",
        f"wall times of {len(short)} of {len(runs)} runs",
        f"{factor:.3g} times as long or more, at the median",
        1 / factor - 1,
    )


def _impossible(runs: pd.DataFrame) -> Iterator[Contradiction]:
    for index, run in _too_short(runs).iterrows():
        needed = run["images_per_rank"] / run[SPEED]
        work = f"{run['images_per_rank']:g} images a rank at {run[SPEED]:.4g} images/s"
        yield _contradiction(
            "too_short",
            runs[runs.index == index],
            f"The run on {counted(run['ranks'], 'rank')} is impossible: {run['images_per_rank']:g} images a rank take "
            f"{needed:.4g} s at the measured {run[SPEED]:.4g} images/s, and its wall time is {run['wall_s']:.4g} s. "
            "One of the four numbers is wrong. The run is left out.",
            f"{run['wall_s']:.4g} s",
            f"{needed:.4g} s or more: {work}",
            metrics.change_fraction(needed, run["wall_s"]),
            "runs",
        )


def _all_off(runs: pd.DataFrame) -> Contradiction | None:
    images = runs["images_per_rank"]
    if images.max() <= (1 + limit("same")) * images.min():  # of equal work no growth of the times is known
        return None
    steps = steps_s(runs).to_numpy(float)
    factor = _slope(steps, runs["wall_s"].to_numpy(float), apart=0.1 * steps.max())
    if not factor > limit("speed_times_off"):
        return None
    return _contradiction(
        "speed_times_off",
        runs,
        f"The wall times grow {factor:.3g} times as fast with the images as the measured speeds say: the speeds are in "
        "another unit, or of something else. They are not used.",
        f"speeds of {len(runs)} runs",
        f"1/{factor:.3g} of them, by how the wall times grow with the images",
        factor - 1,
    )


def _off(runs: pd.DataFrame) -> Iterator[Contradiction]:
    """Yield single speeds that are too high; one that is too low makes its run impossible."""
    if len(runs) < 3:
        return
    remaining_s = runs["wall_s"] - float((runs["wall_s"] - steps_s(runs)).median())
    runs = runs.assign(remaining_s=remaining_s, factor=runs[SPEED] * remaining_s / runs["images_per_rank"])
    highest, usual = limit("speed_times_off"), runs[SPEED].median()
    # A run that something delayed looks the same, except that its speed is as at other points.
    for index, run in runs[(runs["factor"] > highest) & (runs[SPEED] > highest * usual)].iterrows():
        allowed = metrics.rate(run["images_per_rank"], run["remaining_s"])
        yield _contradiction(
            "speed_times_off",
            runs[runs.index == index],
            f"The speed on {counted(run['ranks'], 'rank')}, {run[SPEED]:.4g} images/s, is {run['factor']:.3g} times "
            f"what its wall time allows: {run['images_per_rank']:g} images a rank took {run['remaining_s']:.4g} s "
            "beyond the fixed cost of the other points. The speed is not used.",
            f"{run[SPEED]:.4g} images/s a rank",
            f"{allowed:.4g} images/s, which its wall time leaves",
            metrics.change_fraction(allowed, run[SPEED]),
        )
