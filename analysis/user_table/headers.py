"""The contract of headers: a column is a quantity with a unit if its whole header is in headers.toml, else unknown."""

from __future__ import annotations

import functools
import itertools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.user_table import numbers, units
from analysis.user_table.numbers import Cell
from analysis.user_table.units import PLAIN, Unit

# The columns of a table in their order. A file may have these names as headers, and COLUMNS= assigns them.
TEXT = ("model", "dataset", "gpu", "machine", "precision", "framework", "setting")
SIZES = ("nodes", "ranks_per_node", "ranks", "batch_per_rank", "global_batch", "steps_per_rank", "epochs", "images")
RATES = ("images_per_s_per_rank", "images_per_s_per_node", "images_per_s")
TIMES = ("init_s", "wall_s", "job_s", "epoch_s", "step_s")
RATIOS = ("speedup", "efficiency")
NAMES = (*TEXT, "scaling", *SIZES, *TIMES, *RATES, *RATIOS, "low", "high", "repeat", "repeats")
UNUSED, UNKNOWN = "unused", "measured"  # in COLUMNS=: leave a column out; it was measured, and its name is asked
MEASURED = (*TIMES, *RATES, *RATIOS, "low", "high", "rate", UNKNOWN)  # names and other meanings
NUMERIC = (*MEASURED, *SIZES, "repeat", "repeats", "batch", "cores")
# What is measured, and the kinds of unit that its cells may have.
KIND = dict.fromkeys((*RATES, "rate", "low", "high"), "rate") | dict.fromkeys(TIMES, "time")
KIND |= dict.fromkeys(RATIOS, "ratio")
UNIT_KINDS = {"rate": {"", "rate"}, "time": {"", "time"}, "ratio": {"", "ratio", "share"}, "count": {"", "count"}}
SCOPE = {
    "images_per_s": "of the whole job", "images_per_s_per_rank": "of one rank", "batch_per_rank": "of one rank",
    "images_per_s_per_node": "of one node", "global_batch": "of all ranks",
}  # fmt: skip
SCOPED = {"rate": ("images_per_s", "images_per_s_per_rank"), "batch": ("batch_per_rank", "global_batch")}
AWKWARD = re.compile(r"""[,;="'$`\\!*]""")  # in COLUMNS=, or in a shell
_OTHER_RATE = re.compile(r"([a-z][a-z0-9]*)_per_s(_per_rank|_per_node)?")
_RATE_PREFIXES = {"total ": "images_per_s", "global ": "images_per_s", "training ": "rate", "mean ": "rate"}
# "Time (ms)", "Time, ms", "Time in ms", "time_ms"; not "time_min", which may be the least.
_UNIT_BEHIND = (
    r"(.+?) *[(\[]([^()\[\]]+)[)\]]", r"(.+?), *([^,]+)", r"(.+?) in (\w+)", r"(.+?)[ _](?!min$)([a-z]+|\S+/\S+)",
)  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column: its header, its number from 1 on, its meaning and its cells.

    name: of NAMES; or a meaning that the rest of the table must settle: "rate" and "batch" (of one rank or of all),
    "cores", UNKNOWN; or "other" if it is none of them, "" if it is not known. unit: of its header, then of its values.
    by_user: whether COLUMNS= says it. label: the text of "*" in the pattern that names it. why: what confirms its
    meaning, if not its header. values: its cells in s, 1/s and fractions. key: what COLUMNS= calls it.
    """

    text: str
    number: int = 0
    name: str = ""
    unit: Unit = PLAIN
    by_user: bool = False
    label: str = ""
    why: str = ""
    cells: tuple[str, ...] = ()
    values: tuple[Cell, ...] = ()
    key: str = ""

    def __str__(self) -> str:
        """Return, for example, "'Global Throughput (img/s)' -> images_per_s, of the whole job"."""
        parts = [displayed(self.name, self.unit.work), SCOPE.get(self.name, ""), self.unit.text]
        return f"'{self.text}' -> {', '.join(filter(None, parts))}" + (f" ({self.why})" if self.why else "")

    @property
    def filled(self) -> list[str]:
        """Return its cells that are not blank."""
        return [cell for cell in self.cells if cell.strip("-–— ")]

    @property
    def numeric(self) -> bool:
        """Return whether all its cells are numbers, or blank."""
        return all(numbers.share(cells) == 1 for cells in (self.cells[: numbers.FEW], self.cells))

    @property
    def varies(self) -> bool:
        """Return whether its cells differ."""
        return len({*self.cells}) > 1

    @property
    def counting(self) -> bool:
        """Return whether its cells can be numbers of ranks: different whole numbers above 0, "4 GPUs", "8x V100".

        "8x4" may be anything, and so may numbers below a unit as "(MB)" or below a header that begins with a number.
        """
        if not self.varies or self.unit.kind not in ("", "count") or re.match(r"\d|.*\w\w[)\]]$", self.text):
            return False
        counts = (cell if re.fullmatch(r"\d+ ?[x×] ?\d+", cell) else numbers.counted(cell)[0] for cell in self.filled)
        return all(re.match(r"[1-9][\d,]*(?![\d.e])", cell) and numbers.counts(cell) for cell in counts)

    def named(self, name: str, why: str = "") -> Column:
        """Return the column under another name, with the reason."""
        return replace(self, name=name, why=why or self.why)

    def assigned(self, value: str, by_user: bool = True, label: str = "") -> Column:
        """Return the column with a name, and a unit behind it, as "wall_s min" or "tokens_per_s".

        One that was measured keeps the name of its header.
        """
        name, _, unit_text = value.partition(" ")
        unit = units.read_unit(unit_text) or self.unit if unit_text else self.unit
        if name not in NAMES and (other := _OTHER_RATE.fullmatch(name)):
            name = f"images_per_s{other[2] or ''}"
            work = unit.work if unit.work.lower() == other[1] else units.work(other[1])  # "MB", of mb_per_s
            unit = Unit("rate", unit.factor if unit.kind == "rate" else 1.0, work, text=unit.text or value)
        if name == UNKNOWN and self.name in MEASURED:
            name = self.name
        return replace(self, name="other" if name == UNUSED else name, unit=unit, by_user=by_user, label=label)


def displayed(name: str, work: str) -> str:
    """Return the name of a column with the unit that its rates count, "tokens_per_s"."""
    counted = re.sub(r"\W+", "_", work).strip("_").lower() or "images"
    return f"{counted}_per_s" if name == "rate" else re.sub("^images(?=_per_s)", counted, name)


def is_name(name: str) -> bool:
    """Return whether COLUMNS= may call a column so, as "wall_s" or "tokens_per_s"."""
    return name in (*NAMES, UNUSED, UNKNOWN) or bool(_OTHER_RATE.fullmatch(name))


def plain(text: str) -> str:
    """Return a header in lower case, without doubled spaces."""
    return re.sub(r"\s+", " ", text).strip().lower()


def _key(text: str) -> str:
    return re.sub(r"[\s_.:-]+", "", text.lower())


@functools.cache
def _meanings() -> Mapping[str, str]:
    """Return the meaning of each header of headers.toml."""
    lists = tomllib.loads(Path(__file__).with_name("headers.toml").read_text())
    words = lists["words"] | lists["words"].pop("more")
    meanings: dict[str, str] = {}
    for name, headers in lists["names"].items():
        for header in headers:
            parts = [
                words.get(part.strip("{}"), ()) if "{" in part else [part] for part in re.split(r"(\{\w+\})", header)
            ]
            for texts in itertools.product(*parts):
                meanings.setdefault(_key("".join(texts)), name)
    return meanings


def read_header(text: str, number: int = 0) -> Column:
    """Return a column with the meaning and unit of its whole header; without a name if it has none."""
    name, unit = _exact(text[:200])
    if name == "rate" and unit.per:
        name = f"images_per_s_per_{unit.per}"
    return Column(text, number, name, unit)


@functools.lru_cache(maxsize=1 << 12)
def _exact(text: str) -> tuple[str, Unit]:
    """Return the name and unit of a header: it is in the list, or a rate, or in the list before a unit; else ""."""
    kit = plain(text)
    if kit not in NAMES and (other := _OTHER_RATE.fullmatch(kit)) and units.known_work(other[1]):
        return f"images_per_s{other[2] or ''}", Unit("rate", work=units.work(other[1]), text=kit)
    if name := kit if kit in NAMES else _meanings().get(_key(text)):
        return name, PLAIN
    if (unit := units.read_unit(text)) and unit.per in ("step", "epoch"):
        return f"{unit.per}_s", unit
    if unit and unit.kind == "rate":
        return "rate" if units.known_work(unit.work) else "", unit
    for prefix, name in _RATE_PREFIXES.items():
        if plain(text).startswith(prefix) and (unit := units.read_unit(text[len(prefix) :])) and unit.kind == "rate":
            return (name if units.known_work(unit.work) and not unit.per else ""), unit
    for match in filter(None, (re.fullmatch(pattern, text.strip(), re.I) for pattern in _UNIT_BEHIND)):
        if unit := units.read_unit(match[2]):
            return _fitting(_meanings().get(_key(match[1]), ""), unit), unit
    return "", PLAIN


def _fitting(name: str, unit: Unit) -> str:
    """Return the name of a header before this unit; "" if the quantity has no such unit."""
    kind = KIND.get(name, "")
    if not kind or (unit.kind != kind and (kind, unit.kind) != ("ratio", "share")):
        return name if name == "other" else ""
    return f"{unit.per}_s" if kind == "time" and unit.per and name == "wall_s" else name
