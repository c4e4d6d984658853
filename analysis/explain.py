"""Why speedup by speed and speedup by wall time differ: wall time split into a fixed cost and a cost per step.

Each rank of a run pays once for what does not depend on how long it trains (sending the variables to all ranks, the
first, traced step, warm-up, saving), and then for each step:

    wall_s = fixed_s + steps_per_rank x batch_per_rank x s_per_image

A regression over the points of one curve finds both costs from work and wall time alone. It never sees the measured
speed, so that the speed which it implies (1 / s_per_image) can be held against the measured one. It takes the time
per image as the same at every point. One rank alone exchanges no gradients: its steps are of another kind, and its run,
the longest by far, would pull the line; it is left out where enough other points stand.
"""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tabulate import tabulate

from analysis import TableError, schema, tables
from analysis.metrics import Estimate, scaled
from analysis.schema import Column

# A point does not fit where all the others together predict it this badly. The level is for the whole curve (each
# point is tested at MISFIT_LEVEL / points): of ten curves whose points all fit, about one names a point wrongly.
# A stricter level finds next to nothing in the five or six points that a scaling curve has. Choosing what to leave out
# makes the interval of what is left a little too narrow: for five points it covers the truth 89 times in 100, not 95.
MISFIT_LEVEL = 0.10
# Fewer points are not tested: the line through the others would have no more than one degree of freedom.
LEAST_TESTED = 5
# Two numbers are fitted; a third point is the least that says how well.
LEAST_POINTS = 3
# With so many points of two ranks and more, the point of one rank is not needed to fit the line, and to test it.
ENOUGH_WITHOUT_ONE_RANK = 4

COLUMNS = (
    Column("model", "text", required=False),
    Column("ranks", "integer", above=0),
    Column("steps_per_rank", "number", above=0),
    Column("batch_per_rank", "number", above=0),
    Column("wall_s", "number", above=0),
    Column("images_per_s_per_rank", "number", required=False, minimum=0),
)
# Other words for the same columns, as reports print them.
SYNONYMS = {
    "gpus": "ranks",
    "workers": "ranks",
    "steps_per_worker": "steps_per_rank",
    "planned_steps_per_worker": "steps_per_rank",
    "batch_per_gpu": "batch_per_rank",
    "batch_per_worker": "batch_per_rank",
    "train_s": "wall_s",
    "wall_time_s": "wall_s",
    "examples_per_s_per_gpu": "images_per_s_per_rank",
    "images_per_s_per_gpu": "images_per_s_per_rank",
}
_NEEDED = ["ranks", "steps_per_rank", "batch_per_rank", "wall_s"]
_PHASES = ("broadcast", "first_step", "warm_up", "timed")


@dataclass(frozen=True)
class Fit:
    """A line through the points of one curve: wall time [s] over images per rank."""

    ranks: tuple[int, ...]  # of the points it was made from
    fixed_s: Estimate
    s_per_image: Estimate  # of one rank

    @property
    def images_per_s_per_rank(self) -> Estimate:
        """The speed that the cost per image implies; its error by first-order propagation."""
        cost = self.s_per_image
        return Estimate(1 / cost.value, cost.standard_error / cost.value**2, cost.degrees, cost.n)

    def wall_s(self, images_per_rank: pd.Series) -> pd.Series:
        """The wall time [s] on the line for each of `images_per_rank`."""
        return self.fixed_s.value + self.s_per_image.value * images_per_rank


@dataclass(frozen=True)
class Explanation:
    """What the wall times of one curve say. `points` has one row a number of ranks; see `explain` for its columns."""

    name: str
    points: pd.DataFrame
    fits: dict[str, Fit]  # by what they were made from, from all points to those that were kept

    @property
    def fit(self) -> Fit:
        """The line through the points that were kept."""
        return list(self.fits.values())[-1]

    @property
    def misfits(self) -> pd.DataFrame:
        """The points that the others do not predict."""
        return self.points[self.points["misfit"]]


