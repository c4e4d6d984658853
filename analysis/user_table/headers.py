"""The contract of headers: the meaning of a column, its unit, and what COLUMNS= says of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from analysis import TableError
from analysis.user_table import numbers, units
from analysis.user_table.numbers import Cell
from analysis.user_table.units import CORE, NODE, RANK, Unit

# The columns of a table in their order. A file may have these names as headers, and COLUMNS= assigns them.
TEXT = ("model", "dataset", "gpu", "machine", "precision", "framework", "setting")
SIZES = ("nodes", "ranks_per_node", "ranks", "batch_per_rank", "global_batch", "steps_per_rank", "epochs", "images")
RATES = ("images_per_s_per_rank", "images_per_s")
TIMES = ("init_s", "wall_s", "job_s", "epoch_s", "step_s")
MEASURED = (*TIMES, *RATES, "speedup", "efficiency", "low", "high")
COUNTS = ("repeat", "n")
NAMES = (*TEXT, *SIZES, *MEASURED, *COUNTS)
UNUSED = "unused"
_DIRECTIVES = {"decimal": (".", ","), "rows": ("repeats",), "scaling": ("weak", "strong")}
_OF = {
    "images_per_s": "of the whole job", "images_per_s_per_rank": "of one rank", "global_batch": "of all ranks",
    "batch_per_rank": "of one rank",
}  # fmt: skip
_OTHER_RATE = re.compile(r"([a-z][a-z0-9]*)_per_s(_per_rank)?")


@dataclass(frozen=True)
class Column:
    """A column: its header, its number from 1 on, its meaning and its cells.

    name: of NAMES; or a meaning that the rest of the table must settle: "rate" and "batch" (of one rank or of all),
    "time" (of what?), "total" (a time?), "cells", "threads", "condition"; or "other" if it is plainly none of them,
    "part" of the time, "" if it is not known. by_user: whether COLUMNS= says it. label: the text of "*" in the pattern
    that names it. why: what shows its meaning, if not its header. values: its cells in s, 1/s and fractions. work: what
    its rates count.
    """

    text: str
    number: int = 0
    name: str = ""
    unit: Unit | None = None
    by_user: bool = False
    label: str = ""
    why: str = ""
    cells: tuple[str, ...] = ()
    values: tuple[Cell, ...] = ()
    unit_text: str = ""
    work: str = ""

    def __str__(self) -> str:
        """Return, for example, "'Global Throughput (img/s)' -> images_per_s, of the whole job"."""
        parts = [displayed(self.name, self.work), _OF.get(self.name, ""), self.unit_text]
        return f"'{self.text}' -> {', '.join(filter(None, parts))}" + (f" ({self.why})" if self.why else "")

    @property
    def numeric(self) -> bool:
        """Return whether all its cells are numbers, or blank."""
        filled = [cell for cell in self.cells if cell.strip("-–— ")]
        return bool(filled) and all(map(numbers.by_mark, filled))

    def named(self, name: str, why: str = "") -> Column:
        """Return the column under another name, with the reason."""
        return replace(self, name=name, why=why or self.why)

    def assigned(self, value: str, by_user: bool = True, label: str = "") -> Column:
        """Return the column with a name, and a unit behind it, as "wall_s min" or "tokens_per_s"."""
        name, _, unit_text = value.partition(" ")
        unit = units.read(unit_text) if unit_text else self.unit
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
            before, star, after = map(re.escape, pattern.partition("*"))
            match = re.fullmatch(f"{before}(.+){after}" if star else before, whole, re.I)
            if match or pattern == str(number):
                self.used.add(pattern)
                return name, match[1].strip() if match and star else ""
        return "", ""


def parse_choices(text: str) -> Choices:
    """Return what COLUMNS= says, "Machine Num=nodes,Speed=images_per_s". Raises TableError for a name not allowed."""
    names: dict[str, str] = {}
    directives: dict[str, str] = {}
    if text.strip().isdigit():  # a terminal's width, which some shells export under this name
        return Choices()
    for part in re.split(r"[,;](?=[^=]*=)", text) if text else ():
        header, separator, value = (part_text.strip() for part_text in part.rpartition("="))
        name, key = value.partition(" ")[0], plain(header)
        if (separator and value in _DIRECTIVES.get(key, ())) or (separator and key == "table" and not _is_name(name)):
            directives[key] = value
        elif separator and header.strip("*") and (_is_name(name) or name == UNUSED):
            names[key] = value
        else:
            raise TableError(
                f"COLUMNS: '{part.strip()}' given; allowed: HEADER=NAME, of {', '.join(sorted(NAMES))}, unused, or "
                "tokens_per_s and the like; a number or a pattern with * for HEADER; cells=NAME; decimal=. or ,; "
                "rows=repeats; scaling=weak or strong; table=TITLE"
            )
    return Choices(text.strip(), names, directives)


def plain(text: str) -> str:
    """Return a header in lower case, without doubled spaces."""
    return re.sub(r"\s+", " ", text).strip().lower()


def _is_name(name: str) -> bool:
    return name in NAMES or bool(_OTHER_RATE.fullmatch(name))


# Words of a header that is plainly neither a size nor a speed of what was measured.
_OTHER = re.compile(
    r"\b(?:ideal|theoretical|expected|perfect|linear|target|predicted|estimated|projected|est|saved|savings?|reduction"
    r"|difference|diff|delta|gain|improvements?|change|increase|acc|accuracy|bleu|map|perplexity|loss|errors?|score|rmse"
    r"|v?ram|memory|mem|[gm]i?b|bandwidth|(?:bus)?bw|mfu|hfu|util\w*|usage|power|watts?|energy|cost|price|temperature"
    r"|std|stdev|stderr|variance|lr|seed|date|timestamp|commit|version|notes?|comments?|url|id|index|status)(?!\w)"
)
_PART = re.compile(
    r"\b(?:comm|communication|sync\w*|all-?reduce|forward|backward|i/?o|overhead|loading|preprocess\w*|eval\w*|test"
    r"|validation|val|infer\w*|broadcast|comput(?:e|ation|ing)|checkpoint\w*|wait\w*|idle|compil\w*|p\d\d|warm ?-?up"
    r"|serial|converge\w*|quality)(?!\w)"
)
_BYTES = re.compile(r"[KMGT]?i?[Bb](?:ytes|its?)?")
_TOTAL = r"\b(?:total|global|overall|aggregated?|combined|cluster|system|effective)\b"
_EACH = rf"(?:\bper[ -]?|/ ?|\beach )(?:{RANK}|{CORE})\b|\blocal\b"
_COUNT = r"(?:num(?:ber)? (?:of )?|no\.? |# ?|total )?"
_TIME = r"\b(?:time|duration|elapsed|run ?time|wall ?(?:time|clock)?|makespan)\b"
_PACE = r"\b(?:throughput|speed|rate|performance|perf)\b"
_BATCH = r"\b(?:batch|minibatch)(?: ?size)?\b|\b[gl]?bsz?\b"
_MEAN = r"(?:mean|average|median)? ?(?:train(?:ing)?)?"  # above a unit of time
_STEP = r"\b(?:steps?|iter(?:ation)?s?|(?:mini)?batch)\b"
_WHOLE = {  # headers that are one of these phrases
    "ranks": rf"{_COUNT}(?!per )(?:[a-z0-9-]+ )?{RANK}(?: (?:num(?:ber)?|count|cards))?|n ?p|n?procs|p|world size",
    "nodes": rf"{_COUNT}(?:[a-z0-9-]+ )?{NODE}(?: (?:num(?:ber)?|count))?",
    "ranks_per_node": rf"{_COUNT}(?:{RANK}|{CORE})(?: num(?:ber)?)? ?(?:/|per) ?{NODE}|ppn|rpn",
    "threads": rf"{_COUNT}(?:[a-z]+ )?{CORE}(?: count)?|omp num threads|nthreads",
    "n": r"repeats|repetitions|runs|n runs",
    "repeat": r"repeat|run|trial|repetition|launch",
    "low": r"low|lower",
    "high": r"high|upper",
    "epochs": rf"{_COUNT}epochs?",
    "steps_per_rank": rf"{_COUNT}(?:train(?:ing)? )?(?:steps|iterations)(?: ?(?:per|/) ?{RANK})?",
    "images": rf"{_COUNT}(?:train(?:ing)? )?(?:images|samples|examples)",
    "total": "total",
    "wall_s": "train|training",
    "model": r"models?|networks?|arch(?:itecture)?|backbone|model (?:name|size)",
    "dataset": r"data ?-?sets?|data|input",
    "gpu": r"accelerator|device|hardware|(?:gpu|device|accelerator) (?:type|model|name)",
    "machine": r"machine|cluster|system|platform|host|(?:instance|node) type",
    "precision": r"precision|dtype|amp|data ?type",
    "framework": r"frameworks?|library|backend|software|implementation",
    "condition": r"n|m|k|(?:\w+ )*(?:size|length|len|resolution|grid|dimension)",
}


def read(text: str, number: int, choices: Choices, cells: tuple[str, ...] = ()) -> Column:
    """Return a column with the meaning of its header."""
    value, label = choices.name(text, number)
    phrase, unit = _without_unit(_phrase(text))
    kit = re.sub(r"\W+", "_", plain(text))
    column = Column(text, number, _name(phrase, unit), unit, cells=cells)
    return column.assigned(value or kit, bool(value), label) if value or _is_name(kit) else column


def _phrase(text: str) -> str:
    """Return a header in plain words: "num_gpus", "BatchSize", "#GPUs" as "num gpus", "batch size", "# gpus"."""
    text = re.sub(r"(?:mean|average)? ?(?:±|\+/-).*", "", text[:200].replace("_", " "), flags=re.I)
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", text)
    text = re.sub(r"#[\s-]*", "# ", re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z]+(?![A-Za-z/]))", " ", text))
    return re.sub(r"\s+", " ", text).strip(" :.,")


def _without_unit(phrase: str) -> tuple[str, Unit | None]:
    """Return the words of a header in lower case without a unit in brackets or at the end, and the unit."""
    for match in re.finditer(r"[(\[]([^()\[\]]*)[)\]]", phrase):
        if (unit := units.read(match[1])) and unit.kind not in ("count", ""):
            return plain(f"{phrase[: match.start()]} {phrase[match.end() :]}"), unit
    words = phrase.split()
    for start in range(len(words)):
        for end in range(len(words), start, -1):
            unit = units.read(" ".join(words[start:end]))
            rest = " ".join([*words[:start], *words[end:]]).lower()
            if unit and unit.kind == "rate":
                return (phrase.lower() if unit.per else rest), unit
            if unit and unit.kind in ("share", "time") and end == len(words) and (unit.per or len(phrase) > 2):
                return rest.removesuffix(" in"), unit
    return phrase.lower(), None


def _name(phrase: str, unit: Unit | None) -> str:
    """Return the name of a header with these words and this unit: the first that fits."""
    unit = unit or Unit("")
    words = re.sub(r"\([^()]*\)", "", phrase).strip()
    of_bytes, pace = _BYTES.fullmatch(unit.work), re.search(_PACE, words)
    each, total = unit.per == "rank" or re.search(_EACH, phrase), re.search(_TOTAL, phrase)
    batch = re.search(_BATCH, words) and unit.kind in ("", "count") and "=" not in words
    rate = unit.kind == "rate" or (pace and unit.kind == "")
    named_time = re.search(_TIME, words)
    time = unit.kind == "time" or named_time
    meanings = (
        ("efficiency", re.search(r"\beff(?:iciency)?\b|\b(?:of|vs) (?:linear|ideal)", words)),
        ("speedup", unit.kind in ("", "ratio") and re.search(r"\bscal(?:ing|ability)\b", words)),
        ("speedup", re.search(r"\bspeed[ -]?ups?\b", phrase) and "ideal" not in phrase),
        ("other", re.search(_OTHER, phrase if of_bytes else f"{phrase} {unit.work.lower()}")),
        ("other", of_bytes and not re.search(_PACE, phrase)),
        ("part", re.search(_PART, phrase)),
        ("condition", batch and "micro" in words),
        ("batch_per_rank", batch and each),
        ("global_batch", batch and (total or re.search(r"\bgbsz?\b", phrase))),
        ("batch", batch),
        ("other", rate and unit.per == "node"),
        ("images_per_s_per_rank", rate and each),
        ("images_per_s", rate and total),
        ("rate", rate),
        ("init_s", time and re.search(r"\b(?:init\w*|start ?-?up|set ?-?up)\b", words)),
        ("epoch_s", time and (unit.per == "epoch" or re.search(r"\bepochs?\b", words))),
        ("step_s", time and (unit.per == "step" or re.search(_STEP, words))),
        ("job_s", time and re.search(r"\btotal\b", words) and "train" not in words),
        ("wall_s", named_time or (time and re.fullmatch(_MEAN, words))),
        ("time", time),
        *((name, re.fullmatch(pattern, words)) for name, pattern in _WHOLE.items()),
    )
    return next((name for name, fits in meanings if fits), "")
