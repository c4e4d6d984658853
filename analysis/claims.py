"""The reports' claims: every conclusion of theirs that can be checked, with a verdict that is computed from numbers.

The claims are data (`published/claims.toml`): what is said and where, which check decides it, over which numbers, and
within what. A check is one of `CHECKS`; it sees the tidy table with the numbers that follow from it (`computed`).
"""

from __future__ import annotations

import ast
import operator
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from analysis import TableError, equivalence, explain
from analysis.audit.curves import scatter
from analysis.audit.points import SOURCE_RUN, curves, lookup, measured
from analysis.audit.stated import RATIOS, pairs
from analysis.metrics import efficiency

CLAIMS = Path(__file__).with_name("published") / "claims.toml"

Verdict = Literal["supported", "contradicted", "not decidable"]
VERDICTS: tuple[Verdict, ...] = ("contradicted", "not decidable", "supported")
SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Claim:
    """What a report says, where, and the check that decides it with its arguments."""

    id: str
    report: str
    place: str
    text: str  # the report's own words, shortened
    check: str
    arguments: dict[str, Any]
    own: str = ""  # the experiment of one's own whose records decide it; else the report's numbers do
    remark: str = ""  # what a reader should know beside the numbers


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict and the numbers that decide it, in words."""

    claim: Claim
    verdict: Verdict
    evidence: str


class Unknown(Exception):
    """The numbers that a check needs are not known."""


def read(path: Path = CLAIMS) -> list[Claim]:
    """The claims in the TOML file `path`. Raises TableError naming the file, the claim and what is wrong with it."""
    try:
        entries = tomllib.loads(path.read_text())["claim"]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise TableError(f"{path}: not a readable list of claims: {error}") from error
    claims = []
    for number, entry in enumerate(entries, 1):
        given = dict(entry)
        absent = [name for name in ("id", "report", "place", "text", "check") if name not in given]
        if absent:
            raise TableError(f"{path}: claim {number} ({given.get('id', 'no id')}): no {', '.join(absent)}")
        if given["check"] not in CHECKS:
            raise TableError(f"{path}: {given['id']}: check '{given['check']}' given, allowed: {', '.join(CHECKS)}")
        fields = {name: given.pop(name) for name in ("id", "report", "place", "text", "check")}
        also = {name: given.pop(name, "") for name in ("own", "remark")}
        claims.append(Claim(**fields, **also, arguments=given))
    twice = {claim.id for claim in claims if sum(other.id == claim.id for other in claims) > 1}
    if twice:
        raise TableError(f"{path}: stands there twice: {', '.join(sorted(twice))}")
    return claims


def judge(claims: list[Claim], table: pd.DataFrame, own: pd.DataFrame) -> list[Judged]:
    """Each claim with its verdict, from the published tidy `table`, or from one's `own` where the claim says so.

    Raises TableError where an argument is wrong.
    """
    numbers = pd.concat([table, computed(table)], ignore_index=True)
    judged = []
    for claim in claims:
        try:
            decides = own[own["experiment"].eq(claim.own)] if claim.own else numbers[numbers["report"].eq(claim.report)]
            verdict, evidence = CHECKS[claim.check](decides, **claim.arguments)
        except Unknown as missing:
            verdict, evidence = "not decidable", str(missing)
        except (TypeError, KeyError, ValueError) as error:
            raise TableError(f"claim {claim.id}: {claim.check}: {error}") from error
        judged.append(Judged(claim, verdict, evidence))
    return judged


def computed(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of kind "computed": what follows from the measured numbers of a report, point by point.

    speedup_ and efficiency_ by throughput, wall time (images / wall_s, or equal work) and job time; job_s and epoch_s
    over those at half as many ranks (`…_per_doubling`, a fraction); time_to_stable_s = job_s x epochs_to_stable /
    epochs_planned.
    """
    rows = [*_speedups(table), *_doublings(table), *_times_to_stable(table)]
    return pd.DataFrame(rows, columns=[*table.columns]).assign(kind="computed").astype(table.dtypes)


def _speedups(table: pd.DataFrame) -> Iterator[dict]:
    steps = lookup(table[table["quantity"].eq("steps_per_rank_planned")])
    for quantity, name in (
        ("images_per_s", "throughput"),
        ("images_per_s_per_rank", "throughput"),
        ("wall_s", "wall_time"),
        ("job_s", "job_time"),
    ):
        for curve in curves(table, quantity):
            points = curve.to_dict("records")
            rates = []
            for point in points:
                work = steps(point)[0]["value"] * point["global_batch"] if steps(point) else 1.0
                per_rank = point["ranks"] if quantity == "images_per_s_per_rank" else 1
                rates.append(work / point["value"] if point["unit"] == "s" else point["value"] * per_rank)
            for point, rate in zip(points, rates, strict=True):
                speedup = rate / rates[0]
                share = efficiency(speedup, point["ranks"], points[0]["ranks"])
                yield {**point, "quantity": f"speedup_{name}", "value": speedup, "unit": "x"}
                yield {**point, "quantity": f"efficiency_{name}", "value": share, "unit": "fraction"}


def _doublings(table: pd.DataFrame) -> Iterator[dict]:
    for curve in curves(table, "job_s", "epoch_s"):
        for before, after in pairwise(curve.to_dict("records")):
            if after["ranks"] == 2 * before["ranks"]:
                name = f"{after['quantity']}_per_doubling"
                yield {**after, "quantity": name, "value": after["value"] / before["value"], "unit": "fraction"}


