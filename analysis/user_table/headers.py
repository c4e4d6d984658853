"""The contract of headers: a column is a quantity with a unit and a scope, or unknown; and what COLUMNS= says of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis import TableError
from analysis.user_table import numbers, units
from analysis.user_table.numbers import Cell
from analysis.user_table.units import CORE, NODE, PLAIN, RANK, Unit

# The columns of a table in their order. A file may have these names as headers, and COLUMNS= assigns them.
TEXT = ("model", "dataset", "gpu", "machine", "precision", "framework", "setting")
SIZES = ("nodes", "ranks_per_node", "ranks", "batch_per_rank", "global_batch", "steps_per_rank", "epochs", "images")
RATES = ("images_per_s_per_rank", "images_per_s")
TIMES = ("init_s", "wall_s", "job_s", "epoch_s", "step_s")
RATIOS = ("speedup", "efficiency")
COUNTS = ("repeat", "repeats")
NAMES = (*TEXT, *SIZES, *TIMES, *RATES, *RATIOS, "low", "high", *COUNTS)
UNUSED = "unused"
MEASURED = (*TIMES, *RATES, *RATIOS, "low", "high", "rate", "total", "cells")  # names and other meanings
# What is measured, and the kinds of unit that its cells may have.
KIND = dict.fromkeys((*RATES, "rate", "low", "high"), "rate") | dict.fromkeys(TIMES, "time")
KIND |= dict.fromkeys(RATIOS, "ratio")
UNIT_KINDS = {"rate": {"", "rate"}, "time": {"", "time"}, "ratio": {"", "ratio", "share"}, "count": {"", "count"}}
# The names of a quantity by its scope, that which COLUMNS= is offered first in front; and the scope in words.
SCOPES = {
    "rate": {"job": "images_per_s", "rank": "images_per_s_per_rank"},
    "batch": {"rank": "batch_per_rank", "job": "global_batch"},
}
SCOPE = {
    "images_per_s": "of the whole job", "images_per_s_per_rank": "of one rank", "batch_per_rank": "of one rank",
    "global_batch": "of all ranks",
}  # fmt: skip
AWKWARD = re.compile(r"""[,;="'$`\\!*]""")  # in COLUMNS=, or in a shell
_ANSWERS = 7  # at most, to one question
_DIRECTIVES = {"decimal": (".", ","), "rows": ("repeats",), "scaling": ("weak", "strong")}
_OTHER_RATE = re.compile(r"([a-z][a-z0-9]*)_per_s(_per_rank)?")


