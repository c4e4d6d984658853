"""Known logs of runs: one row a run, with the names of the kit.

Known are the programs of `_FORMS`; of MLPerf its `:::MLLOG` lines. A row has `images_per_s`, with its unit, or
`epoch_s`, `step_s`, `wall_s`. `ranks` is "" if the log does not state how many there were: no number is taken out of a
name.
"""

import contextlib
import json
import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from common import bounded_files
from common.grouping import gathered

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")
_MLLOG = re.compile(r":::MLLOG\s+(\{.*\})")
_SYSTEM = 1 << 20  # bytes of the description of a system
_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_TIMES = {"step_s", "epoch_s"}
_RESULTS = ("images_per_s", "step_s", "epoch_s")
Row = dict[str, Any]
Pick = Literal["", "last", "median"]


@dataclass(frozen=True)
class _Form:
    """Lines of one form, as patterns, each with the value as its first group or under the name of its column.

    line: that of a result; "" for MLPerf, whose lines are JSON. unit: of its rate. pick, skip: as in `Log`.
    stated: what stands before such a line. begins: what stands between two runs, if each rank prints the line.
    """

    line: str
    unit: str = ""
    pick: Pick = ""
    skip: int = 0
    stated: dict[str, str] = field(default_factory=dict)
    begins: str = ""


@dataclass(frozen=True)
class Log:
    """The rows of a known log. pick: which of them counts if they are of one run; skip: so many first ones do not."""

    kind: str = ""
    rows: list[Row] = field(default_factory=list)
    pick: Pick = ""
    skip: int = 0

    @property
    def runs(self) -> list[Row]:
        """Return one row a run."""
        rows = self.rows[self.skip :]
        if self.pick != "median":
            return rows[-1:] if self.pick else rows
        run = rows[-1] | {"repeats": len(rows)}
        for name in {*_RESULTS} & {*run}:
            middle = statistics.median(float(row[name].split()[0]) for row in rows if name in row)
            run[name] = " ".join([f"{middle:.10g}", *run[name].split()[1:]])
        return [run]


