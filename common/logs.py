"""Known logs of runs: one row a run, with the names of the kit.

Known are Horovod's synthetic benchmarks (TensorFlow, Keras, PyTorch), tf_cnn_benchmarks, MLPerf's `:::MLLOG` lines,
progress lines of Keras, and the programs of `_FORMS`. A row has `images_per_s` or `epoch_s`, `step_s`, `wall_s`: its
unit stands behind the number if the name does not say it. `ranks` is "" if the log does not state how many there were:
no number is taken out of a name.
"""

import contextlib
import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from common import bounded_files

_NUMBER = r"([\d.]+(?:[eE][-+]?\d+)?)"
_CNN = re.compile(rf"total images/sec: {_NUMBER}")
_KERAS = re.compile(r"(?<!\d)(\d{1,9})/(\d{1,9}) \[=+\]\s*-\s*([\d.]+m?s)(?:\s+([\d.]+)(us|ms|s)/(step|epoch|sample))?")
_EPOCH = re.compile(r"^Epoch (\d+)/(\d+)", re.M)
_MLLOG = re.compile(r":::MLLOG\s+(\{.*\})")
_RANKS_STATED = r"(?i)(?:world size|number of (?:gpu|cpu|device|replica)s?(?: in sync)?|hvd\.size)\s*[:=]\s*(\d+)"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")
_SYSTEM = 1 << 20  # bytes of the description of a system
Row = dict[str, Any]
Pick = Literal["", "last", "median"]


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
        if self.pick != "median" or not rows:
            return rows[-1:] if self.pick else rows
        name = "images_per_s" if "images_per_s" in rows[0] else "step_s"
        middle = statistics.median(float(row[name].split()[0]) for row in rows)
        return [rows[-1] | {name: f"{middle:.10g} {rows[-1][name].split()[1]}"}]


# Logs with the rate of the job, or the time of a step, on lines of one form: its pattern, with the number as a group,
# the unit of the number, which one counts, how many first ones do not, and patterns of what the log states before it.
_RATE, _TIME = rf"(?P<images_per_s>{_NUMBER[1:-1]})", rf"(?P<step_s>{_NUMBER[1:-1]})"
_LAMMPS = (
    rf"^Performance: .*?{_RATE} timesteps/s.*(?:\n.*CPU use with (?P<ranks>\d+) MPI tasks x (?:(?P<threads>\d+)|no))?"
)
_FORMS: dict[str, tuple[str, str, Pick, int, dict[str, str]]] = {
    "Horovod's synthetic benchmark": (  # what stands behind +- is a deviation of iterations, and no interval
        rf"Total img/sec on (?P<ranks>\d+) \w+\(s\): {_RATE} \+-", "images/s", "", 0,
        {"model": r"^(?:.*?\s)?Model:\s*(\S+)", "batch_per_rank": r"Batch size:\s*(\d+)"}),
    "LAMMPS": (_LAMMPS, "timesteps/s", "", 0, {"atoms": r"^Loop time of .* with (\d+) atoms"}),
    "GROMACS": (rf"^Performance: +{_RATE} +[\d.]+$", "ns/day", "", 0,
                {"ranks": r"^Using (\d+) MPI (?:thread|process)", "threads": r"^Using (\d+) OpenMP thread"}),
    "HPCG": (rf"HPCG result is VALID with a GFLOP/s rating of[=:] ?{_RATE}", "GFLOP/s", "", 0,
             {"ranks": r"Machine Summary::Distributed Processes=(\d+)",
              "threads": r"Machine Summary::Threads per processes=(\d+)"}),
    "nccl-tests": (rf"^# Avg bus bandwidth *: {_RATE}", "GB/s", "", 0, {}),
    "Hugging Face's Trainer": (rf"'train_samples_per_second': '?{_RATE}", "samples/s", "", 0, {}),
    "DeepSpeed": (rf"RunningAvgSamplesPerSec={_RATE}", "samples/s", "last", 0, {}),
    "timm": (rf"^Train: \d+ \[.*, +[\d.]+/s +\([\d.]+s, +{_RATE}/s\)", "images/s", "last", 0, {}),
    "nanoGPT": (rf"^iter \d+: loss [\d.]+, time {_TIME}ms", "ms", "median", 1, {}),
    "PyTorch's imagenet example": (
        rf"^Epoch: \[\d+\]\[ *\d+/\d+\]\s+Time +{_TIME} \(", "s", "median", 1, {}),
    "Lightning": (rf"^Epoch \d+:.*100%.*, +{_RATE}it/s", "it/s", "last", 0, {}),
}  # fmt: skip


