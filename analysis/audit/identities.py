"""Identities between numbers of a user's table: each is data, and checked wherever all its quantities are stated."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from analysis import metrics
from analysis.audit.findings import finding, graded
from analysis.finding import Finding
from analysis.thresholds import limit
from analysis.user_table import rates
from analysis.user_table.headers import RATIOS
from analysis.user_table.table_contract import UserTable
from common.terminal import counted

IMAGES = ("", "images", "samples")
TIMES = ("wall_s", "job_s", "epoch_s", "step_s")
BATCHES = {"batch_per_rank": "the batch of a rank", "global_batch": "the global batch"}
_EXACT = {"ranks", "nodes", "ranks_per_node", "epochs", "images", *BATCHES}  # counts are not rounded
# Quantities that count as stated if one of these is, from which they follow.
_SOURCES = {
    "ranks": {"ranks_per_node"}, "images_per_s": {"images_per_s_per_rank", "images_per_s_per_node"},
    "global_batch": {"batch_per_rank"}, "batch_per_rank": {"global_batch"},
}  # fmt: skip
_MOST_BASES = 50  # of more possible bases one fits by chance
_LONGER = limit("apart_serious")
_SHORTER = _LONGER / (1 + _LONGER)

Product = Mapping[str, int]  # powers of quantities


@dataclass(frozen=True)
class Identity:
    """A quantity, and the products of others one of which it is; over a base: times its value there.

    below, above: the fractions by which it may be lower or higher, besides rounding. multiple: times a whole number,
    the same at all points, or such that the quantity is. images: only if rates count images.
    """

    name: str
    quantity: str
    products: tuple[Product, ...]
    text: str
    over_base: bool = False
    below: float = 0.0
    above: float = 0.0
    multiple: bool = False
    images: bool = False


_SPEEDUPS: tuple[Product, ...] = ({"images_per_s": 1}, *({time: -1} for time in TIMES))
IDENTITIES = (
    Identity("total_rate", "images_per_s", ({"images_per_s_per_rank": 1, "ranks": 1},), "rate of a rank x ranks"),
    Identity("total_batch", "global_batch", ({"batch_per_rank": 1, "ranks": 1},), "batch of a rank x ranks",
             multiple=True),
    Identity("ranks_of_nodes", "ranks", ({"nodes": 1, "ranks_per_node": 1},), "nodes x ranks of a node"),
    Identity("time_of_epochs", "wall_s", ({"epochs": 1, "epoch_s": 1},), "epochs x time of one", above=_LONGER),
    Identity("job_of_epochs", "job_s", ({"epochs": 1, "epoch_s": 1},), "epochs x time of one", above=_LONGER),
    Identity("least_rate", "images_per_s", ({"low": 1}, {"low": 1, "images_per_s": 1, "images_per_s_per_rank": -1}),
             "the low end of its interval, or more", above=math.inf),
    Identity("most_rate", "images_per_s", ({"high": 1}, {"high": 1, "images_per_s": 1, "images_per_s_per_rank": -1}),
             "the high end of its interval, or less", below=1.0),
    Identity("time_of_steps", "step_s",  # of the whole batch, or before gradients are accumulated
             ({"global_batch": 1, "images_per_s": -1}, {"batch_per_rank": 1, "ranks": 1, "images_per_s": -1}),
             "batch / rate", below=_SHORTER, above=_LONGER, images=True),
    Identity("time_of_images", "wall_s", ({"images": 1, "images_per_s": -1},), "images / rate, or more",
             below=_SHORTER, above=math.inf, images=True),
    Identity("images_of_epochs", "epoch_s", ({"images_per_s": -1},), "images of an epoch on fewest ranks / rate",
             over_base=True, below=_SHORTER, above=_LONGER, images=True),
    Identity("speedup", "speedup", (*_SPEEDUPS, *({time: -1, "ranks": 1} for time in TIMES)),
             "speedup by rate or time, over the base", over_base=True),
    Identity("efficiency", "efficiency",  # in weak scaling a ratio of times
             (*({**each, "ranks": -1} for each in ({"speedup": 1}, *_SPEEDUPS)), {"speedup": 1}, *_SPEEDUPS[1:]),
             "speedup / ranks, or by rate or time, over the base", over_base=True),
)  # fmt: skip


def checkable(table: UserTable) -> list[Identity]:
    """Return the identities whose quantities a table states, each with the products of stated ones alone."""
    stated, there = stated_columns(table), {*map(str, table.runs)}
    identities = []
    for identity in IDENTITIES:
        needs = [{identity.quantity, *product} for product in identity.products]
        ratios = {"ranks"} if identity.over_base else set()  # nodes have the same ratios
        able = [names <= there and _are_stated(names - ratios, stated) for names in needs]
        products = tuple(product for product, is_able in zip(identity.products, able, strict=True) if is_able)
        if products and not (identity.images and {*table.runs["work"]} - {*IMAGES}):
            identities.append(replace(identity, products=products))
    return identities


def stated_columns(table: UserTable) -> set[str]:
    """Return the columns of a table that are read from its cells, without a batch whose scope was guessed."""
    return {reading.name for reading in table.readings if not (reading.why and reading.name in BATCHES)}


def _are_stated(names: Collection[str], stated: set[str]) -> bool:
    """Return whether each of these is stated, or follows from what is stated and not among them."""
    sources = {name: _SOURCES.get(name, set()) for name in names}
    return all(name in stated or (sources[name] & stated and not sources[name] & {*names}) for name in names)


def contradictions(table: UserTable) -> Iterator[Finding]:
    """Yield each number that does not follow from the others of its run, within the printed digits.

    A line of several curves has one ratio, which is that of one of them.
    """
    for identity in checkable(table):
        checked = [result for curve in rates.curves(table.runs) for result in _checked(table, identity, curve)]
        fitting = {line for line, result in checked if result is None}
        yield from (result for line, result in checked if result and line not in fitting)


def _checked(
    table: UserTable, identity: Identity, curve: pd.DataFrame
) -> Iterator[tuple[tuple[str, int], Finding | None]]:
    """Yield file and line of each run of a curve that can be checked, and what contradicts the identity in it."""
    runs = curve[curve[identity.quantity].notna()]
    multiples = _multiples(identity, runs).tolist() if identity.multiple else [1.0] * len(runs)
    for times, (_, run) in zip(multiples, runs.iterrows(), strict=True):
        bases = _bases(table.runs, identity, runs, run) if identity.over_base else [None]
        pairs = [
            (base, product)
            for base in bases
            for product in identity.products
            if pd.notna([row[name] for row in (run, base) if row is not None for name in product]).all()
        ]
        if not pairs:
            continue
        low, high = _ends(table, run, identity.quantity)
        ranges = (_product(table, identity, run, *pair) for pair in pairs)
        fits = any(
            low <= times * most * (1 + identity.above) and high >= times * least * (1 - identity.below)
            for least, most in ranges
        )
        follows = [times * _value(identity, run, *pair) for pair in pairs]
        yield (run["file"], run["line"]), None if fits else _finding(table, identity, run, follows)


def _finding(table: UserTable, identity: Identity, run: pd.Series, follows: list[float]) -> Finding:
    """Return the finding that a number is none of those that follow; the nearest one is named."""
    number = float(run[identity.quantity])
    nearest = min(follows, key=lambda value: abs(value - number))
    off, meaning = metrics.change_fraction(nearest, number), "One of them is wrong, or means something else."
    grade = graded(off)
    if identity.below if off < 0 else identity.above:
        grade = "serious" if identity.below and not 0.5 < 1 + off < 2 else "warning"
    if table.unread_times and identity.quantity in RATIOS:
        grade, meaning = "note", "It may follow from the columns of times that are not used."
    place = f"{run['place']}: {counted(float(run['ranks']), 'rank')}"
    return finding(place, grade, f"{identity.quantity} {number:g}", f"{nearest:.5g} = {identity.text}", off, meaning)


def _bases(table_runs: pd.DataFrame, identity: Identity, curve: pd.DataFrame, run: pd.Series) -> list[pd.Series]:
    """Return the runs that the number of a run may be over.

    Those of its curve whose ratio is stated as 1; without one the run on fewest ranks, and those stated as 1 elsewhere.
    None for a run that is a base itself; another run that states 1 is one, if the batch of a base is not its own.
    """
    fewest = curve[curve["ranks"].eq(curve["ranks"].min())]
    if identity.quantity not in RATIOS:
        return [base for _, base in fewest.iterrows() if run.name not in fewest.index]
    ones = curve[(curve[identity.quantity] - 1).abs() < 1e-9]
    bases = ones[ones["ranks"].lt(run["ranks"])] if run.name in ones.index else ones
    if run.name in ones.index and (batches := [*{*BATCHES} & {*curve}]):
        bases = bases[(bases[batches] == run[batches]).any(axis=1) | bases[batches].isna().all(axis=1)]
    if ones.empty:
        elsewhere = table_runs[table_runs[identity.quantity].eq(1)]
        bases = pd.concat([fewest, elsewhere]).drop(run.name, errors="ignore")
    return [base for _, base in bases.iterrows()] if len(bases) <= _MOST_BASES else []


def _ends(table: UserTable, run: pd.Series, name: str) -> tuple[float, float]:
    """Return the ends between which rounding leaves a number of a run; counts, and the 1 of a base, are exact."""
    half = table.rounding[name].get(run.name, 0.0) if name in table.rounding and name not in _EXACT else 0.0
    value = float(run[name])
    return (value, value) if pd.isna(half) else (value - half, value + half)


def _product(
    table: UserTable, identity: Identity, run: pd.Series, base: pd.Series | None, product: Product
) -> tuple[float, float]:
    """Return the ends between which rounding leaves a product; over a base that of the ratios, times its number."""
    low, high = (1.0, 1.0) if base is None or base[identity.quantity] == 1 else _ends(table, base, identity.quantity)
    for name, power in product.items():
        for row, sign in ((run, power), (base, -power)):
            least, most = (1.0, 1.0) if row is None else _ends(table, row, name)
            if least <= 0:
                return 0.0, math.inf
            low, high = (low * least, high * most) if sign > 0 else (low / most, high / least)
    return low, high


def _value(identity: Identity, run: pd.Series, base: pd.Series | None, product: Product) -> float:
    """Return a product of the numbers as they are printed; NaN over 0."""
    value = 1.0 if base is None else float(base[identity.quantity])
    for name, power in product.items():
        for row, sign in ((run, power), (base, -power)):
            number = 1.0 if row is None else float(row[name])
            value *= number**sign if number else math.nan
    return value


def _multiples(identity: Identity, runs: pd.DataFrame) -> pd.Series:
    """Return the whole number of batches that each run accumulates before a step.

    It is as large as keeps the global batch, else that of most runs; 1 if they do not agree.
    """
    products = [_value(identity, run, None, identity.products[0]) for _, run in runs.iterrows()]
    ratios = (runs[identity.quantity] / products).round(6)
    whole = ratios.mod(1).eq(0) & ratios.ge(1)
    usual = ratios.mode()
    one = float(usual.iloc[0]) if len(usual) == 1 and whole[ratios.eq(usual.iloc[0])].all() else 1.0
    return ratios.where(whole & (runs[identity.quantity].nunique() == 1), one)
