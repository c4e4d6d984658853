"""Test the kit on the NVIDIA GPUs of this host, bare or in the image kit:cuda; print a table, and pack a bundle.

    .venv/bin/python containers/verify_gpu.py
    CONTAINER=docker .venv/bin/python containers/verify_gpu.py

Each check runs a command that a user runs. If this host lacks something (a second GPU), the check is skipped, with the
reason.
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
from train.rank.gpus import GpuReading  # noqa: E402

RESULTS = Path("results-gpu")
MODELS = "resnet50,vgg16"
BATCH = 64  # of a rank, as in report 003; fits 16 GB in both precisions
_QUERY = ("index", "uuid", "name", "driver_version", "memory.total", "utilization.gpu", "memory.used")
_TOLERANCE_BYTES, _TOLERANCE_FRACTION = 64 * 2**20, 0.25  # the two readings are not simultaneous


@dataclass(frozen=True)
class Gpu:
    """A GPU as nvidia-smi shows it."""

    index: int
    uuid: str
    name: str
    driver: str
    memory_bytes: int | None
    use: GpuReading


def query() -> list[str]:
    """Return the command that shows all GPUs."""
    return ["nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]


def parse_gpus(text: str) -> list[Gpu]:
    """Return the GPUs in the output of that command; a value that is "[N/A]" is None. Raises AssertionError."""
    gpu_list = []
    for cells in csv.reader(text.splitlines(), skipinitialspace=True):
        if len(cells) != len(_QUERY):
            raise AssertionError(f"nvidia-smi: not understood: {','.join(cells)}")
        index, uuid, name, driver, memory, percent, used = cells
        fraction = float(percent) / 100 if percent.strip().isdigit() else None
        total_bytes, used_bytes = (int(mib) * 2**20 if mib.strip().isdigit() else None for mib in (memory, used))
        gpu_list.append(Gpu(int(index), uuid, name, driver, total_bytes, GpuReading(fraction, used_bytes)))
    return gpu_list


def host_gpus() -> list[Gpu]:
    """Return the GPUs of this host. Raises Skipped without a driver or a GPU."""
    try:
        local_gpus = parse_gpus(output(query()))
    except FileNotFoundError:
        raise Skipped("no nvidia-smi: NVIDIA's driver is not installed") from None
    except AssertionError as error:
        raise Skipped(f"nvidia-smi does not work: {str(error).splitlines()[-1][:80]}") from None
    if not local_gpus:
        raise Skipped("nvidia-smi shows no GPU")
    return local_gpus


def gpu_count() -> int:
    """Return the number of GPUs. Raises Skipped with fewer than two."""
    if len(local_gpus := host_gpus()) < 2:
        raise Skipped("one GPU: an exchange needs two")
    return len(local_gpus)


def make(target: str, number: int, *more: str, variables: Mapping[str, str] = os.environ) -> list[str]:
    """Return the make command of a check on so many GPUs, one node each, with CONTAINER= and IMAGE= of `variables`."""
    return ["make", target, "DEVICE=gpu", f"NODES={number}", f"RESULTS={RESULTS}", *_container_args(variables), *more]


def _container_args(variables: Mapping[str, str]) -> list[str]:
    return [f"{name}={variables[name]}" for name in ("CONTAINER", "IMAGE") if variables.get(name)]


def setup(variables: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command that makes the environment for GPUs; with CONTAINER= that of the launcher."""
    return ["make", "setup", "DEVICE=gpu", *_container_args(variables)]


def scaling(precision: str, number: int, **options: Any) -> list[str]:
    """Return the command of weak scaling from one to all GPUs, in rounds."""
    arguments = f"precision={precision} batch_per_rank={BATCH} measure.curve_budget_s=240"
    return make("weak-scaling", number, f"MODELS={MODELS}", f"ARGS={arguments}", **options)


def overhead(number: int, **options: Any) -> list[str]:
    """Return the command that compares ranks with and without Horovod, and with and without allreduce."""
    arguments = f"batch_per_rank={BATCH} measure.curve_budget_s=240"
    return make("overhead", number, "MODELS=resnet50", f"ARGS={arguments}", **options)


def allreduce(number: int, **options: Any) -> list[str]:
    """Return the command of an allreduce sweep on all GPUs, which checks each sum."""
    return make("allreduce-bench", number, **options)


