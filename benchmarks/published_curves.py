"""Make a file of analysis/published/atlas/ from clones of the repositories that publish its numbers.

python -m benchmarks.published_curves mlperf training_results_v0.7 training_results_v1.0 ...
python -m benchmarks.published_curves dlperf DLPerf   (and so: archer archer-benchmarks, lanl benchmarks)

Only facts are taken: numbers, names of systems, sizes, batches. SOURCES.md names the commits.
"""

import argparse
import csv
import functools
import json
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from analysis import PUBLISHED
from analysis.table.tidy_columns import COLUMNS

Row = dict[str, Any]
_MOST_BYTES = 4 << 20  # of a file


@functools.cache
def paths(clone: Path) -> list[str]:
    """Return the paths of the files of a clone, sorted."""
    files = (path for path in clone.rglob("*") if path.is_file() and path.stat().st_size < _MOST_BYTES)
    return sorted(path.relative_to(clone).as_posix() for path in files)


def texts(clone: Path, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the content of each file whose whole path matches."""
    for path in filter(re.compile(pattern).fullmatch, paths(clone)):
        yield path, (clone / path).read_text("utf-8-sig", "replace")


def mlperf(clones: Sequence[Path]) -> Iterator[Row]:
    """Yield the rates of the systems that a submitter measured with two or more numbers of accelerators.

    A system is a submitter's, with an accelerator, how many of them a node has, a processor and a framework. Of rounds
    with the same one, that with the most sizes counts, then the newest; of two at one size, that with the shorter name.
    """
    systems: dict[tuple[Any, ...], dict[Path, dict[int, tuple[str, Row]]]] = defaultdict(lambda: defaultdict(dict))
    for clone in clones:
        described: dict[str, Row] = {}
        for path, text in texts(clone, r"[^/]+/systems/[^/]+\.json"):
            try:
                described[path.replace("/systems/", "/results/").removesuffix(".json")] = json.loads(text)
            except json.JSONDecodeError:
                print(f"left out: {clone.name} {path}: no JSON")
        # Not of Minigo: its games differ.
        logs = (re.fullmatch(r"([^/]+/results/[^/]+)/((?!minigo/)\w+)/result_\d+\.txt", path) for path in paths(clone))
        for folder, benchmark in sorted({(log[1], log[2]) for log in logs if log}):
            if (key := _system(folder, facts := described.get(folder, {}))) and key[0]:
                sizes = systems[(benchmark, *key[1:])][clone]
                if key[0] not in sizes or len(folder) < len(sizes[key[0]][0]):
                    sizes[key[0]] = folder, facts
    seen: set[tuple[str, ...]] = set()
    for (benchmark, *_), rounds in systems.items():
        clone, sizes = max(rounds.items(), key=lambda item: (len(item[1]), item[0].name))
        rows = [*_mlperf_curve(clone, benchmark, dict(sorted(sizes.items())))] if len(sizes) > 1 else []
        if (values := tuple(row["value"] for row in rows)) not in seen:  # logs of another round, under another name
            yield from rows
        seen.add(values)


def _system(folder: str, facts: Row) -> tuple[Any, ...]:
    """Return the number of accelerators of a system, and what else it has; empty outside of the closed division."""
    try:
        nodes, each = int(facts["number_of_nodes"]), int(facts["accelerators_per_node"])
    except (KeyError, TypeError, ValueError):
        return ()
    if not str(facts.get("division")).lower().startswith("clos"):
        return ()
    frameworks = r"pytorch|mxnet|tensorflow|tf\b|jax|hugectr|mindspore|popart|nemo|dgl|maxtext"
    # Rounds write the same name with and without the company, the power and the number of cores.
    needless = r"nvidia|habana|intel|amd|\(\d+w\)|\(r\)|\d+-core processor|cpu|@.*|(?<=sxm)\d|\W"
    names = (str(facts.get(f"{chip}_model_name")).lower() for chip in ("accelerator", "host_processor"))
    chips = (re.sub(needless, "", name) for name in names)
    return (nodes * (each or 1), folder.split("/")[0], *chips, each, *sorted({*re.findall(frameworks, folder.lower())}))


def _mlperf_curve(clone: Path, benchmark: str, sizes: dict[int, tuple[str, Row]]) -> Iterator[Row]:
    """Yield the points of a curve whose logs have rates by one rule; samples/s if an epoch has as many at each size."""
    logs = {ranks: re.escape(f"{folder}/{benchmark}/") + r"result_\d+\.txt" for ranks, (folder, _) in sizes.items()}
    runs = {ranks: [mlperf_rates(log) for _, log in texts(clone, pattern)] for ranks, pattern in logs.items()}
    rule = ""
    measured: dict[int, list[Row]] = {}
    for name in (name for name, benchmarks in _RULES.items() if benchmark in (benchmarks or (benchmark,))):
        usable = {ranks: with_rate for ranks in runs if (with_rate := [run for run in runs[ranks] if name in run])}
        rule, measured = max((rule, measured), (name, usable), key=lambda item: len(item[1]))
    samples = {run.get("samples") for with_rate in measured.values() for run in with_rate}
    work = samples.pop() if rule == "epochs/s" and len(samples) == 1 else None
    for ranks, with_rate in measured.items() if len(measured) > 1 else ():
        (folder, facts), rates = sizes[ranks], sorted(run[rule] * (work or 1) for run in with_rate)
        batches, each = {run.get("batch") for run in with_rate}, int(facts["accelerators_per_node"])
        batch = int(batches.copy().pop() or 0) if len(batches) == 1 else 0
        row = {
            "place": f"{clone.name} {folder}/{benchmark}", "model": benchmark,
            "machine": facts.get("host_processor_model_name"),
            "run": f"{sizes[min(measured)][0].replace('/results/', ' ')}, {clone.name.rpartition('_')[2]}",
            "gpu": facts.get("accelerator_model_name") if each else "", "nodes": int(facts["number_of_nodes"]),
            "ranks_per_node": each or 1, "ranks": ranks, "global_batch": batch or None, "quantity": "rate",
            "batch_per_rank": batch // ranks if batch and batch % ranks == 0 else None,
            "unit": "samples/s" if work else rule.split()[0],
        }  # fmt: skip
        note = f"{len(rates)} runs, {rates[0]:.4g} to {rates[-1]:.4g} {rule.partition(' ')[2]}".rstrip()
        yield row | {"value": f"{statistics.median(rates):.5g}", "kind": "measured", "note": note}
        logged = [run["logged"] for run in with_rate if "logged" in run]
        if logged and row["unit"] == "samples/s":
            yield row | {"value": f"{statistics.median(logged):.5g}", "kind": "stated", "note": "in the log"}


_KEYS = ("epoch_start", "epoch_stop", "eval_accuracy", "eval_start", "eval_stop")
_MLLOG = re.compile(
    r':::MLLOG\s+(\{.*"key":\s*"(?:' + "|".join(_KEYS) + r'|global_batch_size|train_samples|tracked_stats)".*\})'
)
# By which rules the logs of which benchmarks have a rate (none: all). Evaluations without marks must be few: of at most
# one in ten samples, each of a third of the work.
_RULES: dict[str, tuple[str, ...]] = {
    "epochs/s": (),
    "samples/s between evaluations": ("bert", "gpt3", "llama2_70b_lora", "llama31_405b", "llama31_8b", "flux1"),
    "epochs/s between evaluations": ("resnet",),
    "samples/s with evaluations": ("bert", "gpt3"),
    "epochs/s with evaluations": ("resnet",),
}


def mlperf_rates(log: str) -> Row:
    """Return the rates of a run by each rule that its log allows, samples of an epoch, batch, and logged throughput.

    Epochs: all but the first, over the time from the start of the second to the stop of the last, without evaluations
    outside of them. It is no mean of single epochs: a log may stop one before the accelerators have done it.
    Evaluations: the work from the first to the last, over the time without evaluations, or with those without marks.
    """
    times: dict[str, dict[float, float]] = {key: {} for key in _KEYS}
    run: Row = {}
    logged = []
    for match in _MLLOG.finditer(log):
        try:
            event = json.loads(match[1])
        except json.JSONDecodeError:
            continue
        key, value, metadata = event["key"], event.get("value"), event.get("metadata") or {}
        count = metadata.get("samples_count", metadata.get("epoch_num"))
        if key in times and _is_number(count):
            times[key].setdefault(float(str(count)), float(event["time_ms"]) / 1000)
        elif key == "tracked_stats" and isinstance(value, dict) and _is_number(value.get("throughput")):
            logged.append(float(value["throughput"]))
        elif _is_number(value):
            run[{"global_batch_size": "batch", "train_samples": "samples"}.get(key, "")] = float(value)
    starts, stops, results, evaluated, evaluations = times.values()
    marks = [(start, evaluations[count]) for count, start in evaluated.items() if count in evaluations]
    epochs = sorted({*starts} & {*stops})
    if len(epochs) > 2 and all(b - a == 1 for a, b in pairwise(epochs)):
        gaps = [(stops[a], starts[b]) for a, b in pairwise(epochs[1:])]
        time = stops[epochs[-1]] - starts[epochs[1]] - sum(_common(mark, gap) for mark in marks for gap in gaps)
        run |= {"epochs/s": (len(epochs) - 1) / time} if time > 0 else {}
    if len(results) > 1:
        (first, begin), *_, (last, end) = sorted(results.items())
        time = end - begin - sum(_common(mark, (begin, end)) for mark in marks)
        rule = f"{'samples' if last > run.get('batch', 1) else 'epochs'}/s {'between' if marks else 'with'} evaluations"
        run |= {rule: (last - first) / time} if time > 0 else {}
    return run | ({"logged": statistics.median(logged)} if logged else {})


def _common(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return for how long two intervals overlap."""
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


def _is_number(value: object) -> bool:
    try:
        return math.isfinite(float(str(value)))
    except ValueError:
        return False


def archer(clones: Sequence[Path]) -> Iterator[Row]:
    """Yield the rates of GROMACS, CASTEP and OpenSBLI with one case on several numbers of nodes of a machine.

    A curve keeps its folder, its file name without sizes and dates, and the ranks of a node. Runs at one size count by
    their median, copies of a file once.
    """
    curves: dict[tuple[str, str], dict[int, list[tuple[float, int]]]] = defaultdict(lambda: defaultdict(list))
    seen: set[str] = set()
    for path, text in texts(clones[0], r"apps/(GROMACS|CASTEP|OpenSBLI)/[^/]+/results/.*\.(log|castep\S*|txt|iter)"):
        rate, ranks, nodes = _archer_run(path, text)
        if rate and nodes and text not in seen:
            seen.add(text)
            sizes_and_dates = r"\d+(?=-?(nodes?|ranks|cores|tasks|processes))|\d{6,}|[._]\d+$"
            stem = re.sub(sizes_and_dates, "", path.removesuffix(Path(path).suffix))
            curves[stem.removeprefix("apps/"), f"{ranks / nodes:g}" if ranks else ""][nodes].append((rate, ranks))
    for (stem, each), sizes in curves.items():
        program, case, _, system, *_ = stem.split("/")
        for nodes, runs in sorted(sizes.items()) if len(sizes) > 1 else ():
            yield {
                "place": stem, "experiment": "strong_scaling", "run": f"{stem} {each}".strip(),
                "model": f"{program} {case}", "note": f"{len(runs)} runs",
                "device": "cpu", "machine": system, "nodes": nodes, "ranks": runs[0][1] or None, "ranks_per_node": each,
                "quantity": "rate", "value": f"{statistics.median(rate for rate, _ in runs):.5g}", "kind": "measured",
                "unit": {"GROMACS": "ns/day", "CASTEP": "cycles/s"}.get(program, "iterations/s"),
            }  # fmt: skip


def _archer_run(path: str, text: str) -> tuple[float, int, int]:
    """Return the rate of a run, its ranks, and its nodes; 0 where they are not stated.

    GROMACS logs ns/day. Of CASTEP: cycles of self-consistency over the time from the first to the last.
    """

    def number(pattern: str, text: str = text) -> float:
        return float(matches[-1]) if (matches := re.findall(pattern, text)) else 0.0

    nodes = int(number(r"Running on (\d+) nodes?") or number(r"(\d+)-?nodes?", path))
    if "/GROMACS/" in path:
        return number(r"Performance:\s+([\d.]+)"), int(number(r"Using (\d+) MPI process")), nodes
    if "/CASTEP/" in path:
        timers = [float(time) for time in re.findall(r"^ +\d+ .* ([\d.]+) +<-- SCF", text, re.M)]
        rate = (len(timers) - 1) / (timers[-1] - timers[0]) if len(timers) > 2 and timers[-1] > timers[0] else 0.0
        return rate, int(number(r"parallelised over +(\d+) processes")), nodes
    iteration_s = number(r"Time taken for 1 iteration, ([\d.]+)")
    return 1 / iteration_s if iteration_s else 0.0, int(number(r"(\d+)ranks", path)), nodes


def lanl(clones: Sequence[Path]) -> Iterator[Row]:
    """Yield the figures of merit that are tabled over cores of a node (strong) or, per node, over nodes (weak)."""
    for path, text in texts(clones[0], r"doc/sphinx/0[1-8]_\w+/[^/]+(?<!new|eal|oci)\.csv"):
        head, *lines = ([cell.strip().lower() for cell in line] for line in csv.reader(text.splitlines()) if line)
        over, is_weak = head[0].removeprefix("no. "), head[0] == "no. nodes"
        for size, rate, *_ in lines if over in ("cores", "nodes") and head[1] == "actual" else ():
            yield {
                "place": path, "experiment": "weak_scaling" if is_weak else "strong_scaling", "run": Path(path).stem,
                "model": path.split("/")[2][3:].upper(), "device": "cpu", "machine": "Crossroads",
                "nodes": int(size) if is_weak else 1, "ranks": None if is_weak else size, "quantity": "rate",
                "value": f"{float(rate) * (int(size) if is_weak else 1):.7g}", "unit": "1/s", "kind": "measured",
            }  # fmt: skip


def dlperf(clones: Sequence[Path]) -> Iterator[Row]:
    """Yield the throughputs and speedups of the tables in the reports: V100, eight a node, InfiniBand."""
    pages = r"(?!reports/|OneFlow/Cl|OneFlow/L).*README\.md|OneFlow/.*_v0\.3\.1_report.*\.md"
    for path, text in texts(clones[0], pages):
        precision, batch, number = "", "", 0
        head: list[str] = []
        for line in text.splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not line.lstrip().startswith("|"):
                precision = next(iter(re.findall(r"FP16|FP32|AMP", line if line[:1] == "#" else "")), precision)
                batch = next(iter(re.findall(r"batch[ _]size *= *(\d+)", line, re.I)), batch)
                head = []
            elif not head:
                head, number = [cell.lower() for cell in cells], number + 1
            elif "speedup" in head and cells[0].isdigit():
                nodes, gpus = int(cells[0]), int(cells[1])
                each = gpus if "per_node" in head[1] else -(-gpus // nodes)
                batch = dict(zip(head, cells, strict=False)).get("batch_size_per_device", batch)
                row = {
                    "place": f"{path}, table {number}", "run": f"{path.rpartition('/')[0]} {precision}, table {number}",
                    "model": next(name for name in ("resnet50", "bert", "insightface", "rn50") if name in path.lower()),
                    "device": "gpu", "gpu": "Tesla V100-SXM2-16GB", "machine": "InfiniBand 100 Gb/s", "nodes": nodes,
                    "ranks_per_node": each, "ranks": nodes * each, "batch_per_rank": batch,
                    "global_batch": int(batch) * nodes * each,
                }  # fmt: skip
                yield row | {"quantity": "rate", "value": cells[-2], "unit": "samples/s", "kind": "measured"}
                yield row | {"quantity": "speedup_throughput", "value": cells[-1], "unit": "x", "kind": "stated"}


SOURCES = {"mlperf": mlperf, "archer": archer, "lanl": lanl, "dlperf": dlperf}


def main() -> None:
    """Write the file of the source that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", choices=SOURCES)
    parser.add_argument("clones", nargs="+", type=Path)
    options = parser.parse_args()
    with (PUBLISHED / "atlas" / f"{options.source}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [column.name for column in COLUMNS if column.required], lineterminator="\n")
        writer.writeheader()
        writer.writerows({"source": "published"} | row for row in SOURCES[options.source](options.clones))


if __name__ == "__main__":
    main()
