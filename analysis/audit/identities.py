"""Identities between numbers of a user's table: each is data, and checked wherever all its quantities are stated."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from analysis import metrics
from analysis.audit.findings import finding, graded
from analysis.curves import ranks_in_words
from analysis.finding import Finding, Severity
from analysis.thresholds import limit
from analysis.user_table import rates
from analysis.user_table.table import UserTable
from analysis.user_table.tidy import own_base

BATCHES = {"batch_per_rank": "the batch of a rank", "global_batch": "the global batch"}
_EXACT = {"ranks", "nodes", "ranks_per_node", "epochs", *BATCHES}  # counts are not rounded


@dataclass(frozen=True)
class Identity:
    """A quantity, and the powers of others whose product it is; over a base: times its value there.

    or_more: the quantity may be larger, by other work. multiple: by a whole number, the same at all points.
    """

    name: str
    quantity: str
    factors: Mapping[str, int]
    text: str
    over_base: bool = False
    or_more: bool = False
    multiple: bool = False

    @property
    def needs(self) -> set[str]:
        """Return the quantities that a table must state."""
        return {self.quantity, *self.factors}


IDENTITIES = (
    Identity("total_rate", "images_per_s", {"images_per_s_per_rank": 1, "ranks": 1}, "rate of a rank x ranks"),
    Identity("total_batch", "global_batch", {"batch_per_rank": 1, "ranks": 1}, "batch of a rank x ranks",
             multiple=True),
    Identity("ranks_of_nodes", "ranks", {"nodes": 1, "ranks_per_node": 1}, "nodes x ranks of a node"),
    Identity("time_of_epochs", "wall_s", {"epochs": 1, "epoch_s": 1}, "epochs x time of one", or_more=True),
    Identity("job_of_epochs", "job_s", {"epochs": 1, "epoch_s": 1}, "epochs x time of one", or_more=True),
    Identity("speedup_of_rates", "speedup", {"images_per_s": 1}, "rate / rate of the base x its speedup",
             over_base=True),
    Identity("efficiency_of_speedup", "efficiency", {"speedup": 1, "ranks": -1}, "speedup / ranks, over the base",
             over_base=True),
)  # fmt: skip


def checkable(table: UserTable) -> list[Identity]:
    """Return the identities all of whose quantities a table states."""
    return [identity for identity in IDENTITIES if identity.needs <= stated_columns(table) & {*map(str, table.runs)}]


def stated_columns(table: UserTable) -> set[str]:
    """Return the columns of a table that are read from its cells, without a batch whose scope was guessed."""
    return {reading.name for reading in table.readings if not (reading.why and reading.name in BATCHES)}


def contradictions(table: UserTable) -> Iterator[Finding]:
    """Yield each number that does not follow from the others of its run, within the printed digits."""
    for identity in checkable(table):
        for curve in rates.curves(table.runs):
            yield from _contradictions(table, identity, curve.dropna(subset=[*identity.needs]))


def _contradictions(table: UserTable, identity: Identity, runs: pd.DataFrame) -> Iterator[Finding]:
    bases = _bases(identity, runs) if identity.over_base else []
    checked = runs.drop([base.name for base in bases])
    if identity.quantity == "speedup":  # those over a base of 1 are checked by `stated_speedup`
        checked = checked.drop(own_base(table.runs, "speedup").dropna().index, errors="ignore")
    times = _usual_multiple(identity, runs) if identity.multiple else 1.0
    beyond = 1 + limit("apart_serious") if identity.or_more else 1.0
    for _, run in checked.iterrows():
        options = [_product(table, identity, run, base) for base in bases or (None,)]
        if identity.name == "efficiency_of_speedup":  # of times in weak scaling both may be the same ratio
            options.append(_ends(table, run, "speedup"))
        low, high = _ends(table, run, identity.quantity)
        if any(low <= times * most * beyond and high >= times * least for least, most in options):
            continue
        follows = times * _value(identity, run, bases[0] if bases else None)
        off = metrics.change_fraction(follows, float(run[identity.quantity]))
        place = f"{run['place']}: {ranks_in_words(float(run['ranks']))}"
        number, text = f"{identity.quantity} {run[identity.quantity]:g}", f"{follows:.5g} = {identity.text}"
        grade: Severity = "warning" if identity.or_more and off > 0 else graded(off)
        yield finding(place, grade, number, text, off, "One of them is wrong, or means something else.")


def _bases(identity: Identity, runs: pd.DataFrame) -> list[pd.Series]:
    """Return the runs whose ratio is stated as 1, else those on the fewest ranks."""
    ones = runs[(runs[identity.quantity] - 1).abs() < 1e-9]
    rows = ones if len(ones) else runs[runs["ranks"].eq(runs["ranks"].min())]
    return [row for _, row in rows.iterrows()]


def _ends(table: UserTable, run: pd.Series, name: str) -> tuple[float, float]:
    """Return the ends between which rounding leaves a number of a run; counts, and the 1 of a base, are exact."""
    half = table.rounding[name].get(run.name, 0.0) if name in table.rounding and name not in _EXACT else 0.0
    value = float(run[name])
    return (value, value) if pd.isna(half) else (value - half, value + half)


def _product(table: UserTable, identity: Identity, run: pd.Series, base: pd.Series | None) -> tuple[float, float]:
    """Return the ends between which rounding leaves the product; over a base that of the ratios, times its number."""
    low, high = (1.0, 1.0) if base is None or base[identity.quantity] == 1 else _ends(table, base, identity.quantity)
    for name, power in identity.factors.items():
        for row, sign in ((run, power), (base, -power)):
            least, most = (1.0, 1.0) if row is None else _ends(table, row, name)
            if least <= 0:
                return -math.inf, math.inf
            low, high = (low * least, high * most) if sign > 0 else (low / most, high / least)
    return low, high


def _value(identity: Identity, run: pd.Series, base: pd.Series | None) -> float:
    """Return the product of the numbers as they are printed."""
    value = 1.0 if base is None else float(base[identity.quantity])
    for name, power in identity.factors.items():
        value *= float(run[name] / (1.0 if base is None else base[name])) ** power
    return value


def _usual_multiple(identity: Identity, runs: pd.DataFrame) -> float:
    """Return the whole number of batches that most runs accumulate before a step; 1 if they do not agree."""
    products = [_value(identity, run, None) for _, run in runs.iterrows()]
    usual = (runs[identity.quantity] / products).round(6).mode()
    return float(usual.iloc[0]) if len(usual) == 1 and usual.iloc[0] % 1 == 0 and usual.iloc[0] >= 1 else 1.0