def too_many_ranks(number: int, **options: Any) -> list[str]:
    """Return the command for a rank more than there are GPUs, which must be refused."""
    return make("weak-scaling", number + 1, "MODELS=tiny", "DRY_RUN=1", **options)


def driver(_: str) -> str:
    """Check that the libraries have code for the GPUs, and that the driver is new enough for CUDA 12."""
    local_gpus, states = host_gpus(), gpus.query().states
    for state in states:
        assert not (reasons := gpus.problems(state)), f"{state.name}: {'; '.join(reasons)}"
    first = local_gpus[0]
    size = f"{first.memory_bytes / 2**30:.0f} GiB" if first.memory_bytes is not None else "memory not known"
    capabilities = ", ".join(sorted({state.compute_capability or "not known" for state in states}))
    return f"{len(local_gpus)} x {first.name}, {size}; compute capability {capabilities}; driver {first.driver}"


def set_up(_: str) -> str:
    """Make the environment, without a time limit, with its output on the terminal; most of it is CUDA's libraries."""
    status = subprocess.run(setup(), cwd=ROOT, stdout=sys.stderr).returncode
    assert status == 0, "make setup DEVICE=gpu failed; its messages are above"
    in_image = os.environ.get("CONTAINER")
    return "the launcher; TensorFlow is in the image" if in_image else "TensorFlow with CUDA, Horovod"


def nccl(_: str) -> str:
    """Check that Horovod was built with NCCL."""
    host_gpus()
    engine = os.environ.get("CONTAINER")
    inside = [engine, "run", "--rm", os.environ.get("IMAGE") or "kit:cuda"] if engine else []
    python = ["python"] if inside else [".venv-gpu/bin/python"]
    text = output([*inside, *python, "-c", "import horovod.tensorflow as hvd; print('nccl', hvd.nccl_built())"])
    version = int(lines_with(text, "nccl ")[-1].split()[1])
    assert version, "Horovod was compiled without NCCL: make clean-env DEVICE=gpu; make setup DEVICE=gpu"
    return f"NCCL {version // 10000}.{version // 100 % 100}.{version % 100}"


def shared_gpu_refused(_: str) -> str:
    """Check that two ranks on one GPU are refused, with the reason."""
    text = output(too_many_ranks(len(host_gpus())), status=None)
    expect(text, "device=gpu:", "GPUs; NVIDIA's driver shows")
    return lines_with(text, "device=gpu:")[0][:100]


def allreduces_checked(_: str) -> str:
    """Check the sums of allreduces of every size, by NCCL; compare with the link."""
    output(allreduce(gpu_count()))
    complete = experiment_records("allreduce_bench")
    assert all("nccl" in record["environment"]["horovod_built_with"] for record in complete), "not by NCCL"
    return f"{len(complete)} complete records; every sum as expected; {fastest(complete)}"


def fastest(complete: Sequence[dict[str, Any]]) -> str:
    """Return the bus bandwidth of the largest message on the most ranks, and that of the TCP ring, in GB/s."""
    record = max(complete, key=lambda record: len(record["ranks"]))
    ranks = len(record["ranks"])
    largest = max(timed["message_bytes"] for timed in record["ranks"][0]["allreduces"])
    by_rank = [[timed for timed in rank["allreduces"] if timed["message_bytes"] == largest] for rank in record["ranks"]]
    times = [
        max(step) for group in zip(*by_rank, strict=True) for step in zip(*(t["times_s"] for t in group), strict=True)
    ]
    bus = largest / median(times) * 2 * (ranks - 1) / ranks / 1e9
    rings = [
        transfer["transferred_bytes"] / transfer["time_s"] / 1e9
        for rank in record["ranks"]
        for transfer in rank["transfers"]
        if transfer["what"] == "tcp_ring"
    ]
    return f"{largest >> 20} MiB on {ranks} GPUs: bus bandwidth {bus:.1f} GB/s" + (
        f", TCP ring {min(rings):.1f} GB/s" if rings else ""
    )


def weak_scaling_check(precision: str) -> Callable[[str], str]:
    """Return the check of weak scaling in one precision."""

    def check(_: str) -> str:
        output(scaling(precision, len(host_gpus())))
        complete = [run for run in experiment_records("weak_scaling") if run["config"]["precision"] == precision]
        assert complete, "no record"
        return f"{len(complete)} complete records; {gpu_usage(complete)}"

    return check


