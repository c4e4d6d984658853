"""Test the kit on the NVIDIA GPUs of this host, bare or in the image kit:cuda; print a table, and pack a bundle.

    .venv/bin/python containers/verify_gpu.py
    CONTAINER=docker .venv/bin/python containers/verify_gpu.py

Each check runs one of the commands that a user runs. One that needs something that this host lacks (a second GPU) is
skipped, with the reason.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from containers.verify import Row, Skipped, expect, lines_with, output, records, table, verify  # noqa: E402
from train.rank import gpus  # noqa: E402
from train.rank.gpus import GpuUse  # noqa: E402

RESULTS = Path("results-gpu")
MODELS = "resnet50,vgg16"
BATCH = 64  # of a rank, as in report 003; fits 16 GB in both precisions
MIN_DRIVER = (525, 60)  # CUDA 12, which TensorFlow 2.21 needs
_QUERY = ("index", "uuid", "name", "driver_version", "memory.total", "utilization.gpu", "memory.used")
_APART_BYTES, _APART_FRACTION = 64 * 2**20, 0.25  # two readings are not of one moment


@dataclass(frozen=True)
class Gpu:
    """A GPU as nvidia-smi shows it."""

    index: int
    uuid: str
    name: str
    driver: str
    memory_bytes: int
    use: GpuUse


def query() -> list[str]:
    """The command that shows all GPUs."""
    return ["nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]


def shown(text: str) -> list[Gpu]:
    """The GPUs in what that command prints; what nvidia-smi does not know ("[N/A]") is None. Raises AssertionError."""
    gpu_list = []
    for cells in csv.reader(text.splitlines(), skipinitialspace=True):
        if len(cells) != len(_QUERY):
            raise AssertionError(f"nvidia-smi: not understood: {','.join(cells)}")
        index, uuid, name, driver, memory, percent, used = cells
        fraction = float(percent) / 100 if percent.strip().isdigit() else None
        used_bytes = int(used) * 2**20 if used.strip().isdigit() else None
        gpu_list.append(Gpu(int(index), uuid, name, driver, int(memory) * 2**20, GpuUse(fraction, used_bytes)))
    return gpu_list


def here() -> list[Gpu]:
    """The GPUs of this host. Raises Skipped without a driver or a GPU."""
    try:
        local_gpus = shown(output(query()))
    except FileNotFoundError:
        raise Skipped("no nvidia-smi: NVIDIA's driver is not installed") from None
    except AssertionError as error:
        raise Skipped(f"nvidia-smi does not work: {str(error).splitlines()[-1][:80]}") from None
    if not local_gpus:
        raise Skipped("nvidia-smi shows no GPU")
    return local_gpus


def several() -> int:
    """The number of GPUs. Raises Skipped with fewer than two."""
    if len(local_gpus := here()) < 2:
        raise Skipped("one GPU: an exchange needs two")
    return len(local_gpus)


def make(target: str, number: int, *more: str, variables: Mapping[str, str] = os.environ) -> list[str]:
    """The make command of one check on so many GPUs, one node each. CONTAINER= and IMAGE= of `variables` go with it."""
    return ["make", target, "DEVICE=gpu", f"NODES={number}", f"RESULTS={RESULTS}", *_passed(variables), *more]


def _passed(variables: Mapping[str, str]) -> list[str]:
    return [f"{name}={variables[name]}" for name in ("CONTAINER", "IMAGE") if variables.get(name)]


def setup(variables: Mapping[str, str] = os.environ) -> list[str]:
    """The command that makes the environment for GPUs; with CONTAINER= that of the launcher."""
    return ["make", "setup", "DEVICE=gpu", *_passed(variables)]


def scaling(precision: str, number: int, **how: Any) -> list[str]:
    """Weak scaling from one to all GPUs, in rounds."""
    arguments = f"precision={precision} batch_per_rank={BATCH} measure.curve_budget_s=240"
    return make("weak-scaling", number, f"MODELS={MODELS}", f"ARGS={arguments}", **how)


def overhead(number: int, **how: Any) -> list[str]:
    """One rank with and without Horovod, and two with and without allreduce."""
    return make("overhead", number, "MODELS=resnet50", f"ARGS=batch_per_rank={BATCH} measure.curve_budget_s=240", **how)


def allreduce(number: int, **how: Any) -> list[str]:
    """Every size, on all GPUs, beside the limits of link and memory; each sum is checked."""
    return make("allreduce-bench", number, **how)


def crowded(number: int, **how: Any) -> list[str]:
    """A rank more than there are GPUs: it must be refused."""
    return make("weak-scaling", number + 1, "MODELS=tiny", "DRY_RUN=1", **how)


def driver(_: str) -> str:
    """The driver is new enough for CUDA 12."""
    first = here()[0]
    version = tuple(int(part) for part in first.driver.split(".")[:2])
    assert version >= MIN_DRIVER, (
        f"driver {first.driver}: TensorFlow 2.21 needs {'.'.join(map(str, MIN_DRIVER))} or newer"
    )
    return f"{len(here())} x {first.name}, {first.memory_bytes / 2**30:.0f} GiB; driver {first.driver}"


def set_up(_: str) -> str:
    """The environment is made, however long that takes, with its progress on the terminal; most is CUDA's libraries."""
    status = subprocess.run(setup(), cwd=ROOT, stdout=sys.stderr).returncode
    assert status == 0, "make setup DEVICE=gpu failed; why is above"
    in_image = os.environ.get("CONTAINER")
    return "the launcher; TensorFlow is in the image" if in_image else "TensorFlow with CUDA, Horovod"