def without_escapes(text: str) -> str:
    """Return a text without the control sequences of a terminal."""
    return _ANSI.sub("", text)


def read_log(text: str, where: str) -> Log:
    """Return the rows of a known log; none if it is not known. where: the name of its file."""
    text = re.sub(r"\r\n?", "\n", without_escapes(text))
    for kind, (line, unit, pick, skip, stated) in _FORMS.items():
        if rows := list(_form_rows(text, line, unit, stated)):
            return Log(f"a log of {kind}", rows, pick, skip)
    for kind, read in (
        ("a log of tf_cnn_benchmarks", _tf_cnn_benchmarks),
        ("an MLPerf log", _mlperf),
        ("a log of Keras", _keras),
    ):
        if rows := list(read(text, where)):
            return Log(kind, rows)
    return Log()


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _stated(text: str, pattern: str) -> str:
    """Return the last match of this pattern in a text; "" without one."""
    matches = re.findall(pattern, text, re.M)
    return str(matches[-1]).strip() if matches else ""


def _form_rows(text: str, line: str, unit: str, stated: dict[str, str]) -> Iterator[Row]:
    """Yield one row for each line of this form; with the tokens of a step of all ranks, as of nanoGPT, its rate."""
    tokens = _stated(text, r"^tokens per iteration will be: ([\d,]+)$").replace(",", "")
    patterns = {"ranks": _RANKS_STATED} | stated
    places = {name: [*re.finditer(pattern, text, re.M)][::-1] for name, pattern in patterns.items()}
    for match in re.finditer(line, text, re.M):
        row = {name: next((m[1] for m in last if m.end() <= match.start()), "") for name, last in places.items()}
        row |= {name: value for name, value in match.groupdict().items() if value}
        row |= {name: f"{row[name]} {unit}" for name in ("images_per_s", "step_s") if name in row}
        if tokens and unit == "ms":
            row["images_per_s"] = f"{float(tokens) / float(match['step_s']) * 1000:.10g} tokens/s"
        yield row | {"line": _line(text, match.start())}


def _tf_cnn_benchmarks(text: str, where: str) -> Iterator[Row]:
    """Yield one row for each total; ranks are its devices, times the workers of Horovod or of a cluster."""
    before = 0
    for match in _CNN.finditer(text):
        part = text[before : match.start()]
        if before and not re.search(r"Model:|mpirun|horovodrun|Step\s+Img/sec", part):
            continue  # another rank of the same job
        before = match.end()
        devices = re.findall(r"'[^']*'", _stated(part, r"Devices:\s*\[(.*)\]"))
        workers = _stated(part, r"(?:horovod\.size|num_workers|Number of workers|-np|--np)[ :=]+(\d+)")
        each_lists_all = any("horovod/" in device for device in devices)
        ranks = (len(devices) or 1) * int(workers) if workers and not each_lists_all else len(devices)
        whole, each = _stated(part, r"Batch size:\s*(\d+) global"), _stated(part, r"(\d+(?:\.\d+)?) per device")
        yield {
            "model": _stated(part, r"(?:Model:\s*|--model[ =])(\S+)"),
            "dataset": _stated(part, r"Dataset:\s*(\S+)"),
            "ranks": ranks or "",
            "global_batch": whole,
            "batch_per_rank": each.removesuffix(".0") or _stated(part, r"--batch_size[ =](\d+)"),
            "images_per_s": match[1],
            "line": _line(text, match.start()),
        }