def gpu_usage(complete: Sequence[dict[str, Any]]) -> str:
    """Return use and memory of the GPUs from the records. Raises AssertionError if a rank has none."""
    fractions, memory = [], []
    for record in complete:
        for rank in record["ranks"]:
            usage = rank["usage"] or {"gpu_fraction": [], "gpu_memory_bytes": []}
            reported = [value for value in usage["gpu_fraction"] if value is not None]
            used_bytes = [value for value in usage["gpu_memory_bytes"] if value is not None]
            assert used_bytes, (
                f"{record['point']}, rank {rank['rank']}: no memory of its GPU ({rank['gpu']}) was sampled"
            )
            fractions += [max(reported)] if reported else []  # import and tracing leave the GPU idle
            memory.append(max(used_bytes))
    text = f"GPU use up to {100 * median(fractions):.0f} %" if fractions else "GPU use not reported"
    return f"{text}, memory up to {max(memory) / 2**30:.1f} GiB"


def horovod_overhead(_: str) -> str:
    """Measure the cost of Horovod itself, in rounds."""
    output(overhead(gpu_count()))
    return f"{len(experiment_records('overhead'))} complete records"


def sampler_agrees(_: str) -> str:
    """Check that the sampler reads the same as nvidia-smi, for every GPU."""
    readers = {gpu.uuid: gpus.reader(gpu.uuid) for gpu in host_gpus()}
    return "; ".join(agree(gpu, readers[gpu.uuid]()) for gpu in host_gpus())


def agree(smi: Gpu, read: GpuReading) -> str:
    """Return the memory of a GPU, if both readings agree. Raises AssertionError if not."""
    for name, a, b, tolerance in (
        ("memory", smi.use.memory_bytes, read.memory_bytes, _TOLERANCE_BYTES),
        ("use", smi.use.fraction, read.fraction, _TOLERANCE_FRACTION),
    ):
        assert (a is None) == (b is None), f"GPU {smi.index}: {name}: nvidia-smi says {a}, the sampler {b}"
        assert a is None or b is None or abs(a - b) <= tolerance, f"GPU {smi.index}: {name}: {a} and {b}"
    memory = "not known" if read.memory_bytes is None else f"{read.memory_bytes / 2**20:.0f} MiB"
    return f"GPU {smi.index}: {memory} by both"


def figures_drawn(_: str) -> str:
    """Draw the figures of these records."""
    if not RESULTS.is_dir():
        raise Skipped("nothing was measured")
    output(["make", "figures", "DEVICE=gpu", f"RESULTS={RESULTS}"])
    names = sorted(path.stem for path in (ROOT / "figures").glob("own-weak-scaling-*.svg"))
    assert names, "no figure of weak scaling"
    return ", ".join(names)


def bundle_packed(_: str) -> str:
    """Pack one archive to send."""
    if not RESULTS.is_dir():
        raise Skipped("nothing was measured")
    output(["make", "bundle", "DEVICE=gpu", f"RESULTS={RESULTS}", "SCRUB=1"])
    return "figures/bundle.tar.gz, without host and user names: send it with this table"


def experiment_records(experiment: str) -> list[dict[str, Any]]:
    """Return the complete records of an experiment."""
    return records(RESULTS / experiment)


CHECKS: list[tuple[str, Callable[[str], str]]] = [
    ("driver", driver),
    ("set-up", set_up),
    ("NCCL in Horovod", nccl),
    ("two ranks on one GPU", shared_gpu_refused),
    ("the sampler, idle", sampler_agrees),
    ("allreduce: sums, link", allreduces_checked),
    ("weak scaling, fp32", weak_scaling_check("fp32")),
    ("weak scaling, fp16", weak_scaling_check("fp16")),
    ("overhead", horovod_overhead),
    ("figures", figures_drawn),
    ("bundle", bundle_packed),
]


def main() -> int:
    """Run all checks and print the table; 1 if one failed, 2 without a GPU."""
    begin = time.monotonic()
    try:
        host_gpus()
    except Skipped as error:
        print(f"test-gpu: {error}; nothing was tested", file=sys.stderr)
        return 2
    image = os.environ.get("IMAGE") or ("kit:cuda" if os.environ.get("CONTAINER") else "bare")
    rows: list[Row] = [verify(image, name, check) for name, check in CHECKS]
    print(table(rows))
    print(f"in {(time.monotonic() - begin) / 60:.0f} min")
    return int(any(row.state == "FAILED" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
