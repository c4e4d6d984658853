"""The checks that decide claims: each sees the tidy table with the numbers computed from it, and returns a verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pandas as pd

from analysis import metrics
from analysis.claims.limits import Limits, arithmetic
from analysis.curves import SOURCE_RUN, scatter
from analysis.experiments import equivalence
from analysis.explain import fit, tidy
from analysis.ratios import RATIOS, pairs

Verdict = Literal["supported", "contradicted", "not decidable"]
VERDICTS: tuple[Verdict, ...] = ("contradicted", "not decidable", "supported")
SIGNIFICANCE = 0.05


class Unknown(Exception):
    """The numbers that a check needs are not known."""


def select(table: pd.DataFrame, of: dict[str, Any]) -> pd.DataFrame:
    """The rows whose columns have the values in `of` (a list: any of them), measured or computed unless it says `kind`.

    Rows of a primary source only where `run` asks for them. Raises Unknown where there is none, KeyError for a column.
    """
    if unknown := [name for name in of if name not in table.columns]:
        raise KeyError(f"no column {', '.join(unknown)}")
    wanted = {"kind": ["measured", "computed"]} | of
    rows = table if "run" in of else table[table["run"].ne(SOURCE_RUN)]
    for name, value in wanted.items():
        rows = rows[rows[name].isin(value if isinstance(value, list) else [value])]
    if rows.empty:
        raise Unknown(f"no number is known for {', '.join(f'{name} {value}' for name, value in of.items())}")
    return rows


def _number(table: pd.DataFrame, of: dict[str, Any] | float) -> float:
    """The number that a selection stands for: the mean of its rows, which are repeats."""
    return float(of) if isinstance(of, int | float) else float(select(table, of)["value"].mean())


def _shown(rows: pd.DataFrame) -> str:
    return ", ".join(f"{row['value']:.4g} ({_point(row)})" for row in rows.to_dict("records"))


def _point(row: dict) -> str:
    words = [row["run"] if row["report"] == "004" else row["model"], row["gpu"]]
    ranks = "" if pd.isna(row["ranks"]) else f"{row['ranks']} rank{'s' * (row['ranks'] != 1)}"
    return ", ".join(word for word in (*words, ranks) if word)


def formula(
    table: pd.DataFrame, formula: str, of: dict[str, Any], unit: str = "", **limits: float
) -> tuple[Verdict, str]:
    """What follows from a few numbers by arithmetic is within `limits`; `of`: a selection or a number for each name."""
    values = {name: _number(table, selection) for name, selection in of.items()}
    found, wanted = arithmetic(formula, values), Limits(**limits)
    numbers = ", ".join(f"{name} = {value:.10g}" for name, value in values.items())
    evidence = f"{formula} = {found:.4g}{' ' * bool(unit)}{unit}, with {numbers}; claimed: {wanted}"
    return ("supported" if wanted.hold(found) else "contradicted"), evidence


def bound(table: pd.DataFrame, of: dict[str, Any], any: bool = False, **limits: float) -> tuple[Verdict, str]:
    """Every number of a selection (with `any`: one or more) is within `limits`."""
    rows, wanted = select(table, of), Limits(**limits)
    held = rows["value"].map(wanted.hold)
    ends = f"{rows['value'].min():.4g} to {rows['value'].max():.4g}"
    told = f"{held.sum()} of {len(rows)} values are {wanted} ({ends})"
    if any:
        return ("supported" if held.any() else "contradicted"), f"{told}: {_shown(rows[held])}"
    failing = rows[~held].sort_values("value")
    return ("supported" if held.all() else "contradicted"), told + (
        "" if held.all() else f"; not so: {_shown(failing)}"
    )


def spread(table: pd.DataFrame, of: dict[str, Any], at_most: float) -> tuple[Verdict, str]:
    """The largest and the smallest of a selection differ by no more than `at_most`."""
    values = select(table, of)["value"]
    found = float(values.max() - values.min())
    evidence = f"{values.min():.4g} to {values.max():.4g}: they differ by {found:.4g}; claimed: at most {at_most:g}"
    return ("supported" if Limits(at_most=at_most).hold(found) else "contradicted"), evidence


def order(
    table: pd.DataFrame, of: dict[str, Any], among: str, highest: str = "", lowest: str = "", at: str = "ranks"
) -> tuple[Verdict, str]:
    """The `highest` (or `lowest`) of a selection is the claimed one of column `among`, at each value of column `at`."""
    told, held, judged = [], [], 0
    for place, rows in select(table, of).groupby(at):
        means = rows.groupby(among)["value"].mean().sort_values(ascending=bool(lowest))
        if len(means) > 1 and (highest or lowest) in means:
            judged += 1
            held.append(means.index[0] == (highest or lowest))
            told.append(f"{at} {place}: " + ", ".join(f"{name} {value:.4g}" for name, value in means.items()))
    if not judged:
        raise Unknown(f"no two of {among} are known at the same {at}")
    return ("supported" if all(held) else "contradicted"), f"at {sum(held)} of {judged}; " + "; ".join(told)


def trend(
    table: pd.DataFrame, of: dict[str, Any], direction: Literal["rising", "falling", "none"], along: str = "ranks"
) -> tuple[Verdict, str]:
    """From the smallest to the largest point of each curve a quantity rises or falls; "none": not all go one way."""
    ends, told = [], []
    for _, curve in select(table, of).groupby(["model", "dataset", "gpu", "machine", "batch_per_rank"], dropna=False):
        means = curve.groupby(along)["value"].mean().sort_index()
        if len(means) > 1:
            ends.append(float(means.iloc[-1] - means.iloc[0]))
            told.append(" -> ".join(f"{value:.4g}" for value in means))
    if not ends:
        raise Unknown("no curve of two points or more is known")
    falling, rising = all(end < 0 for end in ends), all(end > 0 for end in ends)
    held = {"falling": falling, "rising": rising, "none": not (falling or rising)}[direction]
    steps = f"{sum(e < 0 for e in ends)} of {len(ends)} curves fall from end to end"
    shown = "; ".join(told) if len(told) <= 4 else f"{told[0]}; {told[1]}; …"
    return ("supported" if held else "contradicted"), f"{steps}: {shown}"


def difference(table: pd.DataFrame, larger: dict[str, Any], smaller: dict[str, Any]) -> tuple[Verdict, str]:
    """One number is larger than another by more than the noise of the report; within the noise nothing is decided."""
    a, b = _number(table, larger), _number(table, smaller)
    noise = next(iter(scatter(table).values()), None)
    off = metrics.change_fraction(b, a)
    told = f"{a:.4g} against {b:.4g}: {off:+.1%}"
    if noise is not None and abs(off) <= noise:
        raise Unknown(f"{told}, within the noise of the report, {noise:.1%}")
    return ("supported" if a > b else "contradicted"), told


def within_noise(table: pd.DataFrame, formula: str, of: dict[str, Any], stated: float) -> tuple[Verdict, str]:
    """A stated number and what follows from others agree within the noise of the report."""
    values = {name: _number(table, selection) for name, selection in of.items()}
    found, noise = arithmetic(formula, values), max(scatter(table).values(), default=0.0)
    off = metrics.change_fraction(found, stated)
    numbers = ", ".join(f"{name} = {value:.10g}" for name, value in values.items())
    evidence = (
        f"{stated:g} stated, {formula} = {found:.4g} with {numbers}: {off:+.1%}; the noise of the report is {noise:.1%}"
    )
    return ("supported" if abs(off) <= noise else "contradicted"), evidence


def no_effect(table: pd.DataFrame, ratio: str, by: list[str]) -> tuple[Verdict, str]:
    """Two settings give the same throughput: in no group of cells does their ratio differ from 1 significantly.

    Student's t on the logarithms of the ratios of one group (columns `by`), at 5 % over all groups (Bonferroni).
    """
    import numpy as np
    from scipy.stats import ttest_1samp

    if ratio not in RATIOS:
        raise ValueError(f"ratio '{ratio}' given, allowed: {', '.join(RATIOS)}")
    groups = list(pairs(table, ratio).groupby(by))
    if not groups:
        raise Unknown(f"no pair of cells for {ratio}")
    told = []
    for name, cells in groups:
        p = min(1.0, len(groups) * float(ttest_1samp(np.log(cells["follows"]), 0).pvalue))
        if p < SIGNIFICANCE:
            label = ", ".join(f"{column} {value}" for column, value in zip(by, name, strict=True))
            told.append(f"{label}: {np.exp(np.log(cells['follows']).mean()):.3f} (p = {p:.2g}, {len(cells)} cells)")
    evidence = f"{ratio}: significant in {len(told)} of {len(groups)} groups. " + "; ".join(told)
    return ("contradicted" if told else "supported"), evidence.strip()


def median(table: pd.DataFrame, ratio: str, by: str, **limits: float) -> tuple[Verdict, str]:
    """The median of all cells of a ratio of throughputs is within `limits`; with the medians of its groups."""
    cells, wanted = pairs(table, ratio), Limits(**limits)
    found = float(cells["follows"].median())
    groups = ", ".join(
        f"{name} {rows.median():.2f} ({rows.min():.2f} to {rows.max():.2f})"
        for name, rows in cells.groupby(by)["follows"]
    )
    evidence = f"median of {len(cells)} cells {found:.3f}, claimed {wanted}; by {by}: {groups}"
    return ("supported" if wanted.hold(found) else "contradicted"), evidence


def irreconcilable(table: pd.DataFrame, within: float) -> tuple[Verdict, str]:
    """Speed and wall time contradict each other: contradicted where a fixed cost reconciles them, in every curve.

    The speed that the wall times imply (`analysis.explain`, which does not use the speed) is the measured one `within`.
    """
    told, reconciled = [], []
    points, _ = tidy.points(table[table["kind"].ne("computed")], "the report")
    for name, curve in tidy.curves(points):
        found = fit.explain(curve, name)
        implied, speed = found.fit.images_per_s_per_rank.value, found.points["images_per_s_per_rank"].median()
        off = metrics.change_fraction(speed, implied)
        reconciled.append(abs(off) <= within)
        told.append(
            f"{name.split()[-1]}: {found.fit.fixed_s.value:.3g} s once, then {implied:.4g} images/s a rank where "
            f"{speed:.4g} were measured ({off:+.1%})"
        )
    return ("contradicted" if all(reconciled) else "supported"), "; ".join(told)


def averaging_loses(table: pd.DataFrame) -> tuple[Verdict, str]:
    """Averaging gradients over ranks makes training less precise: `table` has local records of the same steps."""
    loses, told = equivalence.verdict(equivalence.pairs(table))
    if loses is None:
        raise Unknown(told)
    return ("supported" if loses else "contradicted"), told


def unknown(table: pd.DataFrame, needs: str) -> tuple[Verdict, str]:
    """The known numbers do not decide it; `needs` says what would."""
    raise Unknown(f"it would take {needs}")


CHECKS: dict[str, Callable[..., tuple[Verdict, str]]] = {
    check.__name__: check
    for check in (
        formula,
        bound,
        spread,
        order,
        trend,
        difference,
        within_noise,
        no_effect,
        median,
        irreconcilable,
        averaging_loses,
        unknown,
    )
}