def _times_to_stable(table: pd.DataFrame) -> Iterator[dict]:
    jobs, planned = lookup(measured(table, "job_s")), lookup(table[table["quantity"].eq("epochs_planned")])
    for row in measured(table, "epochs_to_stable").to_dict("records"):
        if jobs(row) and planned(row):
            value = jobs(row)[0]["value"] * row["value"] / planned(row)[0]["value"]
            yield {**row, "quantity": "time_to_stable_s", "value": value, "unit": "s"}


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


_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def arithmetic(formula: str, values: dict[str, float]) -> float:
    """The value of a formula of names, numbers, + - * / and brackets. Raises ValueError for anything else in it."""

    def value(node: ast.expr) -> float:
        match node:
            case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](value(left), value(right))
            case ast.Constant(float() | int() as number):
                return float(number)
            case ast.Name(name) if name in values:
                return values[name]
        raise ValueError(
            f"formula '{formula}': '{ast.unparse(node)}' is no number, no + - * / and none of {list(values)}"
        )

    return value(ast.parse(formula, mode="eval").body)


@dataclass(frozen=True)
class Limits:
    """What a number must be for a claim to hold: on a side, or about a value within a tolerance."""

    at_least: float | None = None
    at_most: float | None = None
    more_than: float | None = None
    less_than: float | None = None
    about: float | None = None
    within: float = 0.0

    def hold(self, value: float) -> bool:
        """Does `value` keep them all."""
        small = 1e-9 * max(1.0, abs(value))
        return (
            (self.at_least is None or value >= self.at_least - small)
            and (self.at_most is None or value <= self.at_most + small)
            and (self.more_than is None or value > self.more_than)
            and (self.less_than is None or value < self.less_than)
            and (self.about is None or abs(value - self.about) <= self.within + small)
        )

    def __str__(self) -> str:
        """The limits in words."""
        words = [
            f"{name.replace('_', ' ')} {limit:.6g}"
            for name in ("at_least", "at_most", "more_than", "less_than")
            if (limit := getattr(self, name)) is not None
        ]
        if self.about is not None:
            words.append(f"{self.about:.6g}" + (f" within {self.within:.3g}" if self.within else ""))
        return " and ".join(words)


def _number(table: pd.DataFrame, of: dict[str, Any] | float) -> float:
    """The one number that a selection means: all its rows must agree, or be repeats, whose mean is taken."""
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
    """What follows from a few numbers by arithmetic keeps `limits`. `of`: a selection, or a number, for each name."""
    values = {name: _number(table, selection) for name, selection in of.items()}
    found, wanted = arithmetic(formula, values), Limits(**limits)
    numbers = ", ".join(f"{name} = {value:.10g}" for name, value in values.items())
    evidence = f"{formula} = {found:.4g}{' ' * bool(unit)}{unit}, with {numbers}; claimed: {wanted}"
    return ("supported" if wanted.hold(found) else "contradicted"), evidence


def bound(table: pd.DataFrame, of: dict[str, Any], any: bool = False, **limits: float) -> tuple[Verdict, str]:
    """Every number of a selection (with `any`: one or more) keeps `limits`."""
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
    """One number is larger than another by more than the report's own noise; within the noise nothing is decided."""
    a, b = _number(table, larger), _number(table, smaller)
    noise = next(iter(scatter(table).values()), None)
    told = f"{a:.4g} against {b:.4g}: {a / b - 1:+.1%}"
    if noise is not None and abs(a / b - 1) <= noise:
        raise Unknown(f"{told}, within the report's own noise of {noise:.1%}")
    return ("supported" if a > b else "contradicted"), told


def within_noise(table: pd.DataFrame, formula: str, of: dict[str, Any], stated: float) -> tuple[Verdict, str]:
    """A stated number and what follows from others agree within the report's own noise."""
    values = {name: _number(table, selection) for name, selection in of.items()}
    found, noise = arithmetic(formula, values), max(scatter(table).values(), default=0.0)
    off = stated / found - 1
    numbers = ", ".join(f"{name} = {value:.10g}" for name, value in values.items())
    evidence = (
        f"{stated:g} stated, {formula} = {found:.4g} with {numbers}: {off:+.1%}; the report's noise is {noise:.1%}"
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
    """The median of all cells of a ratio of throughputs keeps `limits`; with the medians of its groups."""
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

    The speed that the wall times imply (`analysis.explain`, which never uses the speed) is the measured one `within`.
    """
    told, reconciled = [], []
    points, _ = explain.from_tidy(table[table["kind"].ne("computed")], "the report")
    for name, curve in explain.curves(points):
        found = explain.explain(curve, name)
        implied, speed = found.fit.images_per_s_per_rank.value, found.points["images_per_s_per_rank"].median()
        reconciled.append(abs(implied / speed - 1) <= within)
        told.append(
            f"{name.split()[-1]}: {found.fit.fixed_s.value:.3g} s once, then {implied:.4g} images/s a rank where "
            f"{speed:.4g} were measured ({implied / speed - 1:+.1%})"
        )
    return ("contradicted" if all(reconciled) else "supported"), "; ".join(told)


def averaging_loses(table: pd.DataFrame) -> tuple[Verdict, str]:
    """Averaging gradients over ranks makes training less precise: `table` has one's own records of `equivalence`."""
    loses, told = equivalence.verdict(equivalence.pairs(table))
    if loses is None:
        raise Unknown(told)
    return ("supported" if loses else "contradicted"), told


def unknown(table: pd.DataFrame, needs: str) -> tuple[Verdict, str]:
    """What is known does not decide it; `needs` says what would."""
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