def nccl(_: str) -> str:
    """Horovod was built with NCCL."""
    here()
    engine = os.environ.get("CONTAINER")
    inside = [engine, "run", "--rm", os.environ.get("IMAGE") or "kit:cuda"] if engine else []
    python = ["python"] if inside else [".venv-gpu/bin/python"]
    text = output([*inside, *python, "-c", "import horovod.tensorflow as hvd; print('nccl', hvd.nccl_built())"])
    version = int(lines_with(text, "nccl ")[-1].split()[1])
    assert version, "Horovod was compiled without NCCL: make clean-env DEVICE=gpu; make setup DEVICE=gpu"
    return f"NCCL {version // 10000}.{version // 100 % 100}.{version % 100}"


def refused(_: str) -> str:
    """Two ranks on one GPU are refused, with the reason."""
    text = output(crowded(len(here())), status=None)
    expect(text, "device=gpu:", "GPUs; NVIDIA's driver shows")
    return lines_with(text, "device=gpu:")[0][:100]


def exchanged(_: str) -> str:
    """Allreduce of every size: right sums, by NCCL, beside the link."""
    output(allreduce(several()))
    complete = experiment_records("allreduce_bench")
    assert all("nccl" in record["environment"]["horovod_built_with"] for record in complete), "not by NCCL"
    return f"{len(complete)} complete records; every sum as expected; {fastest(complete)}"


def fastest(complete: Sequence[dict[str, Any]]) -> str:
    """The largest message of the most ranks: its bus bandwidth beside that of the plain TCP ring, in GB/s."""
    record = max(complete, key=lambda one: len(one["ranks"]))
    ranks = len(record["ranks"])
    largest = max(one["message_bytes"] for one in record["ranks"][0]["allreduces"])
    by_rank = [[one for one in rank["allreduces"] if one["message_bytes"] == largest] for rank in record["ranks"]]
    times = [
        max(step) for turn in zip(*by_rank, strict=True) for step in zip(*(one["times_s"] for one in turn), strict=True)
    ]
    bus = largest / median(times) * 2 * (ranks - 1) / ranks / 1e9
    rings = [
        t["transferred_bytes"] / t["time_s"] / 1e9
        for rank in record["ranks"]
        for t in rank["transfers"]
        if t["what"] == "tcp_ring"
    ]
    return f"{largest >> 20} MiB on {ranks} GPUs: bus bandwidth {bus:.1f} GB/s" + (
        f", TCP ring {min(rings):.1f} GB/s" if rings else ""
    )


def scaled(precision: str) -> Callable[[str], str]:
    """The check of weak scaling in one precision."""

    def check(_: str) -> str:
        output(scaling(precision, len(here())))
        complete = [one for one in experiment_records("weak_scaling") if one["config"]["precision"] == precision]
        assert complete, "no record"
        return f"{len(complete)} complete records; {used(complete)}"

    return check