def _keras(text: str, where: str) -> Iterator[Row]:
    """Yield one row: the median over the epochs but the first of the time of a step, or of an epoch."""
    ends = [match for match in _KERAS.finditer(text) if match[1] == match[2]]
    if not ends or not (_EPOCH.search(text) or len(ends) > 1):
        return
    step_times = [
        float(match[4]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[match[5]] for match in ends if match[6] == "step"
    ]
    seconds = [float(re.sub(r"[ms]", "", match[3])) * (1e-3 if match[3].endswith("ms") else 1.0) for match in ends]
    later = slice(1, None) if len(ends) > 1 else slice(None)  # the first epoch traces and compiles
    row: Row = {
        "ranks": _stated(text, _RANKS_STATED),
        "batch_per_rank": _stated(
            text, r"(?i)(?:batch size per (?:rank|gpu|worker|replica)|local batch)\s*[:=]\s*(\d+)"
        ),
        "global_batch": _stated(text, r"(?i)global batch(?: size)?\s*[:=]\s*(\d+)"),
    }
    row |= {"epoch_s": f"{statistics.median(seconds[later]):g}"}
    if step_times and len(step_times) == len(ends):
        row["step_s"] = f"{statistics.median(step_times[later]):g}"
    yield row | {"repeats": len(ends[later]), "line": _line(text, ends[-1].start())}


def _mlperf(text: str, where: str) -> Iterator[Row]:
    """Yield one row a run: from run_start to run_stop; and the throughput if it is logged, and gives the samples.

    Its ranks are those that the log states, else the accelerators that the description of the system counts, which a
    submission has in `systems` beside `results`. The name of a system is no count.
    """
    events: list[tuple[int, dict[str, Any]]] = []
    for number, line_text in enumerate(text.split("\n") if ":::MLLOG" in text else (), 1):
        with contextlib.suppress(json.JSONDecodeError, RecursionError):
            events += [(number, json.loads(match[1])) for match in _MLLOG.finditer(line_text)]
    values = {str(event.get("key")): event.get("value") for _, event in events if event.get("value") is not None}
    times: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for line, event in events:
        if isinstance(event.get("time_ms"), int | float):
            times[str(event.get("key"))].append((line, float(event["time_ms"])))
    if not events or not (times["run_start"] and times["run_stop"]):
        return
    line, stop = times["run_stop"][-1]
    pairs = zip(times["epoch_start"], times["epoch_stop"], strict=False)
    epochs = [end - start for (_, start), (_, end) in pairs if end > start]
    logged = [event["value"].get("throughput") for _, event in events if isinstance(event.get("value"), dict)]
    speeds = [float(value) for value in logged if isinstance(value, int | float)]
    system = _system(Path(where))
    named = next((str(values[name]) for name in ("number_of_ranks", "num_gpus", "world_size") if name in values), "")
    row: Row = {
        "model": values.get("submission_benchmark", ""),
        "machine": values.get("submission_platform", ""),
        **system,
        "ranks": named or system.get("ranks", ""),
        "global_batch": values.get("global_batch_size", ""),
        "wall_s": f"{(stop - times['run_start'][0][1]) / 1000:.3f}",
        "line": line,
    }
    if epochs:
        row["epoch_s"] = f"{statistics.median(epochs) / 1000:.3f}"
    samples = float(values.get("train_samples") or 0) * len(epochs)
    if speeds and 0.8 * samples < statistics.median(speeds) * float(row["wall_s"]) < 1.25 * samples:
        row["images_per_s"] = f"{statistics.median(speeds):g}"
    yield row


def _system(log: Path) -> Row:
    """Return what a submission of MLPerf says of the system of a log, in `systems/NAME.json`, beside `results/NAME`.

    Nodes, ranks (accelerators), their type, and as machine the processor, which machines of any size may share.
    """
    for results in log.absolute().parents:
        if results.parent.name == "results":
            try:
                system = json.loads(
                    bounded_files.read(results.parent.parent / "systems" / f"{results.name}.json", _SYSTEM)
                )
                nodes, each = int(system["number_of_nodes"]), int(system["accelerators_per_node"])
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                return {}
            gpu, machine = (str(system.get(f"{part}_model_name", "")) for part in ("accelerator", "host_processor"))
            submission = " ".join(str(system.get(name, "")) for name in ("submitter", "division"))
            texts = {"gpu": gpu, "machine": machine, "setting": submission}
            return {"nodes": nodes, **({"ranks": nodes * each} if each else {}), **texts}
    return {}
