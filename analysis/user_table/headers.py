"""The meaning of column headers: the quantity, its unit, and whether it is that of one rank or of the whole job."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from analysis import TableError
from analysis.user_table import units
from analysis.user_table.units import GPU, NODE, RANK, TIME, WORK, Unit, any_of

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
# For messages: usual headers of a column.
EXAMPLES = {
    "ranks": ("GPUs", "workers", "processes", "or nodes and GPUs per node"),
    "images_per_s": ("images/s", "samples/sec", "tok/s", "total throughput"),
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
class StatedSizes:
    """The sizes that a header states for the points below it: ranks or nodes as text, and a batch; "" for none.

    kind: "ranks", "nodes", or "" for a number alone. batch_name: of NAMES, or "batch".
    """

    size: str = ""
    kind: str = ""
    batch: str = ""
    batch_name: str = ""


@dataclass(frozen=True)
class Header:
    """One header and its meaning.

    name: of NAMES; "batch" or "rate" if its scope is not stated; "scaling" for a speedup or an efficiency; "" if it is
    not used, for the reason `why`. label: its words that are neither quantity nor unit, as "TF32". sizes: those that it
    states. overridden: whether the user gave the name.
    """

    text: str
    name: str
    unit: Unit | None = None
    label: str = ""
    why: str = ""
    sizes: StatedSizes = StatedSizes()
    overridden: bool = False


def parse_overrides(text: str) -> dict[str, str]:
    """Return the names that COLUMNS= assigns, "Machine Num=nodes,Speed=images_per_s", by header in lower case.

    Raises TableError for a name that is none of NAMES, "unused" or "decimal".
    """
    names: dict[str, str] = {}
    if text.strip().isdigit():  # a terminal's width, which some shells export under this name
        return names
    for part in re.split(r"[,;](?=[^=]*=)", text) if text else ():
        header, separator, name = (part_text.strip() for part_text in part.rpartition("="))
        name, _, unit = name.partition(" ")
        allowed = {*NAMES, UNUSED}
        if not separator or not header or not (name in allowed or (header == "decimal" and name in (".", ","))):
            raise TableError(
                f"COLUMNS: '{part.strip()}' given; allowed: HEADER=NAME, of {', '.join(sorted(allowed))}; or decimal=. "
                "or decimal=,"
            )
        names[plain(header)] = f"{name} {unit}".strip()
    return names


def plain(text: str) -> str:
    """Return a header in lower case, without doubled spaces."""
    return re.sub(r"\s+", " ", text).strip().lower()


_ONE_RANK = (
    rf"\bmicro ?batch|(?:\bper[ -]?|/ ?|\beach |\ba )(?:{RANK}|threads?|cores?)\b|\b{RANK}[ -]?local\b|\blocal\b"
    r"|\bindividual\b"
)
_JOB = rf"\b{any_of('globa?l? total overall aggregated? combined cluster system effective sum job', 'all gpus')}\b"
_COUNT = r"(?:\b(?:total|count|n|amount of|(?:num(?:ber)?|no\.?)(?: of)?)\b|# ?(?:of\b)?)"
_STEP = any_of("step steps iter iters iteration iterations it its batch minibatch mini-batch batches")
_TIME_WORDS = r"\b(?:time|times(?! \w)|cost|duration|elapsed|run ?time|wall(?:time|-?clock)?|took|makespan)\b"
_PACE = rf"\b{any_of('throughput throughout throuthput speed perf performance rate through-put')}\b"
_MEMORY = r"(?<!(?:shared|ibuted) )mem(?:ory)?"  # but no model of parallelism
# Headers that are not used, by the reason.
_NOT_USED = {
    "not measured": any_of(
        "ideal theoretical expected perfect linear target predicted est estimated projected te[oó]ric[oa] objetivo"
        " na[iï]ve", "to beat", "max(?:imum)? (?:duration|length|context)",
    ),
    "a difference": any_of("saved savings? reduction difference diff delta gain improvement change"),
    "accuracy": any_of("acc accuracy top-?[15] bleu f1 auc map perplexity ppl loss error err score rmse mae dice"),
    "not about speed": any_of(
        "ram vram gb mb gib mib bandwidth gbps gb/s mb/s [gtp]?flops? mfu util\\w* usage power watts?"
        " (?:giga|tera|peta)flops? energy joules? cost price usd temperature", "file size", "cpu time", _MEMORY,
        r"(?:success|error|hit|miss|pass|fail(?:ure)?|accept\w*|cache|clock) rate", r"rate[- ]limited",
    ),
    "a part of the time": any_of(
        "comm\\w* sync\\w* all-?reduce forward backward fwd bwd i/?o overhead loading data-?load\\w* preprocess\\w*"
        " eval\\w* validation val infer\\w* test latency p\\d\\d broadcast"
        " comput(?:e|ation|ing) optimizer checkpoint\\w* queu\\w* wait\\w* idle response compil\\w* ttft tpot",
        "all reduce", "data load\\w*",
    ),
    "scatter": any_of("std stdev stddev sd stderr sem variance cv", "standard deviation"),
    "no quantity": any_of(
        "lr momentum seed date commit version driver notes? comments? links? url logs? id index status place",
        "learning rate", "host ?names?",
    ),
}  # fmt: skip
_WHOLE_HEADERS = {
    "n": any_of("n repeats repetitions runs", "num(?:ber)?(?: of)? (?:runs|repeats|trials)"),
    "repeat": any_of("repeat run trial repetition launch rep", "run ?#", "trial ?#"),
    "low": any_of("low lower min minimum", "ci low"),
    "high": any_of("high upper max maximum", "ci high"),
    "epochs": rf"(?:{_COUNT} ?)?epochs?",
    "steps_per_rank": rf"(?:{_COUNT} ?)?(?:planned |train(?:ing)? )?(?:steps?|iterations?|iters?)"
    rf"(?: ?(?:per|/)? ?{RANK})?(?: planned)?|batches per (?:epoch|{RANK})",
    "images": rf"(?:{_COUNT} ?)?(?:train(?:ing)? )?(?:images|samples|examples|rows|records|data ?set size)",
    "wall_s": "train|training",
    "model": any_of(
        "models? networks? net arch architecture backbone workloads? topology cnn dnn", "model (?:name|size)",
        "neural network", "(?:# )?param(?:eter)?s", "size",
    ),
    "dataset": any_of("data-?sets? data input corpus", "data set", "input data"),
    "gpu": any_of("gpu accelerator device hardware card processor cpu", "(?:gpu|device|acc\\w+) (?:type|model|name)"),
    "machine": any_of(
        "machine cluster system platform instance host site supercomputer cloud", "(?:instance|node) type",
    ),
    "precision": any_of("precisions? dtype amp fp fp16 numerics?", "data ?type", "mixed precision"),
    "framework": any_of("frameworks? library backend software stack implementation toolkit"),
    "setting": any_of(
        "settings? experiments? configs? configurations? methods? modes? strategy strategies approach algorithms?"
        " variants? names? cases? benchmarks? setup type series scheme interconnect optimi[sz]ations? compiler",
        "network type",
    ),
}  # fmt: skip
_RANKS_ALONE = any_of(
    "n[pt] n?procs? pes? p n parallelism n?cores? n?threads? scale mpi cpus?",
    "(?:openmp|omp|rayon) (?:threads?|cores?)", "world(?: size)?", "degree of parallelism", "(?:tpu|cpu) cores?",
)  # fmt: skip


def read(text: str, overrides: Mapping[str, str] = {}, cells: Unit | None = None, sized: bool = True) -> Header:
    """Return the meaning of a header; `overrides` as `parse_overrides` returns them; `cells`: their unit.

    sized: whether a number of ranks in it is a condition; else it is an ordinary word.
    """
    if re.sub(r"\W+", "_", plain(text)) in NAMES and plain(text) not in overrides:  # the names of the kit itself
        return Header(text, re.sub(r"\W+", "_", plain(text)))
    sizes, words = sizes_in(_translated(text)) if sized else (StatedSizes(), text)
    phrase, unit = _without_unit(_phrase(words))
    if (override := overrides.get(plain(text))) is not None:
        name, _, unit_text = override.partition(" ")
        name, unit = "" if name == UNUSED else name, units.read(unit_text) if unit_text else unit
        sizes = sizes if words else StatedSizes()  # the number of a column
        return Header(text, name, unit, _label(words), "as COLUMNS says", sizes, overridden=True)
    stated = unit if cells is None or (unit and unit.kind not in ("number", "count")) else cells
    name, why = _name(phrase, stated) if words or not sizes.size else ("", "")
    return Header(text, name, unit, _label(words, unit), why, sizes)


_BATCH_STATED = re.compile(
    r"(?i)\(?\b(?:(local|global|total)[ _-])?(?:batch[ _-]?size|bsz?|batch)( per (?:gpu|device))?\s*[=:]?\s*"
    r"(\d[\d,]*k?)\b\)?"
)
_SCOPES = {"": "batch", "local": "batch_per_rank", "global": "global_batch", "total": "global_batch"}
_SIZED = rf"(?:{RANK}|{NODE}|threads?|cores?)(?:\(s\))?"
_NODES_AND_RANKS = re.compile(rf"(?<![\w.])\d{{1,4}}[ -]?{NODE},? ?[x×]? ?\d{{1,4}}[ -]?{RANK}", re.I)
_SIZES = (
    re.compile(rf"(?<![\w.])(?P<n>\d{{1,6}})\s*[x×]?\s*-?(?P<unit>{_SIZED})(?![a-z/])(?! ?(?:/|per))", re.I),
    re.compile(rf"\b(?P<unit>{_SIZED})\s*[=:]?\s*(?P<n>\d{{1,6}})$", re.I),
    re.compile(r"\b(?P<n>\d{1,4})(?P<unit>P)\b"),  # processes
    re.compile(rf"^(?P<n>\d{{1,4}})(?P<unit>[x×]) (?={WORK})", re.I),
)
_BASED = re.compile(r"\b(?:vs\.?|versus|over|relative to|compared (?:to|with)|to|against|per)\b", re.I)


def batches_in(text: str) -> dict[str, str]:
    """Return the batches that a text states, by name: "batch" if it does not state their scope."""
    matches = reversed([*_BATCH_STATED.finditer(text)])
    code = re.search(r"(?<![a-z0-9])(\d+)bsz?(?![a-z0-9])", text, re.I)  # "1n8g_dp_4bs"
    stated = {
        "batch_per_rank" if per else _SCOPES[scope.lower()]: re.sub("[kK]$", "000", size.replace(",", ""))
        for scope, per, size in (match.groups("") for match in matches)
    }
    return stated or ({"batch": code[1]} if code else {})


def sizes_in(text: str) -> tuple[StatedSizes, str]:
    """Return the sizes that a header states, and its other words."""
    batch_name, batch = next(iter(batches_in(text).items()), ("", ""))
    rest = _BATCH_STATED.sub(" ", text) if batch else text
    size, kind = "", ""
    if plain_size := ranks_in(rest):
        size, kind, rest = str(plain_size[0]), plain_size[1], ""
    elif re.fullmatch(r"\(?\d{1,4} ?[x×*] ?\d{1,4}\)?", rest.strip()):
        size, kind, rest = rest.strip(" ()"), "", ""
    elif both := _NODES_AND_RANKS.search(rest):
        size, kind, rest = both[0], "ranks", rest.replace(both[0], " ")
    elif not _BASED.search(rest) or re.match(r"\d", rest):
        for match in filter(None, (pattern.search(rest) for pattern in _SIZES)):
            size, kind = match["n"], "nodes" if re.fullmatch(NODE, match["unit"], re.I) else "ranks"
            rest = f"{rest[: match.start()]} {rest[match.end() :]}"
            break
    if not size and not batch:
        return StatedSizes(), text
    little = r"(?:on|with|at|for|using|number of|num|#|no\.)"
    rest = re.sub(r"\s+", " ", re.sub(r"\(\s*\)|\[\s*\]", " ", rest)).strip(" -,@:()[]")
    rest = re.sub(rf"^{little}\b|\b{little}$", "", rest, flags=re.I).strip(" -,@:")
    return StatedSizes(size, kind, batch, batch_name), rest


_SYMBOLS = {"T": "time", "S": "speedup", "E": "efficiency"}  # as "Tp (s)", "S(p) = T1/Tp"


def _translated(text: str) -> str:
    """Return a header with foreign words and symbols in English, and without the formula of a ratio."""
    text = re.sub(r"(?i)\s*[=(]\s*(?:T\w* ?/ ?T|time ?/ ?[\dT]|speed-?up ?/ ?\w)[\w.()]*$", "", text)
    return units.translated(re.sub(r"^([TSE])_?\(?[pn]\)?(?![^\s(\[])", lambda symbol: _SYMBOLS[symbol[1]], text))


def _phrase(text: str) -> str:
    """Return a header in plain words: "num_gpus", "BatchSize", "#GPUs" as "num gpus", "batch size", "# gpus"."""
    text = re.sub(r"(?i)(?<=throughput)_(\w+)_s$", r" \1/s", text)
    text = re.sub(r"(?i)(?<=cost|time)\s*/\s*(ms|s|min|h)\b", r" (\1)", text)  # "耗时/s" is a time in s
    text = re.sub(rf"\bM(?=(?i:{WORK}|cells|points|updates|atoms|particles|edges|rays|hashes)\b)", "M ", text.strip())
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", re.sub(r"[(\[]M[)\]]", "(million)", text))
    text = re.sub(rf"\bns?(?=(?:{RANK}|{NODE})\b)", "num ", text.replace("_", " "), flags=re.I)
    text = re.sub(r"#[\s-]*", "# ", re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z]+(?![A-Za-z/]))", " ", text))
    return re.sub(r"\s+", " ", text).strip(" :.,").lower()


def _without_unit(phrase: str) -> tuple[str, Unit | None]:
    """Return the words of a header without a unit in brackets or at the end, and the unit, also of a rate in words."""
    for match in re.finditer(r"[(\[{]([^()\[\]{}]*)[)\]}]", phrase):
        unit = units.read("tokens" if match[1] == "t" else match[1])
        if unit and (unit.kind not in ("number", "count") or (unit.work and "batch" in phrase)):
            rest = f"{phrase[: match.start()]} {phrase[match.end() :]}"
            return re.sub(r"\s+", " ", rest).strip(), unit
    words = re.findall(r"[^\s()\[\]{},;:]+", phrase)
    runs = (" ".join(words[start:end]) for start in range(len(words)) for end in range(start + 5, start, -1))
    read_runs = filter(None, map(units.read, runs))
    if unit := next((run for run in read_runs if run.kind == "rate" or (run.kind == "time" and run.work)), None):
        return phrase, unit
    last_unit = rf"[,\-:]\s*((?:{WORK})?\s*/?\s*{TIME}|%)$|\bin ({TIME}|%|percent)(?=$| \()| ({TIME}|%|x|percent)$"
    if last := re.search(last_unit, phrase):
        text = next(filter(None, last.groups()))
        if text not in ("m", "d", "h") or last[2]:
            return f"{phrase[: last.start()]} {phrase[last.end() :]}".strip(" ,-:"), units.read(text)
    alone = units.read(phrase) if len(phrase) > 1 else None
    return phrase, alone if alone and alone.kind in ("time", "share") else None


UNKNOWN_TIME = "a time, but of what?"  # why a header as "NCCL (ms)" has no name
Named = tuple[str, str]  # the name, and the reason if it is ""


def _name(phrase: str, unit: Unit | None) -> Named:
    """Return the name of a header with these words, or why it is not used."""
    results = (rule(phrase, unit) for rule in _RULES)
    return next((named for named in results if named is not None), ("", "not known"))


def _has(pattern: str, phrase: str) -> bool:
    return re.search(pattern, phrase) is not None


def _is(kind: str, unit: Unit | None) -> bool:
    return unit is not None and unit.kind == kind


def _no_quantity(phrase: str, unit: Unit | None) -> Named | None:
    """Return why ratios of two numbers of ranks, shares of a device, and costs are not used."""
    if re.fullmatch(r"[\d. ]+(?:→|->|=>|➔|to)[\d. ]+", phrase):
        return "", "a ratio of two numbers of ranks"
    device_use = _is("share", unit) and re.fullmatch(r"(?:gpu|cpu|device)s? ?(?:util\w*|%|usage)?", phrase)
    return ("", "not about speed") if device_use or "$" in phrase else None


def _ranks_of_node(phrase: str, unit: Unit | None) -> Named | None:
    count = r"(?: num(?:ber)?| count)?"
    per_node = rf"{RANK}{count} ?(?:per|/) ?{NODE}|{RANK}(?: a| in each| each) {NODE}|per node {RANK}"
    return ("ranks_per_node", "") if _has(rf"{per_node}|\bppn\b|local size", phrase) else None


def _ratio(phrase: str, unit: Unit | None) -> Named | None:
    """Return the name of speedups, efficiencies, and headers that may be either."""
    if _has(r"speed ?-?ups?\b|\bacceleration\b", phrase):
        versus = _has(r"\b(?:to|vs\.?|versus|against|compared|over)\b|\([^()]+ (?:-|–|->|→|/) [^()]+\)", phrase)
        precision = _has(r"\bwith (?:mixed|half|fp|bf|tf|amp|tensor)", phrase)
        settings = precision or (versus and not _has(r"\b(?:1|one|single)\b", phrase))
        if settings or _has(rf"\b{_NOT_USED['not measured']}\b", phrase):
            return "", "a ratio of two settings" if settings else "not measured"
        return "speedup", ""
    share = r"\beff(?:iciency)?\b|(?:%|percent(?:age)?|fraction) ?(?:of )?(?:linear|ideal|perfect|max)"
    if _has(share, phrase) and not _is("rate", unit) and not _has(r"energy|power|memory|\bcpu\b", phrase):
        goal = _has(r"^(?:target|expected|predicted|theoretical)\b|\b(?:objetivo|te[oó]ric[oa])\b", phrase)
        return ("", "not measured") if goal else ("efficiency", "")
    if _has(r"\b(?:versus|vs\.?|relative to|compared (?:to|with)) (?:1|one|a single|single)\b", phrase):
        return "speedup", ""
    if _has(r"\b(?:strong|weak)[ -]scaling\b|^scal(?:ing|ability)\b(?! factor)", phrase) and not _is("rate", unit):
        return "scaling", ""
    return None


def _not_used(phrase: str, unit: Unit | None) -> Named | None:
    if _has(r"\b(?:est|estimated|projected)\b|÷", phrase):
        return "", "not measured"
    accuracy = _has(rf"\b{_NOT_USED['accuracy']}(?!\w)", phrase)
    if _has(r"batch|\bbs\b|\btrain|world size", phrase):
        return ("", "accuracy") if accuracy and not _is("time", unit) and not _is("rate", unit) else None
    reasons = [why for why, pattern in _NOT_USED.items() if _has(rf"\b{pattern}(?!\w)", phrase)]
    reasons = [why for why in reasons if why != "a part of the time" or not _has(r"\bwall\b", phrase)]
    why = next((why for why in reasons if why != "scatter" or not _has(r"mean|avg|average|±|\+", phrase)), "")
    if why == "no quantity" and unit is not None and unit.kind in ("rate", "time"):
        return None
    elsewhere = why in ("not measured", "not about speed") or _has(r"infer|eval|memory|test\b", phrase)
    return ("", why) if why and (elsewhere or not _is("rate", unit)) else None  # else the rate of a training


def _rate(phrase: str, unit: Unit | None) -> Named | None:
    if unit is not None and unit.kind == "rate" and unit.work in ("steps", "epochs"):
        return f"{unit.work}_per_s", ""
    if unit is not None and unit.work == "bytes" and not _has(_PACE, phrase):
        return "", "not about speed"  # of a network or a disk
    other_kind = _is("time", unit) or _is("share", unit) or _has(_TIME_WORDS, phrase)
    if not _is("rate", unit) and (other_kind or not _has(_PACE, phrase)):
        return None
    if _has(_ONE_RANK, phrase) or (unit is not None and unit.per == "rank"):
        return "images_per_s_per_rank", ""
    return ("images_per_s" if _has(_JOB, phrase) else "rate"), ""


def _batch(phrase: str, unit: Unit | None) -> Named | None:
    batch = any_of("batch batches batch-?sizes? minibatch(?:es)? bs bsz gbs mbs", r"batch ?sizes?")
    images = r"(?:images?|imgs?|samples?|examples?|seqs?|sequences?|tokens?) ?(?:per|/) ?"
    if _has(rf"\b{images}{RANK}$", phrase) and not _is("rate", unit):
        return "batch_per_rank", ""
    if re.fullmatch(rf"{images}{_STEP}", phrase):
        return "global_batch", ""
    if not _has(rf"\b{batch}\b(?! ?= ?\d)", phrase) or _has(rf"{_TIME_WORDS}|batches", phrase) or _is("time", unit):
        return None
    if _has(rf"{_ONE_RANK}|\bmbs\b|\b{RANK}$", phrase):
        return "batch_per_rank", ""
    return ("global_batch" if _has(rf"{_JOB}|\bgbs\b", phrase) else "batch"), ""


def _time(phrase: str, unit: Unit | None) -> Named | None:
    if not _is("time", unit) and not _has(_TIME_WORDS, phrase):
        return None
    work = unit.work if unit else ""
    if _has(r"\b(?:init\w*|start ?-?up|set ?-?up|launch)\b", phrase):
        return "init_s", ""
    if work == "epochs" or (_has(r"\bepochs?\b", phrase) and not _has(r"\d+ epochs", phrase)):
        return "epoch_s", ""
    if work == "steps" or _has(rf"\b{_STEP}\b", re.sub(rf"[\d.,]+ ?k? ?{_STEP}\b", "", phrase)):
        return "step_s", ""
    if _has(r"\b(?:accuracy|converge\w*|to reach|target|quality)\b", phrase):
        return "", "the time to an accuracy"
    if _has(r"(?:\b(?:per|an?|one)|/) ?(?:image|sample|example)\b|\b(?:image|sample) time", phrase):
        return "", "the time of an image"
    whole = any_of("total overall job e2e complete full", "end ?-?to ?-?end")
    if _has(rf"\b{whole}\b", phrase) and not _has("train", phrase):
        return "job_s", ""
    others = re.sub(r"\b(?:mean|avg|average|median)\b", "", phrase)
    names_a_subject = not _has(_TIME_WORDS, phrase) and _has(r"[^\W\d_]{2,}", others)
    return ("", UNKNOWN_TIME) if names_a_subject and not _has(r"\btrain", phrase) else ("wall_s", "")


def _whole_phrase(phrase: str, unit: Unit | None) -> Named | None:
    """Return the name of headers that are a known phrase as a whole."""
    return next(((name, "") for name, pattern in _WHOLE_HEADERS.items() if re.fullmatch(pattern, phrase)), None)


def _size(phrase: str, unit: Unit | None) -> Named | None:
    """Return the name of numbers of nodes and of ranks."""
    bare = re.sub(rf"{_COUNT}|#|\(.*?\)|\bused\b|\bin use\b", " ", phrase).strip(" :.")
    if re.fullmatch(rf"(?:[a-z0-9.-]+ )?{NODE}(?: num(?:ber)?| count)?", bare):
        return "nodes", ""
    ranks = rf"(?:[a-z0-9-]+ (?:or |and )?)?{RANK}(?: num(?:ber)?| count)?|{_RANKS_ALONE}"
    ranks = rf"(?:{ranks})(?: ?/ ?(?:{ranks}|[a-z ]+(?:s|size|rank)))*"  # "Threads / Ranks"
    product = rf"\(?{NODE} ?[x×*/] ?{RANK}.*"
    return ("ranks", "") if re.fullmatch(rf"-{{0,2}}(?:{ranks})|{product}", bare) or phrase in ("n", "# n") else None


_RULES: tuple[Callable[[str, Unit | None], Named | None], ...] = (
    _no_quantity, _ranks_of_node, _ratio, _not_used, _rate, _batch, _time, _whole_phrase, _size,
)  # fmt: skip
# Words of quantities and units: the rest of a header is its label.
_QUANTITY_WORDS = any_of(
    "throughput speed perf performance rate ratio speed-?ups? eff efficiency scaling scalability strong weak factor"
    " times? per of in the a and for on with global total overall aggregated? combined system mean average avg median"
    " batch(?:es)? size bs bsz local num number no count train(?:ing)? wall clock wall-?clock duration elapsed"
    " runtime init\\w* epochs? relative measured actual parallel linear percent mini(?:-?batch)? vs to over from"
    " single one multi(?:-\\w+)? x n k t np n?procs? n?gpus? world per-\\w+ effective planned processed used"
)


def _label(text: str, unit: Unit | None = None) -> str:
    """Return the words of a header that are neither quantity nor unit, as "TF32" of "Throughput - TF32 (img/s)"."""
    parts = []
    text = re.sub(r"(?i)\s+(?:vs\.?|versus|over|relative to|compared (?:to|with)|against)\s.*", "", text)  # a base
    text = re.sub(re.escape(unit.text) if unit and unit.work else r"$^", " ", text.replace("_", " "), flags=re.I)
    for token in re.split(r"\s+|(?<=\))|(?=\()", text):
        bare = token.strip("()[]{},:;.#-=%/")
        unit = units.read(bare)
        words = rf"{_QUANTITY_WORDS}|{_TIME_WORDS}|{RANK}|{NODE}|{WORK}|{_STEP}"
        is_known = re.fullmatch(rf"{words}|(?:{WORK}|{RANK}|time)/(?:{TIME}|{RANK}|{NODE}|epoch)(?:/.*)?", bare, re.I)
        if bare and not is_known and (unit is None or unit.kind in ("count", "number") or bare.lower() == "m"):
            parts.append(bare)
    return " ".join(parts)


_AT = re.compile(
    rf"(?i)(?:(?P<unit1>{RANK}|{NODE}|n|np|p)\s*[=:]?\s*)?(?P<n>\d{{1,6}})\s*[x×]?\s*(?P<gpu>{GPU})?\s*-?(?P<unit2>{RANK}|{NODE})?(?:\(s\))?"
)


# Units that count ranks if a table has several numbers, the strongest first: a worker may have several GPUs.
_STRENGTHS = (
    r"[gtnhixd]pus?|gcds?|dcus?|devices?|accelerators?|cards?|chips?", r"ranks?|proc(?:s|ess(?:es)?)?|np|mpi|world",
    r"workers?|learners?|trainers?|replicas?|tasks?|slots?|executors?|pods?", r"threads?|cores?|cpus?",
)  # fmt: skip
WEAK = 2  # from here on, these are ranks only if no other column counts ranks


def strength(text: str) -> int:
    """Return the position in _STRENGTHS of the last unit that a header counts: the smaller, the surer a rank."""
    positions = {
        at: [match.start() for match in re.finditer(rf"(?<![a-z])(?:{words})(?![a-z])", text, re.I)]
        for at, words in enumerate(_STRENGTHS)
    }
    last = len(_STRENGTHS) - 1
    if positions[last]:
        return last
    return max((at for at in positions if positions[at]), key=lambda at: positions[at], default=last + 1)


def ranks_in(text: str) -> tuple[int, str] | None:
    """Return the number of a header that is only a size, as "4 GPUs" or "2 nodes", and "ranks", "nodes" or ""."""
    text = re.sub(r"\([^)]*\)|\[[^\]]*\]", "", text).strip()
    match = _AT.fullmatch(text)
    if not match:
        return None
    unit = (match["unit1"] or match["unit2"] or "").lower()
    kind = "nodes" if re.fullmatch(NODE, unit) else "ranks" if unit or match["gpu"] else ""
    return int(match["n"]), kind