def used(complete: Sequence[dict[str, Any]]) -> str:
    """Use and memory of the GPUs as the records have them. Raises AssertionError where a rank has none."""
    fractions, memory = [], []
    for record in complete:
        for rank in record["ranks"]:
            usage = rank["usage"] or {"gpu_fraction": [], "gpu_memory_bytes": []}
            reported = [value for value in usage["gpu_fraction"] if value is not None]
            held = [value for value in usage["gpu_memory_bytes"] if value is not None]
            assert held, f"{record['point']}, rank {rank['rank']}: no memory of its GPU ({rank['gpu']}) was sampled"
            fractions += [max(reported)] if reported else []  # import and tracing leave the GPU idle
            memory.append(max(held))
    use = f"GPU use up to {100 * median(fractions):.0f} %" if fractions else "GPU use not reported"
    return f"{use}, memory up to {max(memory) / 2**30:.1f} GiB"


def overheads(_: str) -> str:
    """The cost of Horovod itself, in rounds."""
    output(overhead(several()))
    return f"{len(experiment_records('overhead'))} complete records"


def sampled(_: str) -> str:
    """The sampler reads what nvidia-smi shows, for every GPU."""
    readers = {one.uuid: gpus.use_reader(one.uuid) for one in here()}
    compared = [agree(one, readers[one.uuid]()) for one in here()]
    return "; ".join(compared)


def agree(smi: Gpu, read: GpuUse) -> str:
    """Return the memory of a GPU by both. Raises AssertionError if they contradict each other."""
    for name, a, b, apart in (
        ("memory", smi.use.memory_bytes, read.memory_bytes, _APART_BYTES),
        ("use", smi.use.fraction, read.fraction, _APART_FRACTION),
    ):
        assert (a is None) == (b is None), f"GPU {smi.index}: {name}: nvidia-smi says {a}, the sampler {b}"
        assert a is None or b is None or abs(a - b) <= apart, f"GPU {smi.index}: {name}: {a} and {b}"
    memory = "not known" if read.memory_bytes is None else f"{read.memory_bytes / 2**20:.0f} MiB"
    return f"GPU {smi.index}: {memory} by both"


def drawn(_: str) -> str:
    """The figures have these points."""
    if not RESULTS.is_dir():
        raise Skipped("nothing was measured")
    output(["make", "figures", "DEVICE=gpu", f"RESULTS={RESULTS}"])
    there = sorted(path.stem for path in (ROOT / "figures").glob("own-weak-scaling-*.svg"))
    assert there, "no figure of weak scaling"
    return ", ".join(there)


def packed(_: str) -> str:
    """One archive to send."""
    if not RESULTS.is_dir():
        raise Skipped("nothing was measured")
    output(["make", "bundle", "DEVICE=gpu", f"RESULTS={RESULTS}", "SCRUB=1"])
    return "figures/bundle.tar.gz, without host and user names: send it with this table"


def experiment_records(experiment: str) -> list[dict[str, Any]]:
    """The complete records of an experiment."""
    return records(RESULTS / experiment)


CHECKS: list[tuple[str, Callable[[str], str]]] = [
    ("driver", driver),
    ("set-up", set_up),
    ("NCCL in Horovod", nccl),
    ("two ranks on one GPU", refused),
    ("the sampler, idle", sampled),
    ("allreduce: sums, link", exchanged),
    ("weak scaling, fp32", scaled("fp32")),
    ("weak scaling, fp16", scaled("fp16")),
    ("overhead", overheads),
    ("figures", drawn),
    ("bundle", packed),
]


def main() -> int:
    """Run all checks and print the table; 1 where one failed, 2 without a GPU."""
    begin = time.monotonic()
    try:
        here()
    except Skipped as error:
        print(f"test-gpu: {error}; nothing was tested", file=sys.stderr)
        return 2
    where = os.environ.get("IMAGE") or ("kit:cuda" if os.environ.get("CONTAINER") else "bare")
    rows: list[Row] = [verify(where, what, check) for what, check in CHECKS]
    print(table(rows))
    print(f"in {(time.monotonic() - begin) / 60:.0f} min")
    return int(any(row.state == "FAILED" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
