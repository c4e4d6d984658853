"""The contract of headers: the name of a column, its unit, and what COLUMNS= says of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from analysis import TableError
from analysis.user_table import units
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
# For messages: usual headers of a column.
EXAMPLES = {
    "ranks": ("GPUs", "workers", "processes", "or nodes and GPUs per node"),
    "images_per_s": ("images/s", "samples/sec", "tokens/s", "total throughput"),
    "images_per_s_per_rank": ("images/s per GPU", "samples/sec/worker"),
    "wall_s": ("training time [s]", "wall time (min)", "elapsed"),
    "epoch_s": ("time per epoch", "s/epoch"),
    "step_s": ("ms/step", "iteration time"),
    "speedup": ("speedup", "speed-up (x)"),
    "efficiency": ("scaling efficiency", "% of linear"),
    "batch_per_rank": ("batch per GPU", "local batch size"),
    "global_batch": ("global batch size", "total batch"),
    "steps_per_rank": ("steps", "iterations per GPU"),
}


@dataclass(frozen=True)
class Header:
    """One header and its meaning.

    name: of NAMES; or a meaning that the rest of the table must settle: "rate" and "batch" (of one rank or of all),
    "scaling" (a speedup or an efficiency), "total" (a time or a rate), "time" (of what?), "threads", "condition"; or
    "other" if it is plainly none of them, "part" of the time, "" if it is not known. by_user: whether COLUMNS= says it.
    label: the text of "*" in the pattern that names it.
    """

    text: str
    name: str = ""
    unit: Unit | None = None
    by_user: bool = False
    label: str = ""


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

    def name(self, header: str, number: int) -> tuple[str, str]:
        """Return the name and unit that the user gives to a column, and the text that "*" stands for; "" for none."""
        for key in (plain(header), str(number)):
            if key and key in self.names:
                self.used.add(key)
                return self.names[key], ""
        for pattern, name in self.names.items():
            before, star, after = pattern.partition("*")
            low, shortest = plain(header), len(before) + len(after)
            if star and pattern != "*" and low.startswith(before) and low.endswith(after) and len(low) > shortest:
                self.used.add(pattern)
                whole = re.sub(r"\s+", " ", header).strip()
                return name, whole[len(before) : len(whole) - len(after)].strip()
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
        elif separator and header and (_is_name(name) or name == UNUSED):
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


_OTHER_RATE = re.compile(r"([a-z][a-z0-9]*)_per_s(_per_rank)?")


def _is_name(name: str) -> bool:
    return name in NAMES or bool(_OTHER_RATE.fullmatch(name))


def named(text: str, value: str, unit: Unit | None = None, by_user: bool = True, label: str = "") -> Header:
    """Return a header with a name, and a unit behind it, as "wall_s min" or "tokens_per_s"."""
    name, _, unit_text = value.partition(" ")
    unit = units.read(unit_text) if unit_text else unit
    if name not in NAMES and (other := _OTHER_RATE.fullmatch(name)):
        name, unit = f"images_per_s{other[2] or ''}", Unit("rate", work=units.work(other[1]), text=name)
    return Header(text, "other" if name == UNUSED else name, unit, by_user, label)


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


def read(text: str, number: int, choices: Choices) -> Header:
    """Return the meaning of the header of a column."""
    value, label = choices.name(text, number)
    phrase, unit = _without_unit(_phrase(text))
    kit = re.sub(r"\W+", "_", plain(text))
    if value or _is_name(kit):
        return named(text, value or kit, unit, by_user=bool(value), label=label)
    return Header(text, _name(phrase, unit), unit)


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
    """Return the name of a header with these words and this unit."""
    kind = unit.kind if unit else ""
    words = re.sub(r"\([^()]*\)", "", phrase).strip()
    if re.search(r"\bspeed[ -]?ups?\b", phrase) and "ideal" not in phrase:
        return "speedup"
    if re.search(r"\beff(?:iciency)?\b|\b(?:of|vs) (?:linear|ideal)", words):
        return "efficiency"
    if re.search(r"\bscal(?:ing|ability)\b", words) and kind in ("", "ratio", "share"):
        return "scaling"
    counts_bytes = bool(unit and _BYTES.fullmatch(unit.work))
    counted = unit.work.lower() if unit and not counts_bytes else ""
    if re.search(_OTHER, f"{phrase} {counted}") or (counts_bytes and not re.search(_PACE, phrase)):
        return "other"
    if re.search(_PART, phrase):
        return "part"
    if re.search(_BATCH, words) and kind in ("", "count") and "=" not in words:
        local, total = re.search(_EACH, phrase), re.search(rf"{_TOTAL}|\bgbsz?\b", phrase)
        return "condition" if "micro" in words else "batch_per_rank" if local else "global_batch" if total else "batch"
    if kind == "rate" or (re.search(_PACE, words) and kind == ""):
        each = (unit and unit.per == "rank") or re.search(_EACH, phrase)
        whole = "images_per_s" if re.search(_TOTAL, phrase) else "rate"
        return "other" if unit and unit.per == "node" else "images_per_s_per_rank" if each else whole
    if kind == "time" or re.search(_TIME, words):
        return _time(words, unit.per if unit else "")
    return next((name for name, pattern in _WHOLE.items() if re.fullmatch(pattern, words)), "")


def _time(words: str, per: str) -> str:
    """Return the name of a time."""
    if re.search(r"\b(?:init\w*|start ?-?up|set ?-?up)\b", words):
        return "init_s"
    if per == "epoch" or re.search(r"\bepochs?\b", words):
        return "epoch_s"
    if per == "step" or re.search(_STEP, words):
        return "step_s"
    if re.search(r"\btotal\b", words) and "train" not in words:
        return "job_s"
    return "wall_s" if re.search(_TIME, words) or re.fullmatch(_MEAN, words) else "time"
