"""Units and numbers of ranks as people write them: "img/s", "2 nodes x 4", "8x V100", "0,1,2,3"."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


def any_of(alternatives: str, *phrases: str) -> str:
    """Return a pattern for any of these words, given with spaces between them, and phrases."""
    return f"(?:{'|'.join(sorted([*phrases, *alternatives.split()], key=len, reverse=True))})"


RANK = any_of(
    "[gtnhixd]pus? gcds? dcus? ranks? workers? process(?:es)? procs? devices? replicas? accelerators? cards?"
    " chips? learners? trainers? slots? tasks? executors? pods?", "mpi tasks?",
)  # fmt: skip
NODE = any_of("nodes? hosts? machines? servers? instances? vms?")
WORK = any_of(
    "images? imgs? pics? samples? examples? exs? sentences? sents? seqs? sequences? tokens? toks? words? wds? records?"
    " items? frames? rows? observations? graphs? steps? its? iters? iterations? batch(?:es)? epochs?"
)
TIMES = {
    "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "usec": 1e-6, "microseconds": 1e-6,
    "ms": 1e-3, "msec": 1e-3, "msecs": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
TIME = rf"(?:{'|'.join(sorted(TIMES, key=len, reverse=True))})"
_CORE = "(?:cores?|threads?)"
_PER = r"(?:\s*/\s*|\s+per\s+|\s*\bp\b\s*|\s+a\s+|\s+)"
_RATE = re.compile(
    rf"(?i)(?P<scale>[kmg]|kilo|thousand|million)?\s*(?P<work>{WORK})?{_PER}(?P<time>{TIME})(?:{_PER}(?P<scope>{RANK}|{NODE}))?"
)
_ANY_RATE = re.compile(  # of any counted unit, as "M worlds/s"
    rf"(?:(?P<scale>[kmg]|million) )?(?P<work>[a-z][a-z-]+)(?: ?/ ?| per )(?P<time>{TIME})(?:(?: ?/ ?| per )"
    rf"(?P<scope>{RANK}|{NODE}|{_CORE}))?"
)
_TIME = re.compile(rf"(?P<time>{TIME})(?:{_PER}(?P<work>epoch|steps?|iter(?:ation)?s?|it|batch))?", re.I)
_SCALES = {"k": 1e3, "kilo": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "mio": 1e6, "g": 1e9, "b": 1e9}
_RATES = {  # tgs: tokens per GPU and second
    "s/s": "samples", "t/s": "tokens", "tps": "tokens", "tgs": "tokens", "wps": "words", "ips": "images",
    "fps": "frames", **dict.fromkeys(["sps", "qps", "rps", "/s", "1/s", "hz"], ""),
}  # fmt: skip
Kind = Literal["rate", "time", "share", "ratio", "count", "number", "other"]


@dataclass(frozen=True)
class Unit:
    """A unit: its kind of quantity, and the factor to 1/s, s, or a fraction.

    work: the counted unit, as "images". per: "rank" or "node" if the unit is that of one. text: as written.
    """

    kind: Kind
    factor: float = 1.0
    work: str = ""
    per: str = ""
    text: str = ""


def read(text: str) -> Unit | None:
    """Return the unit that a text is; None if it is none. "" is a plain number."""
    text = re.sub(r"\s+", " ", text.replace("_", " ")).strip(" .,;:")
    low = text.lower()
    if not low:
        return Unit("number", text=text)
    if low in ("%", "percent", "per cent", "pct"):
        return Unit("share", 0.01, text=text)
    if text == "E":  # as in "90E"
        return Unit("count", work="epochs", text=text)
    if low in ("x", "×", "times", "fold", "x faster", "-fold"):
        return Unit("ratio", text=text)
    if low in _SCALES and (low != "m" or text == "M"):
        return Unit("number", _SCALES[low], text=text)
    if (match := _TIME.fullmatch(low)) and text != "M":
        return Unit("time", TIMES[match["time"]], _work(match["work"]), text=text)
    if low in ("h:mm:ss", "hh:mm:ss", "h:m:s", "mm:ss", "hms", "hh:mm"):
        return Unit("time", text=text)
    low = re.sub(rf"^([a-z-]+) ?(?:/|per) ?({RANK}|{_CORE}) ?(?:/|per) ?({TIME})$", r"\1/\3/\2", low)
    if (match := re.fullmatch(rf"(.*?)((?:/| per ){RANK})?", low)) and match[1] in _RATES:
        return Unit("rate", work=_RATES[match[1]], per="rank" if match[2] or low == "tgs" else "", text=text)
    if re.fullmatch(rf"(?:(?:per|/) ?)?(?:{RANK}|{NODE}|{WORK}|{_CORE})", low):
        per = "rank" if re.fullmatch(rf"(?:per|/) ?{RANK}", low) else ""
        return Unit("count", work=_work(low), per=per, text=text)
    if match := re.fullmatch(r"([kmgt]?)i?b(?:ytes)?/s(?:ec)?", low):
        return Unit("rate", {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}[match[1]], "bytes", text=text)
    match = _RATE.fullmatch(low) or _ANY_RATE.fullmatch(low)
    if match and (re.search(r"/|\bp(?:er)?\b", low) or (match["work"] and len(match["time"]) > 2)):
        per, scale = match["scope"] or "", _SCALES.get(match["scale"] or "", 1.0)
        scope = "rank" if re.fullmatch(RANK, per) else "node" if re.fullmatch(NODE, per) else ""
        return Unit("rate", scale / TIMES[match["time"]], _work(match["work"]) or match["work"] or "", scope, text)
    return None


_NAMES = {
    "images": r"im(?:ages?|gs?)|pics?", "samples": r"samples?|examples?|exs?|records?|items?|rows?|observations?",
    "tokens": r"tok(?:en)?s?", "words": r"words?|wds?", "sequences": r"seq(?:uence)?s?|sent(?:ence)?s?",
    "frames": "frames?", "steps": r"steps?|its?|iter(?:ation)?s?|batch(?:es)?", "epochs": "epochs?",
}  # fmt: skip


def _work(counted: str | None) -> str:
    """Return the plain name of a counted unit; "" for an unknown one."""
    return next((name for name, pattern in _NAMES.items() if re.fullmatch(pattern, counted or "", re.I)), "")


GPU = (  # names of accelerators: P100, V100-SXM2, A10G, RTX 3090 Ti, MI250X, TPUv3
    r"(?:(?:nvidia|tesla|geforce|amd) )*(?:(?:[pvahbkmtl]|g[bh]|tpu ?v)\d{1,4}[a-z]?|[gr]tx ?\d{3,4}(?: ?ti| super)?"
    r"|mi\d{2,3}[a-z]?|gaudi ?\d?|titan(?: ?\w+)?)(?:-\w+)*"
)
_NODES = re.compile(rf"(?<![a-z.])(\d+)\s*-?(?:[a-z][\w.]+ )?(?:{NODE}|n(?![a-z]))(?![a-z])", re.I)
_RANKS = re.compile(
    rf"(?i)(\d+)\s*[x×*]?\s*-?(?:(?P<gpu>{GPU}?)s?(?: gpus?)?|(?:nvidia |tesla )?(?:{RANK}|threads?|cores?|g))\b"
)
_PRODUCT = re.compile(rf"(?<![\w.])(\d+)\s*-?(?:{NODE}|n)?\s*[x×*]\s*(\d+)\s*(?:{RANK}|g)?(?![\w.])", re.I)
# Codes: "2n8g", "n2g8", "2n_8gpu".
_CODES = re.compile(r"(?<![a-z0-9])(?:n(\d+)[-_]?g(\d+)|(\d+)n[-_ ]?x?(\d+)(?:g|d|gpus?))(?![a-z0-9])", re.I)
_IDS = re.compile(r"\d+(?:\s*[,;+ ]\s*\d+)*")
# Words of other languages in public tables.
_FOREIGN = {
    "加速比": "speedup", "吞吐量": "throughput", "吞吐": "throughput", "耗时": "time", "用时": "time", "时间": "time",
    "效率": "efficiency", "显卡数": "gpus", "卡数": "gpus", "卡": "gpus", "节点数": "nodes", "节点": "nodes",
    "机器数": "nodes", "线程数": "threads", "线程": "threads", "进程数": "processes",
    "进程": "processes", "批大小": "batch size", "模型": "model", "数据集": "dataset", "单位": "", "训练": "training",
    "秒": "s", "张": "images", "：": ":", "（": "(", "）": ")", "プロセス数": "processes", "スレッド数": "threads",
    "ノード数": "nodes", "実行時間": "time", "計算時間": "time", "高速化率": "speedup", "並列化効率": "efficiency",
    "sek": "s", "zeit": "time", "laufzeit": "runtime", "dauer": "duration", "durchsatz": "throughput",
    "latenz": "latency", "beschleunigung": "speedup", "effizienz": "efficiency", "knoten": "nodes", "kerne": "cores",
    "prozesse": "processes", "anzahl": "number of", "temps": "time", "accélération": "speedup", "cœurs": "cores",
    "coeurs": "cores", "processus": "processes", "nombre de": "number of", "efficacité": "efficiency",
    "tiempo": "time", "tempo": "time", "eficiencia": "efficiency", "eficiência": "efficiency", "hilos": "threads",
    "hilo": "thread", "procesos": "processes", "processos": "processes", "núcleos": "cores", "nodos": "nodes",
    "aceleración": "speedup", "aceleração": "speedup", "promedio": "mean", "número de": "number of",
    "secuencial": "sequential", "sequencial": "sequential", "paralelo": "parallel", "время": "time",
    "ускорение": "speedup", "эффективность": "efficiency", "процессов": "processes", "процессы": "processes",
    "поток": "thread", "потока": "threads", "потоков": "threads", "потоки": "threads", "узлов": "nodes",
    "узлы": "nodes", "ядер": "cores", "ядра": "cores", "число": "number of", "количество": "number of",
    "nº": "number of", "numero di": "number of", "numero": "number of", "porcentaje": "percent", "segundos": "s",
    "режим": "mode", "мс": "ms", "с": "s", "сек": "s", "мин": "min",
}  # fmt: skip
_LONGEST_FIRST = sorted(_FOREIGN, key=len, reverse=True)  # in scripts without spaces between words, a part of one
_FOREIGN_WORDS = (rf"(?<![^\W_]){word}(?![^\W_])" if word[0] < "\u3000" else word for word in _LONGEST_FIRST)
_FOREIGN_WORD = re.compile("|".join(_FOREIGN_WORDS), re.I)
_NUMBER_WORDS = {"single": 1, "one": 1, "two": 2, "dual": 2, "four": 4, "quad": 4, "eight": 8, "sixteen": 16}
_WORD = re.compile(rf"\b({'|'.join(_NUMBER_WORDS)})(?=[- ](?:[a-z]+ )?(?:{RANK}|{NODE}|{_CORE}))", re.I)


def translated(text: str) -> str:
    """Return a text with foreign words in English, and numbers of ranks or nodes that are words in digits."""
    text = re.sub(r"(\d) ?机", r"\1 nodes ", re.sub("单(?=机|卡)", "1", text))
    text = _FOREIGN_WORD.sub(lambda word: f" {_FOREIGN[word[0].lower()]} ", text)
    return _WORD.sub(lambda word: str(_NUMBER_WORDS[word[0].lower()]), text)


@dataclass(frozen=True)
class Sizes:
    """The sizes in one cell; 0 if it has none. gpu: the type of the devices."""

    ranks: int = 0
    nodes: int = 0
    ranks_per_node: int = 0
    gpu: str = ""


def sizes_in(text: str) -> Sizes | None:
    """Return the numbers of ranks and nodes in words or a code ("8x V100 (2 nodes)", "n2g8"); None for others."""
    low = re.sub(r"\s+", " ", translated(text)).strip()
    flags = rf"-j|-np?|-t|--?\w+[ =]|(?:np|n|p|j|n?(?:{RANK}|threads?)) ?= ?|(?:serial|parallel|mpi|omp) ?\(?"
    flags += rf"|(?:\w+ )?(?:np|(?=\w+s\b)(?:{RANK}|threads|cores)):? "  # but "rank 3" is one of several
    if flag := re.fullmatch(rf"(?:{flags})(\d+)\)?(?:[,;] .*)?", low, re.I):
        return Sizes(int(flag[1]))
    low = re.sub(r"(?<![a-z0-9])n(\d+)c(\d+)(?![a-z0-9])", r"\2 gpus (\1 nodes)", low, flags=re.I)  # as Paddle writes
    if grid := re.fullmatch(r"\((\d+), ?(\d+)(?:, ?(\d+))?\)", low):  # of processes
        return Sizes(math.prod(int(size or 1) for size in grid.groups()))
    low = re.sub(rf"\b({RANK})\s*\((\d+)\s*[x×]\)", r"\2 \1", low, flags=re.I)  # "Multi-GPU (2×)"
    low = re.sub(rf"\b({GPU})\s*[x×*]\s*(\d+)\b", r"\2x \1", low.replace("_", " "), flags=re.I)
    digits = len(re.findall(r"\d+", low))
    if code := _CODES.search(low):
        nodes, each = (int(number) for number in code.groups() if number)
        return Sizes(nodes * each, nodes, each)
    if mesh := re.search(r"(?<![a-z\dx])(\d+)x(\d+)x(\d+)(?![\dx])", low, re.I):  # data x tensor x pipeline parallel
        return Sizes(int(mesh[1]) * int(mesh[2]) * int(mesh[3]))
    if digits > 4:  # the code of a configuration
        return None
    total = re.match(r"\s*(\d+)\s*(?:\w+\s*)?\(", low)
    if (product := _PRODUCT.search(low)) and digits <= 3:
        nodes, each = int(product[1]), int(product[2])
        if nodes and each and (not total or int(total[1]) == nodes * each):
            return Sizes(nodes * each, nodes, each)
    in_nodes = _NODES.search(low)
    in_ranks = next((m for m in _RANKS.finditer(low) if not in_nodes or m.start() != in_nodes.start()), None)
    nodes, ranks = (int(match[1]) if match else 0 for match in (in_nodes, in_ranks))
    gpu = ((in_ranks and in_ranks["gpu"]) or "").removesuffix("s")
    if nodes and ranks:
        if ranks < nodes or re.search(rf"\beach\b|\bper\b|/ ?node|{NODE}\s*[x×*]", low, re.I):
            return Sizes(nodes * ranks, nodes, ranks, gpu)
        return Sizes(ranks, nodes, ranks // nodes if ranks % nodes == 0 else 0, gpu)
    first = re.match(r"(\d+)\b(?!\s*[x×*]\s*\d+\b)", low)
    if ranks:
        return Sizes(ranks, gpu=gpu)
    if nodes:
        return Sizes(int(first[1]), nodes) if first and int(first[1]) != nodes else Sizes(nodes=nodes)
    alone = re.fullmatch(r"(\d+)\s*(?:\(.*\)|[*†‡]+|[x×] ?(?!.*(?:fast|slow|speed))[a-z].*\d.*)?", low, re.I)
    return Sizes(int(alone[1])) if alone else None


def device_counts(cells: Sequence[str]) -> list[int] | None:
    """Return the number of devices that each cell lists, as "0,1,2"; None if the cells are not all lists of devices."""
    cells = [cell.strip("[]") for cell in cells]
    if not cells or not all(_IDS.fullmatch(cell) for cell in cells) or not any("," in cell for cell in cells):
        return None
    if all(re.fullmatch(r"\d+|\d{1,3}(?:,\d{3})+", cell) for cell in cells):  # "1,024"
        return None
    lists = [re.findall(r"\d+", cell) for cell in cells]
    return None if any(len({*ids}) < len(ids) for ids in lists) else [len(ids) for ids in lists]
