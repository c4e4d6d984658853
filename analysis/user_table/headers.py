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
MEASURED = (
    "init_s", "wall_s", "job_s", "epoch_s", "step_s", "images_per_s_per_rank", "images_per_s", "speedup", "efficiency",
    "low", "high",
)  # fmt: skip
COUNTS = ("repeat", "n")
NAMES = (*TEXT, *SIZES, *MEASURED, *COUNTS)
UNUSED = "unused"
_DIRECTIVES = {"decimal": (".", ","), "rows": ("repeats", "curves"), "scaling": ("weak", "strong")}
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
    "scaling" (a speedup or an efficiency), "total" (a time or a rate), "time" (of what?), "threads", "condition"; or ""
    if it is not known, or not used for the reason `why`. by_user: whether COLUMNS= gave the name.
    """

    text: str
    name: str = ""
    unit: Unit | None = None
    why: str = ""
    by_user: bool = False


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
                "rows=repeats or curves; scaling=weak or strong; table=TITLE"
            )
    return Choices(text.strip(), names, directives)


def plain(text: str) -> str:
    """Return a header in lower case, without doubled spaces."""
    return re.sub(r"\s+", " ", text).strip().lower()


_OTHER_RATE = re.compile(r"([a-z][a-z0-9]*)_per_s(_per_rank)?")


def _is_name(name: str) -> bool:
    return name in NAMES or bool(_OTHER_RATE.fullmatch(name))


def named(text: str, value: str, unit: Unit | None = None, by_user: bool = True) -> Header:
    """Return a header with a name, and a unit behind it, as "wall_s min" or "tokens_per_s"."""
    name, _, unit_text = value.partition(" ")
    unit = units.read(unit_text) if unit_text else unit
    if name not in NAMES and (other := _OTHER_RATE.fullmatch(name)):
        name, unit = f"images_per_s{other[2] or ''}", Unit("rate", work=units.work(other[1]), text=name)
    return Header(text, "" if name == UNUSED else name, unit, "as COLUMNS says" if by_user else "", by_user)


PART = "a part of the time"
# Words of a header that is plainly something else than a size or a speed, by the reason.
_NOT_USED = {
    "not measured": r"ideal|theoretical|expected|perfect|linear|target|predicted|est(?:imated)?|projected|est\. .*",
    "a difference": r"saved|savings?|reduction|difference|diff|delta|gain|improvements?|change|increase|faster by",
    "quality": (
        r"(?:\w+ )?acc(?:uracy)?|top ?-?[15]|bleu|f1|auc|m?ap|perplexity|ppl|loss|errors?|err|scores?|rmse|dice|recall"
    ),
    "a resource": (
        r"v?ram|memory|mem|[gm]i?b|bandwidth|(?:bus)?bw|mfu|hfu|util\w*|usage|power|watts?|energy|joules?|cost|price"
        r"|usd|temperature|capacity|gb/s|[gtp]flops?/gpu"
    ),
    PART: (
        r"comm(?:s|unication)?|sync\w*|all-?reduce|forward|backward|fwd|bwd|i/?o|overhead|loading|preprocess\w*|eval\w*"
        r"|validation|val|infer\w*|test|broadcast|comput(?:e|ation|ing)|checkpoint\w*|wait\w*|idle|compil\w*|p\d\d"
        r"|latency (?:p\d\d|\(p\d\d\))|warm ?-?up|serial"
    ),
    "scatter": r"std|stdev|sd|stderr|sem|variance|cv|mad",
    "not a quantity": r"lr|seed|date|timestamp|commit|version|notes?|comments?|links?|url|logs?|id|index|status",
}
_BYTES = re.compile(r"[KMGT]?i?[Bb](?:ytes|its?)?")
_TOTAL = r"\b(?:total|global|overall|aggregated?|combined|cluster|system|effective)\b"
_EACH = rf"(?:\bper[ -]?|/ ?|\beach )(?:{RANK}|{CORE})\b|\b(?:gpu|rank)[ -]?local\b|\blocal\b"
_COUNT = r"(?:number of |num(?:ber)? |no\.? |# ?|total |count of )?"
_TIME_WORDS = r"\b(?:time|cost|duration|elapsed|run ?time|wall ?(?:time|clock)?|took|makespan)\b"
_PACE = r"\b(?:throughput|throuthput|throughout|speed|rate|performance|perf)\b"
_STEP = r"(?:steps?|iter(?:ation)?s?|its?|(?:mini)?batch)"
_WHOLE = {  # headers that are one of these phrases
    "ranks": rf"{_COUNT}(?!per )(?:[a-z0-9-]+ )?{RANK}(?: (?:num(?:ber)?|count|cards))?|n ?p|n?procs|pes?|p|mpi"
    "|world size",
    "nodes": rf"{_COUNT}(?:[a-z0-9-]+ )?{NODE}(?: (?:num(?:ber)?|count))?",
    "threads": rf"{_COUNT}(?:[a-z]+ )?{CORE}(?: count)?|omp num threads|ncores|nthreads",
    "n": r"repeats|repetitions|runs|n runs|num(?:ber)?(?: of)? (?:runs|repeats|trials)",
    "repeat": r"repeat|run|trial|repetition|launch|rep|(?:run|trial) ?#",
    "low": r"low|lower|ci low",
    "high": r"high|upper|ci high",
    "epochs": rf"{_COUNT}epochs?",
    "steps_per_rank": rf"{_COUNT}(?:planned |train(?:ing)? )?(?:steps|iterations|iters)(?: ?(?:per|/) ?{RANK})?"
    r"(?: planned)?",
    "images": rf"{_COUNT}(?:train(?:ing)? )?(?:images|samples|examples)|data ?set size",
    "wall_s": "train|training",
    "model": r"models?|networks?|net|arch(?:itecture)?|backbone|workload|model (?:name|size)|neural network",
    "dataset": r"data ?-?sets?|data|input|corpus",
    "gpu": r"accelerator|device|hardware|card|(?:gpu|device|accelerator) (?:type|model|name)",
    "machine": r"machine|cluster|system|platform|instance|host|site|(?:instance|node) type",
    "precision": r"precisions?|dtype|amp|data ?type",
    "framework": r"frameworks?|library|backend|software|implementation|toolkit",
    "condition": (
        r"settings?|experiments?|config(?:uration)?s?|methods?|modes?|strategy|approach|algorithms?|variants?|names?"
        r"|cases?|benchmarks?|setup|type|series|n|m|k|(?:\w+ )*(?:size|length|len|resolution|grid|dimension)|elements"
        r"|sequences|t[p]|pp|dp|nccl|compiler|interconnect|ppn|optimi[sz]ations?|operation|pipeline"
    ),
}


def read(text: str, number: int, choices: Choices) -> tuple[Header, str]:
    """Return the meaning of the header of a column, and the text of "*" in the pattern that names it."""
    value, label = choices.name(text, number)
    phrase, unit = _without_unit(_phrase(text))
    if value:
        return named(text, value, unit), label
    kit = re.sub(r"\W+", "_", plain(text))
    if _is_name(kit):
        return named(text, kit, unit, by_user=False), ""
    name, why = _name(phrase, unit)
    return Header(text, name, unit, why), ""


def _phrase(text: str) -> str:
    """Return a header in plain words: "num_gpus", "BatchSize", "#GPUs" as "num gpus", "batch size", "# gpus"."""
    text = re.sub(r"(?:mean|average)? ?(?:±|\+/-).*", "", text[:200].replace("_", " "), flags=re.I)
    text = re.sub(r"\b(?:bsz?|batch(?: size)?) ?= ?\d+", " ", text, flags=re.I)  # of the cells below
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", text)
    text = re.sub(r"(?<=img|ges|les|ens|tok|eps) s$", "/s", text)  # "throughput_img_s"
    text = re.sub(r"#[\s-]*", "# ", re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z]+(?![A-Za-z/]))", " ", text))
    return re.sub(r"\s+", " ", text).strip(" :.,")


def _without_unit(phrase: str) -> tuple[str, Unit | None]:
    """Return the words of a header in lower case without a unit in brackets or at the end, and the unit."""
    for match in re.finditer(r"[(\[]([^()\[\]]*)[)\]]", phrase):
        if (unit := units.read(match[1])) and unit.kind not in ("count", ""):
            rest = f"{phrase[: match.start()]} {phrase[match.end() :]}"
            return re.sub(r"\s+", " ", rest).strip().lower(), unit
    words = phrase.split()
    for start in range(len(words)):
        for end in range(len(words), start, -1):
            unit = units.read(" ".join(words[start:end]).strip("()"))
            alone = end - start == len(words)
            rest = " ".join([*words[:start], *words[end:]]).lower()
            if unit and unit.kind == "rate":
                return (phrase.lower() if unit.per else rest), unit
            if unit and (
                unit.kind in ("share", "time") and (unit.per or (end == len(words) and (not alone or len(phrase) > 2)))
            ):
                return re.sub(r" in$", "", rest), unit
    return phrase.lower(), None


def _name(phrase: str, unit: Unit | None) -> tuple[str, str]:
    """Return the name of a header with these words, or "" and why it is not used."""
    kind = unit.kind if unit else ""
    words = re.sub(r"\([^()]*\)", "", phrase).strip()
    whole = next((name for name, pattern in _WHOLE.items() if re.fullmatch(pattern, words)), "")
    counted = unit.work.lower() if unit and not _BYTES.fullmatch(unit.work) else ""
    whole_phrase = f"{phrase} {counted}"
    reason = next(
        (why for why, words_of in _NOT_USED.items() if re.search(rf"\b(?:{words_of})(?!\w)", whole_phrase)), ""
    )
    each_node = rf"(?:num(?:ber)? )?(?:of )?(?:{RANK}|{CORE})(?: num(?:ber)?)? ?(?:/|per|a) ?{NODE}|ppn|rpn"
    if re.fullmatch(f"{_COUNT}(?:{each_node})", words):
        return "ranks_per_node", ""
    if re.search(r"\bspeed[ -]?ups?\b|\bacceleration\b", phrase):
        ratio = re.search(r"\(.*(?:\bto\b| - ).*\)|\bwith\b", phrase)
        return ("", "a ratio of two settings") if ratio else ("", reason) if "ideal" in phrase else ("speedup", "")
    if re.search(r"\beff(?:iciency)?\b|\b(?:of|vs) (?:linear|ideal)", words):
        return "efficiency", ""
    if re.search(r"\bscal(?:ing|ability)\b", words) and kind in ("", "ratio", "share"):
        return "scaling", ""
    if reason:
        return "", reason
    if re.search(r"\bmicro ?(?:batch|bsz?)\b|\bmbs\b", words):
        return "condition", ""
    if re.search(r"\b(?:batch|minibatch)(?: ?size)?\b|\b[gl]?bsz?\b", words) and kind in ("", "count"):
        local, total = re.search(_EACH, phrase), re.search(rf"{_TOTAL}|\bgbsz?\b", phrase)
        return "batch_per_rank" if local else "global_batch" if total else "batch", ""
    if kind == "rate" or (re.search(_PACE, words) and kind == ""):
        return _rate(phrase, unit)
    if kind == "time" or re.search(_TIME_WORDS, words):
        return _time(words, unit)
    if re.fullmatch("total", words):
        return "total", ""
    return whole, ""


def _rate(phrase: str, unit: Unit | None) -> tuple[str, str]:
    """Return the name of a rate."""
    if unit and _BYTES.fullmatch(unit.work) and not re.search(_PACE, phrase):
        return "", "a resource"
    if unit and unit.per == "node":
        return "", "the rate of one node"
    if (unit and unit.per == "rank") or re.search(_EACH, phrase):
        return "images_per_s_per_rank", ""
    return ("images_per_s" if re.search(_TOTAL, phrase) else "rate"), ""


def _time(phrase: str, unit: Unit | None) -> tuple[str, str]:
    """Return the name of a time."""
    per = unit.per if unit else ""
    if re.search(r"\b(?:init\w*|start ?-?up|set ?-?up|launch)\b", phrase):
        return "init_s", ""
    if per == "epoch" or re.search(r"\bepochs?\b", phrase):
        return "epoch_s", ""
    if per == "step" or re.search(rf"\b{_STEP}\b", phrase):
        return "step_s", ""
    if re.search(r"\b(?:converge\w*|to reach|quality)\b", phrase):
        return "", "the time to an accuracy"
    if re.search(r"\btotal\b", phrase) and not re.search("train", phrase):
        return "job_s", ""
    named_time = re.search(_TIME_WORDS, phrase) or re.fullmatch(r"(?:mean|average|median)? ?(?:train(?:ing)?)?", phrase)
    return ("wall_s", "") if named_time else ("time", "")