_RATE = r"(?P<images_per_s>[\d.]+(?:[eE][-+]?\d+)?)"
_STEP, _EPOCH = r"(?P<step_s>\d+(?:\.\d+)?(?:[um]?s)?)", r"(?P<epoch_s>\d+(?:\.\d+)?m?s)"
_RANKS = r"(?i)(?:world size|number of (?:gpu|cpu|device|replica)s?(?: in sync)?|hvd\.size)\s*[:=]\s*(\d+)"
_FORMS = {
    "Horovod's synthetic benchmark": _Form(  # what stands behind +- is a deviation of iterations, and no interval
        rf"Total img/sec on (?P<ranks>\d+) \w+\(s\): {_RATE} \+-", "images/s",
        stated={"model": r"^(?:.*?\s)?Model:\s*(\S+)", "batch_per_rank": r"Batch size:\s*(\d+)"}),
    "LAMMPS": _Form(
        rf"^Performance: .*?{_RATE} timesteps/s.*"
        r"(?:\n.*CPU use with (?P<ranks>\d+) MPI tasks x (?:(?P<threads>\d+)|no))?", "timesteps/s",
        stated={"atoms": r"^Loop time of .* with (\d+) atoms"}),
    "GROMACS": _Form(
        rf"^Performance: +{_RATE} +[\d.]+$", "ns/day",
        stated={"ranks": r"^Using (\d+) MPI (?:thread|process)", "threads": r"^Using (\d+) OpenMP thread"}),
    "HPCG": _Form(
        rf"HPCG result is VALID with a GFLOP/s rating of[=:] ?{_RATE}", "GFLOP/s",
        stated={"ranks": r"Machine Summary::Distributed Processes=(\d+)",
                "threads": r"Machine Summary::Threads per processes=(\d+)"}),
    "nccl-tests": _Form(rf"^# Avg bus bandwidth *: {_RATE}", "GB/s"),
    "Hugging Face's Trainer": _Form(rf"'train_samples_per_second': '?{_RATE}", "samples/s"),
    "DeepSpeed": _Form(rf"RunningAvgSamplesPerSec={_RATE}", "samples/s", "last"),
    "timm": _Form(rf"^Train: \d+ \[.*, +[\d.]+/s +\([\d.]+s, +{_RATE}/s\)", "images/s", "last"),
    "nanoGPT": _Form(rf"^iter \d+: loss [\d.]+, time {_STEP}", pick="median", skip=1,
                     stated={"tokens": r"^tokens per iteration will be: ([\d,]+)$"}),
    "PyTorch's imagenet example": _Form(rf"^Epoch: \[\d+\]\[ *\d+/\d+\]\s+Time +{_STEP} \(", pick="median", skip=1),
    "Lightning": _Form(rf"^Epoch \d+:.*100%.*, +{_RATE}it/s", "it/s", "last"),
    "tf_cnn_benchmarks": _Form(
        rf"total images/sec: {_RATE}", "images/s", begins=r"Model:|mpirun|horovodrun|Step\s+Img/sec",
        stated={"model": r"(?:Model:\s*|--model[ =])(\S+)", "dataset": r"Dataset:\s*(\S+)",
                "devices": r"Devices:\s*\[(.*)\]",
                "workers": r"(?:horovod\.size|num_workers|Number of workers|-np|--np)[ :=]+(\d+)",
                "global_batch": r"Batch size:\s*(\d+) global",
                "batch_per_rank": r"(?:--batch_size[ =]|(?<![\d.])(?=\d+(?:\.0)? per device))(\d+)"}),
    "MLPerf": _Form(""),
    "Keras": _Form(  # the first epoch traces and compiles
        rf"Epoch \d+/\d+\b(?:(?!Epoch \d+/)[\s\S])*?(?<!\d)(\d{{1,9}})/\1 \[=+\]\s*-\s*{_EPOCH}(?:\s+{_STEP}/step)?",
        pick="median", skip=1,
        stated={"batch_per_rank": r"(?i)(?:batch size per (?:rank|gpu|worker|replica)|local batch)\s*[:=]\s*(\d+)",
                "global_batch": r"(?i)global batch(?: size)?\s*[:=]\s*(\d+)"}),
}  # fmt: skip


def without_escapes(text: str) -> str:
    """Return a text without the control sequences of a terminal."""
    return _ANSI.sub("", text)


def read_log(text: str, where: str) -> Log:
    """Return the rows of a known log; none if it is not known. where: the name of its file."""
    text = re.sub(r"\r\n?", "\n", without_escapes(text))
    for kind, form in _FORMS.items():
        if rows := list(_rows(text, form) if form.line else _mlperf(text, where)):
            return Log(f"a log of {kind}", rows, form.pick, min(form.skip, len(rows) - 1))
    return Log()


def _rows(text: str, form: _Form) -> Iterator[Row]:
    """Yield one row for each line of a form, with what stands last before it; the first of several ranks counts."""
    matches = [*re.finditer(form.line, text, re.M)]
    patterns = {"ranks": _RANKS} | form.stated if matches else {}
    stated = {name: [*re.finditer(pattern, text, re.M)][::-1] for name, pattern in patterns.items()}
    begin = 0
    for match in matches:
        if begin and not re.search(form.begins, text[begin : match.start()]):
            continue
        values = {name: value for name, value in match.groupdict().items() if value}
        row = {
            name: next((m[1] for m in same if begin <= m.start() < match.start()), "") for name, same in stated.items()
        }
        at = match.start(next(name for name in _RESULTS if name in values))
        yield _in_units(row | values, form.unit) | {"line": text.count("\n", 0, at) + 1}
        begin = match.end() if form.begins else 0