@dataclass(frozen=True)
class Column:
    """A column: its header, its number from 1 on, its meaning and its cells.

    name: of NAMES; or a meaning that the rest of the table must settle: "rate" and "batch" (of one rank or of all),
    "time" (of what?), "total" (a time?), "cells", "threads", "condition"; or "other" if it is plainly none of them, ""
    if it is not known. unit: of its header, then that in which its cells were read. by_user: whether COLUMNS= says it.
    label: the text of "*" in the pattern that names it. why: what shows its meaning, if not its header. values: its
    cells in s, 1/s and fractions. key: what COLUMNS= calls it.
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
        return bool(self.filled) and all(map(numbers.by_mark, self.filled))

    @property
    def varies(self) -> bool:
        """Return whether its cells differ."""
        return len({*self.cells}) > 1

    def named(self, name: str, why: str = "") -> Column:
        """Return the column under another name, with the reason."""
        return replace(self, name=name, why=why or self.why)

    def assigned(self, value: str, by_user: bool = True, label: str = "") -> Column:
        """Return the column with a name, and a unit behind it, as "wall_s min" or "tokens_per_s"."""
        name, _, unit_text = value.partition(" ")
        unit = units.read(unit_text) or self.unit if unit_text else self.unit
        if name not in NAMES and (other := _OTHER_RATE.fullmatch(name)):
            name, unit = f"images_per_s{other[2] or ''}", Unit("rate", work=units.work(other[1]), text=name)
        return replace(self, name="other" if name == UNUSED else name, unit=unit, by_user=by_user, label=label)


def displayed(name: str, work: str) -> str:
    """Return the name of a column with the unit that its rates count, "tokens_per_s"."""
    counted = re.sub(r"\W+", "_", work).strip("_").lower() or "images"
    return f"{counted}_per_s" if name == "rate" else re.sub("^images(?=_per_s)", counted, name)


@dataclass(frozen=True)
class Choices:
    """What COLUMNS= says: names by header in lower case, by number, or by a pattern with "*"; and directives."""

    text: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    directives: Mapping[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)  # names that matched a header

    def adding(self, answer: str) -> str:
        """Return the setting of COLUMNS that adds an answer."""
        return f'COLUMNS="{",".join(filter(None, (self.text, answer)))}"'

    def name(self, header: str, number: int = 0) -> tuple[str, str]:
        """Return the name and unit that the user gives to a column, and the text that "*" stands for; "" for none."""
        whole = re.sub(r"\s+", " ", header).strip()
        for pattern, name in sorted(self.names.items(), key=lambda item: "*" in item[0]):
            match = re.fullmatch(re.escape(pattern).replace(r"\*", "(.+)", 1), whole, re.I)
            if match or pattern == str(number):
                self.used.add(pattern)
                return name, match[1].strip() if match and match.groups() else ""
        return "", ""


class Question(Exception):
    """A table with several readings; answers: the meaning of each, and what it adds to COLUMNS; without one, none."""

    def __init__(self, text: str, answers: Sequence[tuple[str, str]] = ()) -> None:
        """Keep the text and the first answers."""
        super().__init__(text)
        self.answers = answers[:_ANSWERS]


def parse_choices(text: str) -> Choices:
    """Return what COLUMNS= says, "Machine Num=nodes,Speed=images_per_s". Raises TableError for a name not allowed."""
    names: dict[str, str] = {}
    directives: dict[str, str] = {}
    if text.strip().isdigit():  # a terminal's width, which some shells export under this name
        return Choices()
    for part in re.split(r"[,;](?=[^=]*=)", text) if text else ():
        header, separator, value = (part_text.strip() for part_text in part.rpartition("="))
        key, name = plain(header), value.partition(" ")[0]
        allowed = _is_name(name) or name == UNUSED
        if separator and (value in _DIRECTIVES.get(key, ()) or (key == "table" and not allowed)):
            directives[key] = value
        elif separator and header.strip("*") and allowed:
            names[key] = value
        else:
            raise TableError(
                f"COLUMNS: '{part.strip()}' given; allowed: HEADER=NAME, of {', '.join(sorted(NAMES))}, unused, or "
                "tokens_per_s and the like; a number or a pattern with * for HEADER; cells=NAME; decimal=. or ,; "
                "rows=repeats; scaling=weak or strong; table=TITLE"
            )
    return Choices(text.strip(), names, directives)


def scoped(meaning: str) -> list[str]:
    """Return the names that a meaning may have, by its scope; "rate" and "batch" have two."""
    return [*SCOPES.get(meaning, {"": meaning}).values()]


def plain(text: str) -> str:
    """Return a header in lower case, without doubled spaces."""
    return re.sub(r"\s+", " ", text).strip().lower()


def _is_name(name: str) -> bool:
    return name in NAMES or bool(_OTHER_RATE.fullmatch(name))


# Words of a header that is plainly neither a size nor a speed of what was measured, or only a part of a time.
_OTHER = (
    r"\b(?:ideal|theoretical|expected|perfect|linear|target|predicted|estimated|projected|est|saved|savings?|reduction"
    r"|difference|diff|delta|gain|improvements?|change|increase|acc|accuracy|bleu|map|perplexity|loss|errors?|score|rmse"
    r"|v?ram|memory|mem|[kmgt]?bytes|[kmgt]i?b(?:its?)?|bandwidth|(?:bus)?bw|mfu|hfu|util\w*|usage|power|watts?|energy"
    r"|cost|price|temperature|std|stdev|stderr|variance|lr|seed|date|timestamp|commit|version|notes?|comments?|url|id"
    r"|index|status|comm|communication|sync\w*|all-?reduce|forward|backward|i/?o|overhead|loading|preprocess\w*|eval\w*"
    r"|test|validation|val|infer\w*|broadcast|comput(?:e|ation|ing)|checkpoint\w*|wait\w*|idle|compil\w*|p\d\d"
    r"|warm ?-?up|serial|converge\w*|quality)(?!\w)"
)
_ALL = r"\b(?:total|global|overall|aggregated?|combined|cluster|system|effective|gbsz?)\b"
_EACH = rf"(?:\bper[ -]?|/ ?|\beach )(?:{RANK}|{CORE})\b|\blocal\b"
_COUNT = r"(?:num(?:ber)? (?:of )?|no\.? |# ?|total )?"
_TIME = r"\b(?:time|duration|elapsed|run ?time|wall ?(?:time|clock)?|makespan)\b"
_PACE = r"\b(?:throughput|speed|rate|performance|perf)\b"
_IN_BRACKETS = ("speedup", "other")  # words in brackets count for these too
_NONE, _ANY = ("",), ("", "time", "rate", "share", "ratio")
# Meanings, the kinds of unit that they have, and their words. The first that fits counts.
_MEANINGS = (
    ("efficiency", _ANY, r"\beff(?:iciency)?\b|\b(?:of|vs) (?:linear|ideal)"),
    ("speedup", ("", "ratio"), r"^[^(]*\bscal(?:ing|ability)\b"),
    ("speedup", _ANY, r"^(?!.*ideal).*\bspeed[ -]?ups?\b"),
    ("other", _ANY, _OTHER),
    ("condition", _NONE, r"\bmicro ?batch"),
    ("batch", _NONE, r"^[^=]*(?:\b(?:mini)?batch(?: ?size)?\b|\b[gl]?bsz?\b)[^=]*$"),
    ("rate", ("rate",), ""),
    ("rate", _NONE, _PACE),
    ("init_s", ("time",), r"\b(?:init\w*|start ?-?up|set ?-?up)\b"),
    ("epoch_s", ("time",), r"\bepochs?\b"),
    ("step_s", ("time",), r"\b(?:steps?|iter(?:ation)?s?|(?:mini)?batch)\b"),
    ("job_s", ("time",), r"^(?!.*train).*\btotal\b"),
    ("wall_s", ("time",), rf"{_TIME}|^(?:mean|average|median)? ?(?:train(?:ing)?)?$"),
    ("time", ("time",), ""),
    ("ranks", _NONE, rf"^{_COUNT}(?!per )(?:[a-z0-9-]+ )?{RANK}(?: (?:num(?:ber)?|count|cards))?$"),
    ("ranks", _NONE, r"^(?:n ?p|n?procs|p|world size)$"),
    ("nodes", _NONE, rf"^{_COUNT}(?:[a-z0-9-]+ )?{NODE}(?: (?:num(?:ber)?|count))?$"),
    ("ranks_per_node", _NONE, rf"^(?:{_COUNT}(?:{RANK}|{CORE})(?: num(?:ber)?)? ?(?:/|per) ?{NODE}|ppn|rpn)$"),
    ("threads", _NONE, rf"^(?:{_COUNT}(?:[a-z]+ )?{CORE}(?: count)?|omp num threads|nthreads)$"),
    ("repeats", _ANY, r"^(?:repetitions|runs|n runs)$"),
    ("repeat", _ANY, r"^(?:repeat|run|trial|repetition|launch)$"),
    ("low", _ANY, r"^low(?:er)?$"),
    ("high", _ANY, r"^(?:high|upper)$"),
    ("epochs", _ANY, rf"^{_COUNT}epochs?$"),
    ("steps_per_rank", _ANY, rf"^{_COUNT}(?:train(?:ing)? )?(?:steps|iterations)(?: ?(?:per|/) ?{RANK})?$"),
    ("images", _ANY, rf"^{_COUNT}(?:train(?:ing)? )?(?:images|samples|examples)$"),
    ("total", _ANY, "^total$"),
    ("model", _ANY, r"^(?:models?|networks?|arch(?:itecture)?|backbone|model (?:name|size))$"),
    ("dataset", _ANY, r"^(?:data ?-?sets?|data|input)$"),
    ("gpu", _ANY, r"^(?:accelerator|device|hardware|(?:gpu|device|accelerator) (?:type|model|name))$"),
    ("machine", _ANY, r"^(?:machine|cluster|system|platform|host|(?:instance|node) type)$"),
    ("precision", _ANY, r"^(?:precision|dtype|amp|data ?type)$"),
    ("framework", _ANY, r"^(?:frameworks?|library|backend|software|implementation)$"),
    ("condition", _ANY, r"^(?:n|m|k|(?:\w+ )*(?:size|length|len|resolution|grid|dimension))$"),
)


def read(text: str, number: int, choices: Choices) -> Column:
    """Return a column with the meaning of its header."""
    value, label = choices.name(text, number)
    phrase, unit = _without_unit(_phrase(text))
    column = Column(text, number, _meaning(phrase, unit), unit)
    kit = re.sub(r"\W+", "_", plain(text))
    exact = _is_name(kit) and column.name not in ("ranks", "nodes")  # "gpu" and "machine" may count
    return column.assigned(value or kit, bool(value), label) if value or exact else column


def _phrase(text: str) -> str:
    """Return a header in plain words: "num_gpus", "BatchSize", "#GPUs" as "num gpus", "batch size", "# gpus"."""
    text = re.sub(r"(?:mean|average)? ?(?:±|\+/-).*", "", text[:200].replace("_", " "), flags=re.I)
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", text)
    text = re.sub(r"#[\s-]*", "# ", re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z]+(?![A-Za-z/]))", " ", text))
    return re.sub(r"\s+", " ", text).strip(" :.,")


def _without_unit(phrase: str) -> tuple[str, Unit]:
    """Return the words of a header in lower case without a rate, or a unit in brackets or at the end, and the unit."""
    for match in re.finditer(r"[(\[]([^()\[\]]*)[)\]]", phrase):
        if (unit := units.read(match[1])) and unit.kind not in ("count", ""):
            return plain(f"{phrase[: match.start()]} {phrase[match.end() :]}"), unit
    words = phrase.split()
    for start in range(len(words)):
        for end in range(len(words), start, -1):
            unit = units.read(" ".join(words[start:end]))
            last = end == len(words) and len(phrase) > 2
            if unit and (unit.kind == "rate" or (last and unit.kind in ("share", "time"))):
                return " ".join([*words[:start], *words[end:]]).lower().removesuffix(" in"), unit
    return phrase.lower(), PLAIN


def _meaning(phrase: str, unit: Unit) -> str:
    """Return the name of a header with these words and this unit, with its scope if it says it."""
    words = f"{re.sub(r'[(][^()]*[)]', '', phrase).strip()} {unit.per if unit.kind == 'time' else ''}".strip()
    kind = unit.kind or ("time" if re.search(_TIME, words) else "")
    whole = phrase if re.search(_PACE, words) else f"{phrase} {unit.work.lower()}"  # "GB/s" is a bandwidth alone
    name = next(
        (
            name
            for name, kinds, pattern in _MEANINGS
            if kind in kinds and re.search(pattern, whole if name in _IN_BRACKETS else words)
        ),
        "",
    )
    if name == "rate" and unit.per == "node":
        return "other"
    each = unit.per == "rank" or re.search(_EACH, phrase)
    scope = "rank" if each else "job" if re.search(_ALL, phrase) else ""
    return SCOPES.get(name, {}).get(scope, name)