def read(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """The points in the CSV file `path`, and what was left out of them.

    Either one row a point, with the columns `COLUMNS` (or their `SYNONYMS`), or a tidy table (`analysis.schema`).
    Raises TableError naming the file and every column or cell that cannot be used.
    """
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(f"{path}: not a readable CSV file: {getattr(error, 'strerror', None) or error}") from error
    if "quantity" in frame.columns:
        return from_tidy(schema.check(schema.read_csv(path, schema.COLUMNS), str(path)), str(path))
    frame = frame.rename(columns=SYNONYMS)
    names = [column.name for column in COLUMNS]
    ignored = [str(name) for name in frame.columns if name not in names]
    notes = [f"columns not used: {', '.join(ignored)}"] if ignored else []
    points, more = _usable(schema.conform(frame.drop(columns=ignored), COLUMNS, str(path)), str(path))
    return points, notes + more


def from_tidy(table: pd.DataFrame, where: str) -> tuple[pd.DataFrame, list[str]]:
    """The points in a tidy table: one row a model, series, rank count and repeat; and what was left out of them.

    Steps per rank are those within the wall time: images / global batch where the images are known (own records: first
    step, warm-up and timed steps), else as stated, else as planned. Own records bring their phases along.
    Raises TableError where no row has a wall time.
    """
    rows = table[table["kind"].isin(["measured", "planned"]) & table["ranks"].notna()]
    wanted = ["wall_s", "images", "steps_per_rank", "steps_per_rank_planned", "images_per_s_per_rank", "images_per_s"]
    rows = rows[rows["quantity"].isin([*wanted, *(f"phase_{name}_s" for name in _PHASES)])]
    if not (rows["quantity"] == "wall_s").any():
        raise TableError(f"{where}: no wall_s among its quantities: there is no wall time to split")
    key = ["experiment", "model", "series", "ranks", "batch_per_rank", "repeat", "record"]
    key = [name for name in key if name in rows.columns]
    points = rows.set_index([*key, "quantity"])["value"].unstack("quantity").reset_index()
    ranks, batch = points["ranks"].astype(float), points["batch_per_rank"].astype(float)
    have = points.reindex(columns=wanted).astype(float)
    points["steps_per_rank"] = (
        (have["images"] / (ranks * batch)).fillna(have["steps_per_rank"]).fillna(have["steps_per_rank_planned"])
    )
    points["images_per_s_per_rank"] = have["images_per_s_per_rank"].fillna(have["images_per_s"] / ranks)
    return _usable(points, where)


def _usable(points: pd.DataFrame, where: str) -> tuple[pd.DataFrame, list[str]]:
    """The points that can be used, and a line for each that cannot, or whose speed cannot."""
    notes = []
    points = points.copy()
    if "model" not in points:
        points["model"] = ""
    if "images_per_s_per_rank" not in points:
        points["images_per_s_per_rank"] = np.nan
        notes.append("no measured speed is given: there is nothing to hold the implied speed against")
    for row in points[points[_NEEDED].isna().any(axis=1)].to_dict("records"):
        absent = [name for name in _NEEDED if pd.isna(row[name])]
        notes.append(f"left out: {_called(row)}: no {', '.join(absent)}")
    points = points.dropna(subset=_NEEDED)
    for row in points[points["images_per_s_per_rank"].eq(0)].to_dict("records"):
        notes.append(f"speed not used: {_called(row)}: 0 images/s beside {row['wall_s']:g} s of training")
    points["images_per_s_per_rank"] = points["images_per_s_per_rank"].replace(0, np.nan)
    if points.empty:
        raise TableError(f"{where}: no row has all of {', '.join(_NEEDED)}")
    same = [*_NEEDED, "model", *(name for name in ("series", "repeat") if name in points)]
    twice = points[points.duplicated(same)]
    if not twice.empty:
        raise TableError(f"{where}: the same point stands there twice: {_called(twice.to_dict('records')[0])}")
    return points.reset_index(drop=True), notes


def _called(row: Mapping[Hashable, Any]) -> str:
    ranks = "?" if pd.isna(row["ranks"]) else row["ranks"]
    return f"{row['model'] or 'the curve'}, {ranks} ranks"


def curves(points: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The points of each curve (one model, one series of own records), and its name."""
    key = [name for name in ("experiment", "model", "series") if name in points]
    for group, rows in points.groupby(key, sort=False, dropna=False):
        yield " ".join(str(part) for part in group if part), rows


def fit(points: pd.DataFrame) -> Fit:
    """The line of wall time over images per rank, by ordinary least squares over `points`, one row a rank count.

    Columns: ranks, images_per_rank, wall_s [s]. The intervals are Student's t with len(points) - 2 degrees.
    Raises TableError where there are fewer than three points, or all did the same work a rank: then no regression
    can tell the fixed cost from the cost per step.
    """
    x, y = points["images_per_rank"].to_numpy(float), points["wall_s"].to_numpy(float)
    if len(x) < LEAST_POINTS:
        raise TableError(f"{len(x)} points: a fixed cost and a cost per step need {LEAST_POINTS} or more")
    spread = float(((x - x.mean()) ** 2).sum())
    if spread == 0:
        raise TableError(
            f"every point did the same work a rank ({x[0]:g} images): the fixed cost cannot be told from the cost per "
            "step; measure points with different steps per rank"
        )
    slope = float(((x - x.mean()) * y).sum() / spread)
    intercept = float(y.mean() - slope * x.mean())
    degrees = len(x) - 2
    variance = float(((y - intercept - slope * x) ** 2).sum()) / degrees
    if slope <= 0:
        raise TableError(f"wall time does not grow with the work a rank ({slope:.3g} s per image): no cost per step")
    return Fit(
        tuple(int(rank) for rank in points["ranks"]),
        Estimate(intercept, math.sqrt(variance * (1 / len(x) + x.mean() ** 2 / spread)), degrees, len(x)),
        Estimate(slope, math.sqrt(variance / spread), degrees, len(x)),
    )


def _misfit_probability(points: pd.DataFrame) -> pd.Series:
    """For each point, how likely the others would leave it so far off by chance, for the curve as a whole.

    The externally studentised residual: the point is predicted from a line through the others, and its distance
    divided by the standard error of that prediction; Student's t with n - 3 degrees, times n (Bonferroni).
    NaN where the others cannot predict it, or are too few.
    """
    from scipy.stats import t  # it takes longer to import than most commands to run

    found = []
    for position in range(len(points)):
        others, point = points.drop(points.index[position]), points.iloc[position]
        x = others["images_per_rank"].to_numpy(float)
        if len(points) < LEAST_TESTED or np.ptp(x) == 0:
            found.append(math.nan)
            continue
        slope, intercept = np.polyfit(x, others["wall_s"].to_numpy(float), 1)
        residuals = others["wall_s"].to_numpy(float) - intercept - slope * x
        variance = float((residuals**2).sum()) / (len(x) - 2)
        away = abs(float(point["wall_s"]) - intercept - slope * float(point["images_per_rank"]))
        reach = (float(point["images_per_rank"]) - x.mean()) ** 2 / float(((x - x.mean()) ** 2).sum())
        # Rounding leaves a perfect line about 1e-13 off: that is no distance.
        negligible = 1e-9 * float(points["wall_s"].max())
        error = max(math.sqrt(variance * (1 + 1 / len(x) + reach)), negligible)
        p = 2 * float(t.sf(away / error, len(x) - 2)) if away > negligible else 1.0
        found.append(min(1.0, len(points) * p))
    return pd.Series(found, points.index, dtype=float)


def explain(points: pd.DataFrame, name: str = "") -> Explanation:
    """The split of one curve, checked point by point. `points` as `read` gives them; repeats are averaged.

    The columns of the explanation's points: ranks, repeats, steps_per_rank, batch_per_rank, images_per_rank, wall_s,
    images_per_s_per_rank (NaN: not known), fitted_s, misfit_p, misfit, fixed_fraction (of wall_s),
    beyond_speed_s = wall_s - images_per_rank / images_per_s_per_rank (what the measured speed leaves unexplained),
    speedup_throughput, speedup_wall_time, speedup_without_fixed (with _low and _high, from the interval of the fixed
    cost; NaN where no time is left), all over the smallest point; used (by the fit).
    Raises TableError where the curve cannot be split (see `fit`).
    """
    averaged = ["steps_per_rank", "batch_per_rank", "wall_s", "images_per_s_per_rank"]
    by_ranks = points.groupby("ranks", sort=True)
    found = by_ranks[averaged].mean().astype(float).reset_index()
    found.insert(1, "repeats", by_ranks.size().to_numpy())
    found["images_per_rank"] = found["steps_per_rank"] * found["batch_per_rank"]

    fits = {"all points": fit(found)}
    several = found["ranks"].gt(1)
    found["used"] = several if several.sum() >= ENOUGH_WITHOUT_ONE_RANK else True
    if not found["used"].all():
        fits["2+ ranks"] = fit(found[found["used"]])
    found["misfit_p"] = _misfit_probability(found[found["used"]]).reindex(found.index)
    # The worst one only: with five or six points a second test has no degrees of freedom left to stand on.
    found["misfit"] = found["misfit_p"].rank(method="first").eq(1) & found["misfit_p"].lt(MISFIT_LEVEL)
    found["used"] &= ~found["misfit"]
    if found["misfit"].any():
        fits[f"{list(fits)[-1]}, not {found.loc[found['misfit'], 'ranks'].item()}"] = fit(found[found["used"]])
    chosen = list(fits.values())[-1]

    found["fitted_s"] = chosen.wall_s(found["images_per_rank"])
    found["fixed_fraction"] = chosen.fixed_s.value / found["wall_s"]
    found["beyond_speed_s"] = found["wall_s"] - found["images_per_rank"] / found["images_per_s_per_rank"]
    images = found["images_per_rank"] * found["ranks"].astype(float)
    rates = {
        "speedup_throughput": found["images_per_s_per_rank"] * found["ranks"].astype(float),
        "speedup_wall_time": images / found["wall_s"],
    }
    cost = chosen.fixed_s
    for end, fixed_s in (("", cost.value), ("_low", max(cost.low, 0.0)), ("_high", cost.high)):
        rates[f"speedup_without_fixed{end}"] = images / (found["wall_s"] - fixed_s).where(lambda left: left > 0)
    for column, rate in rates.items():
        found[column] = rate / rate.iloc[0]
    return Explanation(name, found, fits)


def phases(points: pd.DataFrame) -> pd.DataFrame:
    """Where the fixed cost of own records went [s], one row a rank count, mean over repeats; empty without phases.

    With `step` = batch_per_rank / images_per_s_per_rank, the time of one steady step: the broadcast; the first step
    less `step`; warm-up and timed steps less `step` each; what the four phases do not account for (ranks that waited in
    different phases); and their sum, the fixed cost that was measured.
    """
    columns = [f"phase_{name}_s" for name in _PHASES]
    if any(column not in points for column in columns):
        return pd.DataFrame()
    step = points["batch_per_rank"].astype(float) / points["images_per_s_per_rank"]
    broadcast, first, warm_up, timed = (points[column] for column in columns)
    split = pd.DataFrame(
        {
            "ranks": points["ranks"],
            "broadcast_s": broadcast,
            "first_step_s": first - step,
            "warm_up_s": warm_up + timed - (points["steps_per_rank"] - 1) * step,
            "other_s": points["wall_s"] - broadcast - first - warm_up - timed,
        }
    )
    split["fixed_s"] = split.drop(columns="ranks").sum(axis=1, skipna=False)
    return split.groupby("ranks", sort=True).mean().dropna().reset_index()


def _words(estimate: Estimate, unit: str = "") -> str:
    interval = "" if math.isnan(estimate.half_width) else f" ({estimate.low:.3g} to {estimate.high:.3g})"
    return f"{estimate.value:.3g}{' ' * bool(unit)}{unit}{interval}"


def sentences(explained: Explanation) -> list[str]:
    """What a reader needs to know: why the speedups differ, how far that goes, and what does not fit."""
    return [*_why(explained), *_speedups(explained), *_speed(explained), *_misfits(explained)]


def _why(explained: Explanation) -> Iterator[str]:
    first, last, cost = explained.points.iloc[0], explained.points.iloc[-1], explained.fit.fixed_s
    if cost.low <= 0:
        yield f"No fixed cost can be told from zero: {_words(cost, 's')}. It explains nothing here."
    elif last["images_per_rank"] < first["images_per_rank"]:
        work = "steps" if last["steps_per_rank"] < first["steps_per_rank"] else "images"
        yield (
            f"They differ because each run pays {_words(cost, 's')} once, and the {work} per rank shrink with the "
            f"ranks, from {first[f'{work}_per_rank']:g} on {first['ranks']:g} to {last[f'{work}_per_rank']:g} on "
            f"{last['ranks']:g}: the fixed cost is {first['fixed_fraction']:.0%} of the wall time on "
            f"{first['ranks']:g} and {last['fixed_fraction']:.0%} on {last['ranks']:g}. "
            "The speed counts the steps alone and does not see it."
        )
    else:
        yield f"Each run pays {_words(cost, 's')} once; the work per rank does not shrink with the ranks."


def _speedups(explained: Explanation) -> Iterator[str]:
    first = explained.points.iloc[0]
    shown = explained.points.iloc[1:].dropna(subset=["speedup_without_fixed"])
    shown = shown[~shown["misfit"]]
    if not shown.empty:
        top = shown.iloc[-1]
        speed = "" if math.isnan(top["speedup_throughput"]) else f"{top['speedup_throughput']:.1f}x by speed, "
        low, high = top["speedup_without_fixed_low"], top["speedup_without_fixed_high"]
        # No upper bound where the fixed cost may be all of a wall time.
        interval = f"{low:.1f} or more" if math.isnan(high) else f"{low:.1f} to {high:.1f}"
        yield (
            f"On {top['ranks']:g} ranks: {speed}{top['speedup_wall_time']:.1f}x by wall time, "
            f"{top['speedup_without_fixed']:.1f}x by wall time without the fixed cost ({interval}); "
            f"ideal {top['ranks'] / first['ranks']:g}x."
        )


def _speed(explained: Explanation) -> Iterator[str]:
    measured, implied = explained.points["images_per_s_per_rank"].dropna(), explained.fit.images_per_s_per_rank
    if not measured.empty:
        off = implied.value / measured.median() - 1
        yield (
            f"The cost per step implies {_words(implied, 'images/s a rank')}, without a look at the measured speed: "
            f"{measured.min():.3g} to {measured.max():.3g}, whose median it {'exceeds' if off > 0 else 'misses'} "
            f"by {abs(off):.1%}."
        )


def _misfits(explained: Explanation) -> Iterator[str]:
    for point in explained.points[~explained.points["used"]].to_dict("records"):
        more = point["wall_s"] - point["fitted_s"]
        side = "more" if more > 0 else "less"
        off = f"it took {point['wall_s']:.4g} s, {abs(more):.2g} s {side} than the others lead to"
        if point["misfit"]:
            yield f"The point at {point['ranks']} ranks does not fit: {off} (p = {point['misfit_p']:.2g})."
        else:
            yield f"One rank alone exchanges no gradients, so the line leaves it out: {off}."


_HEADERS = {
    "ranks": "ranks",
    "steps_per_rank": "steps\na rank",
    "wall_s": "wall\n[s]",
    "fitted_s": "fit\n[s]",
    "misfit_p": "fits?\np",
    "fixed_fraction": "fixed\nshare",
    "beyond_speed_s": "not in\nspeed\n[s]",
    "speedup_throughput": "speedup\nby speed",
    "speedup_wall_time": "by wall\ntime",
    "speedup_without_fixed": "without\nfixed cost",
}


def report(explained: Explanation, split: pd.DataFrame) -> str:
    """The explanation of one curve as text of at most 100 columns; `split` as `phases` gives it."""
    batch = explained.points["batch_per_rank"].median()
    lines = [
        [
            name,
            len(line.ranks),
            _words(line.fixed_s),
            _words(scaled(line.s_per_image, batch)),
            _words(line.images_per_s_per_rank),
        ]
        for name, line in explained.fits.items()
    ]
    points = explained.points[list(_HEADERS)].assign(
        misfit_p=[
            "?" if math.isnan(point["misfit_p"]) else f"{point['misfit_p']:.2g}{' no' if point['misfit'] else ''}"
            for point in explained.points.to_dict("records")
        ],
        fixed_fraction=[f"{share:.0%}" for share in explained.points["fixed_fraction"]],
    )
    tables = [
        tabulate(
            lines,
            [
                "line through",
                "points",
                "fixed cost [s]",
                f"step of {batch:g} images [s]",
                "so images/s a rank",
            ],
        ),
        tabulate(
            points.rename(columns=_HEADERS).astype(object).where(points.notna().to_numpy(), None),
            headers="keys",
            showindex=False,
            floatfmt=".4g",
            missingval="-",
        ),
    ]
    if not split.empty:
        truth = split["fixed_s"]
        inside = explained.fit.fixed_s.low <= truth.median() <= explained.fit.fixed_s.high
        tables.append(
            "The fixed cost as the records show it, phase by phase, mean over repeats:\n"
            + tabulate(split, headers="keys", showindex=False, floatfmt=".3f")
            + f"\n\nMeasured: {truth.median():.3g} s (median). The regression, which saw no phase, said "
            + f"{_words(explained.fit.fixed_s, 's')}:\n"
            + f"the measured one is {'inside' if inside else 'outside'} its interval."
        )
    said = textwrap.fill(" ".join(sentences(explained)), 100)
    return "\n\n".join([f"== {explained.name or 'the curve'}", *tables, said])


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    words = ", ".join(column.name + ("" if column.required else " (may be absent)") for column in COLUMNS)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(
        [
            *textwrap.wrap(
                f"FILE.csv has one row a point: {words}; or it is a tidy table like those in analysis/published.", 98
            ),
            "wall_s [s] is the training time without the initialisation; images_per_s_per_rank is the measured speed.",
            "A row without steps, batch or wall time is left out and named; a row without a speed still counts.",
            "Also read as these columns:",
            *textwrap.wrap(", ".join(f"{other} = {name}" for other, name in SYNONYMS.items()), 98),
        ]
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("file", nargs="?", type=Path, metavar="FILE.csv", help="points of one or more curves")
    what.add_argument("--experiment", metavar="NAME", help="one's own records of this experiment")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")


def run(options: argparse.Namespace) -> int:
    """Print the explanation of each curve; 1 where none could be split."""
    if options.experiment:
        own = tables.own(options.results)
        rows = own.table[own.table["experiment"].eq(options.experiment.replace("-", "_"))]
        rows = rows[rows["kind"].eq("measured")]
        if rows.empty:
            there = ", ".join(sorted(set(own.table["experiment"]))) or "none"
            raise TableError(f"{options.results}: no record of experiment '{options.experiment}' (there: {there})")
        points, notes = from_tidy(rows, f"{options.results}, {options.experiment}")
        notes += [f"left out: {reason}" for reason in own.left_out + own.failed]
    else:
        points, notes = read(options.file)
    split = 0
    for name, rows in curves(points):
        try:
            print(report(explain(rows, name), phases(rows)), end="\n\n")
            split += 1
        except TableError as error:
            print(f"== {name or 'the curve'}\n\nnot split: {error}\n")
    for note in notes:
        print(f"note: {note}")
    return 0 if split else 1
