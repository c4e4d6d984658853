"""Compare the use of a GPU in the record of a program with nvidia-smi's own log of the same seconds.

    python -m benchmarks.gpu_program --python /opt/torch/bin/python

What `make scaling` starts measures PyTorch's ResNet-50 on synthetic images, one rank on the first GPU. Then one rank
more than there are GPUs must be refused. Needs nvidia-smi and a Python with torch and torchvision, no TensorFlow and no
network: hydra-core, msgspec, nvidia-ml-py, openpyxl, psutil, pyyaml, rich, rocrate and tabulate with what they need (25
MB) may be a folder on PYTHONPATH. The status is 1 if a comparison fails. It has not been run on a GPU yet.
"""

import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from benchmarks.common import options, show
from record.schema import GpuUsage, RunRecord, load
from train.config import quoted
from train.make import Variables, steps
from train.rank import gpus

TRAINING = """\
import sys, time, torch, torchvision
device, (batch, timed) = sys.argv[1], map(int, sys.argv[2:])
model = torchvision.models.resnet50().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images = torch.randn(batch, 3, 224, 224, device=device)
labels = torch.randint(1000, (batch,), device=device)
def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    loss.item()  # waits for the device

train(max(1, timed // 10))
began = time.perf_counter()
train(timed)
print(f"images/s: {batch * timed / (time.perf_counter() - began):.2f}")
"""
QUERY = "--query-gpu=timestamp,utilization.gpu,memory.used,clocks.sm,power.draw"
# How far the two may be apart: a fraction of nvidia-smi's value, and in its unit. Their samples are not simultaneous.
ALLOWED = {"use (%)": (0.0, 10.0), "memory (MiB)": (0.0, 64.0), "clock (MHz)": (0.05, 0.0), "energy (J)": (0.10, 0.0)}
Samples = list[tuple[float, list[float]]]  # at, seconds since the epoch; use, memory, clock, power


def parse_log(text: str) -> Samples:
    """Return the samples of nvidia-smi's log. Raises ValueError for a value that the GPU does not report."""
    rows = [line.split(",") for line in text.rpartition("\n")[0].splitlines()]  # it may have been ended in a line
    return [(datetime.strptime(at, "%Y/%m/%d %H:%M:%S.%f").timestamp(), [*map(float, row)]) for at, *row in rows]


def compared(usage: GpuUsage, started_at: float, log: Samples) -> list[tuple[str, float, float, bool]]:
    """Return each quantity by the record and by nvidia-smi, and whether they agree.

    started_at: when the program was started, in seconds since the epoch. Mean use, largest memory, median clock, and
    the energy, for nvidia-smi the mean power x the time. Raises ValueError without samples of the same seconds.
    """
    during_s = usage.at_s[-1]
    values = [values for at, values in log if started_at <= at <= started_at + during_s]
    columns = usage.fraction, usage.memory_bytes, usage.clock_mhz, usage.energy_j
    if len(values) < 2 or any(value is None for column in columns for value in column):
        raise ValueError(f"{len(values)} samples of nvidia-smi in {during_s:.0f} s; the record has {usage}")
    use, memory, clock, power = zip(*values, strict=True)
    own = (
        100 * statistics.mean(usage.fraction),  # type: ignore[type-var]
        max(usage.memory_bytes) / 2**20,  # type: ignore[operator, type-var]
        statistics.median(usage.clock_mhz),  # type: ignore[type-var]
        usage.energy_j[-1] - usage.energy_j[0],  # type: ignore[operator]
    )
    smi = statistics.mean(use), max(memory), statistics.median(clock), statistics.mean(power) * during_s
    return [
        (name, a, b, abs(a - b) <= fraction * b + unit)
        for (name, (fraction, unit)), a, b in zip(ALLOWED.items(), own, smi, strict=True)
    ]


def command(results: Path, program: Sequence[str], args: str = "", **variables: str) -> list[str]:
    """Return the command that `make scaling DEVICE=gpu` starts for this program."""
    settings = f"program.scaling=weak measure.repeats=1 measure.budget_s=1 tracking=none results={quoted(str(results))}"
    variables |= {"DEVICE": "gpu", "NODES": "1", "COMMAND": shlex.join(program), "RATE": "images/s: {rate}"}
    return [sys.executable, "-m", *steps("scaling", Variables(variables | {"ARGS": f"{settings} {args}"}))[0].command]


def measure(program: Sequence[str], results: Path) -> tuple[RunRecord, Samples]:
    """Return the record of one launch of the program, and nvidia-smi's log of the first GPU meanwhile."""
    query = ["nvidia-smi", QUERY, "--format=csv,noheader,nounits", "-i", "0", "-lms", "500"]
    log = results / "nvidia-smi.csv"
    with log.open("w") as file, subprocess.Popen(query, stdout=file) as smi:
        status = subprocess.run(command(results, program)).returncode
        smi.terminate()
    if status:
        sys.exit(f"make scaling ended with status {status}")
    [path] = results.rglob("record.json")
    return load(path), parse_log(log.read_text())


def main() -> int:
    parser = options("gpu_program", __doc__, batch=(64, "images of a step"), steps=(300, "timed steps"))
    parser.add_argument("--python", default=sys.executable, help="a Python with torch and torchvision")
    parser.add_argument("--device", default="cuda", help="of PyTorch; cpu tries this program with an imitated NVML")
    arguments = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    if not shutil.which("nvidia-smi") or not (names := gpus.names()):
        sys.exit("no nvidia-smi or no GPU: nothing was measured")
    results = Path(tempfile.mkdtemp(prefix="gpu_program-"))
    (script := results / "resnet50.py").write_text(TRAINING)
    program = [arguments.python, str(script), arguments.device, str(arguments.batch), str(arguments.steps)]
    record, log = measure(program, results)
    began = datetime.fromisoformat(record.started_at).timestamp() + record.ranks[0].phases_s["start"]
    rows = compared(record.program.gpus[0], began, log)  # type: ignore[union-attr]
    print(f"{names[0]}: {record.printed.value:g} images/s; records and log in {results}")  # type: ignore[union-attr]
    texts = [(name, f"{a:.1f}", f"{b:.1f}", "yes" if agree else "NO") for name, a, b, agree in rows]
    show(texts, ["", "record", "nvidia-smi", "agree"])
    more = len(names) + 1
    done = subprocess.run(command(results, program, f"ranks_per_node={more}", DRY_RUN="1"), stderr=subprocess.PIPE)
    refused = done.returncode != 0 and f"needs {more} GPUs".encode() in done.stderr
    print(f"{more} ranks on {len(names)} GPU(s): {'refused' if refused else 'NOT REFUSED'}")
    return 0 if refused and all(agree for *_, agree in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