def _in_units(row: Row, unit: str) -> Row:
    """Return a row with the unit of its rate, times in s, the rate of its tokens, and as ranks the devices of all."""
    for name in _TIMES & {*row}:
        number, time_unit = re.split(r"(?<=\d)(?=[a-z]|$)", row[name], maxsplit=1)
        row[name] = f"{float(number) * _SECONDS[time_unit]:.10g}"
    if tokens := row.pop("tokens", ""):
        row["images_per_s"], unit = f"{float(tokens.replace(',', '')) / float(row['step_s']):.10g}", "tokens/s"
    if "images_per_s" in row:
        row["images_per_s"] += f" {unit}"
    if "devices" in row:
        devices, workers = row.pop("devices"), row.pop("workers")
        each, lists_all = devices.count("'") // 2, "horovod/" in devices or not workers
        row["ranks"] = (each if lists_all else (each or 1) * int(workers)) or ""
    return row


def _mlperf(text: str, where: str) -> list[Row]:
    """Return the run between run_start and run_stop; with the throughput that is logged, if it gives the samples.

    Its ranks are those that the log states, else the accelerators that the description of the system counts, which a
    submission has in `systems` beside `results`. The name of a system is no count.
    """
    events: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n") if ":::MLLOG" in text else (), 1):
        with contextlib.suppress(json.JSONDecodeError, RecursionError):
            events += [json.loads(match[1]) | {"line": number} for match in _MLLOG.finditer(line)]
    values = {str(event.get("key")): event["value"] for event in events if event.get("value") is not None}
    timed = gathered(
        (str(event.get("key")), event) for event in events if isinstance(event.get("time_ms"), int | float)
    )
    if not {"run_start", "run_stop"} <= {*timed}:
        return []
    start, stop = timed["run_start"][0], timed["run_stop"][-1]
    wall_s = (stop["time_ms"] - start["time_ms"]) / 1000
    pairs = zip(timed.get("epoch_start", ()), timed.get("epoch_stop", ()), strict=False)
    epochs = [(end["time_ms"] - begin["time_ms"]) / 1000 for begin, end in pairs]
    logged = [event["value"].get("throughput") for event in events if isinstance(event.get("value"), dict)]
    speeds = [float(value) for value in logged if isinstance(value, int | float)]
    system = _system(Path(where))
    stated = (values[name] for name in ("number_of_ranks", "num_gpus", "world_size") if name in values)
    names = {"model": "submission_benchmark", "machine": "submission_platform", "global_batch": "global_batch_size"}
    row: Row = {name: values.get(key, "") for name, key in names.items()} | system
    row |= {"ranks": next(stated, system.get("ranks", "")), "wall_s": f"{wall_s:.3f}", "line": stop["line"]}
    if epochs := [seconds for seconds in epochs if seconds > 0]:
        row["epoch_s"] = f"{statistics.median(epochs):.3f}"
    samples = float(values.get("train_samples") or 0) * len(epochs)
    if speeds and 0.8 * samples < statistics.median(speeds) * wall_s < 1.25 * samples:
        row["images_per_s"] = f"{statistics.median(speeds):g}"
    return [row]


def _system(log: Path) -> Row:
    """Return what a submission of MLPerf says of the system of a log, in `systems/NAME.json`, beside `results/NAME`.

    Nodes, ranks (accelerators), their type, and as machine the processor, which machines of any size may share.
    """
    results = next((folder for folder in log.absolute().parents if folder.parent.name == "results"), None)
    if results is None:
        return {}
    path = results.parent.parent / "systems" / f"{results.name}.json"
    try:
        system = {key: str(value) for key, value in json.loads(bounded_files.read(path, _SYSTEM)).items()}
        nodes, each = int(system["number_of_nodes"]), int(system["accelerators_per_node"])
    except (OSError, ValueError, KeyError, AttributeError, RecursionError):
        return {}
    submission = " ".join(system.get(name, "") for name in ("submitter", "division"))
    gpu, machine = (system.get(f"{part}_model_name", "") for part in ("accelerator", "host_processor"))
    return {"nodes": nodes, "ranks": nodes * each or "", "gpu": gpu, "machine": machine, "setting": submission}
