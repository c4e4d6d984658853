"""Does the kit measure what Horovod's own benchmark measures? The script and the kit's arms of Horovod run in turn.

python -m benchmarks.peer --script tensorflow2_synthetic_benchmark.py --ranks 2 --batch 4

Give the path of your copy of the script, from examples/tensorflow2 in Horovod's repository. It runs on the same cores
as the kit's ranks, with the same model, batch and number of steps. Its rates have one decimal, a twentieth of some, so
the time between its lines is measured. docs/strategies.md explains the ratios.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from analysis.stats.repeats import typical
from benchmarks.common import launch_command, launch_overrides, options
from common import affinity
from record import schema as record
from record.record_summary import images_per_s, throughput
from train.models.applications import PRETRAINED
from train.rank import placement

_MODELS = ("resnet50", "vgg16", "vgg19")  # at 224 x 224 pixels, the size of its images
_ARMS = ("horovod-stock", "horovod")
_SCRIPT = "script"
_WARM_UP_STEPS = 3
_BEGINS, _ENDS = "Running benchmark...", "Img/sec per "  # lines of the script before and after its timed steps
# A rank's cores are chosen by its number, and bound before its Python starts; $0 is the cores of all ranks: 0,1:2,3
_BOUND = 'exec taskset --cpu-list "$(echo "$0" | cut -d: -f$((HOROVOD_LOCAL_RANK + 1)))" "$@"'


def main() -> None:
    """Run all in turn, and print the ratio of each arm of the kit to the script."""
    numbers = {"ranks": (2, "of each run"), "batch": (4, "images of a rank a step"), "steps": (10, "timed, of a run")}
    parser = options("peer", __doc__, **numbers, pairs=(6, "of runs; six have an interval"))
    parser.add_argument("--script", type=Path, required=True, help="tensorflow2_synthetic_benchmark.py of Horovod")
    parser.add_argument("--model", choices=_MODELS, default=_MODELS[0], help="default: %(default)s")
    setting, names = parser.parse_args(), (_SCRIPT, *_ARMS)
    setting.script = setting.script.resolve()
    if not setting.script.is_file():
        parser.error(f"--script {setting.script}: no such file; it is in examples/tensorflow2 of Horovod's repository")
    turns = []
    for number in range(setting.pairs):
        order = random.Random(number).sample(names, len(names))
        turns.append({name: script_rate(setting) if name == _SCRIPT else kit_rate(setting, name) for name in order})
        text = ", ".join(f"{name} {turns[-1][name]:.3g}" for name in names)
        print(f"{number + 1} of {setting.pairs}, images/s: {text}", flush=True)
    for arm in _ARMS:
        print(f"{arm} / script: {typical([[rates[arm] / rates[_SCRIPT] for rates in turns]]).text('.3f')}")


def script_rate(setting: argparse.Namespace) -> float:
    """Return images/s of all ranks of the script, by the time between its lines. Raises SystemExit if it fails."""
    launcher = ["-m", "train.launch.start.gloo", "--ranks", str(setting.ranks), "--hosts", f"localhost:{setting.ranks}"]
    options = {"model": PRETRAINED[setting.model][1], "batch-size": setting.batch, "num-iters": 1}
    options |= {"num-warmup-batches": _WARM_UP_STEPS, "num-batches-per-iter": setting.steps}
    flags = [f"--{name}={value}" for name, value in options.items()]
    bound = ["sh", "-c", _BOUND, cores(setting.ranks), sys.executable, str(setting.script), "--no-cuda", *flags]
    # It is written for Keras 2, and its lines must not be buffered.
    env = {**os.environ, "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "1", "PYTHONUNBUFFERED": "1"}
    lines: list[str] = []
    marked_at: dict[str, float] = {}
    command = [sys.executable, *launcher, "--", *bound]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
        assert job.stdout
        for line in job.stdout:
            lines.append(line)
            marked_at |= {mark: time.perf_counter() for mark in (_BEGINS, _ENDS) if mark in line}
    if job.returncode or len(marked_at) < 2:
        sys.exit(f"{setting.script} failed with status {job.returncode}:\n{''.join(lines[-80:])}")
    return throughput(setting.batch * setting.ranks, setting.steps, marked_at[_ENDS] - marked_at[_BEGINS])


def cores(ranks: int) -> str:
    """Return the cores of each rank, as the kit's launcher divides those of this machine among so many nodes."""
    available = affinity.usable_cores()
    each = placement.share(len(available), ranks)
    cores_by_rank = [placement.cores_of_rank(available, rank, 1, each, each) for rank in range(ranks)]
    return ":".join(",".join(map(str, rank_cores)) for rank_cores in cores_by_rank)


def kit_rate(setting: argparse.Namespace, arm: str) -> float:
    """Return images/s of one launch of an arm of the kit. Raises SystemExit if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        overrides = ["experiment=strategies", f"model={setting.model}", f"nodes={setting.ranks}"]
        overrides += [f"batch_per_rank={setting.batch}", "launcher=local"]
        steps = {"repeats": 1, "warm_up_steps": _WARM_UP_STEPS, "timed_steps": setting.steps}
        point = f"{setting.model}-nodes{setting.ranks}-{arm}"
        command = launch_command(launch_overrides(Path(folder), overrides, **steps), only=point)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(f"the launch of {arm} failed:\n{done.stdout}")
        [path] = record.find(Path(folder))
        return images_per_s(record.load(path))


if __name__ == "__main__":
    main()
