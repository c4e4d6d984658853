"""The largest loss, for real: each test disturbs one thing, and the diagnosis must name it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.helpers.kit import environment, make_command, needs_setup, records, run
from tests.helpers.small_sets import large_pictures
from train.launch.emulate import cgroups, networks

pytestmark = pytest.mark.end_to_end

SHORT = ("tracking=none", "measure.precision_fraction=0.2")
# One that computes for long enough beside the cycle of Horovod to tell.
MODEL = ("model=digits_cnn", "batch_per_rank=64", "distribution.cycle_time_ms=5", "--only=digits_cnn-rounds")

# Installed as `sitecustomize`, it makes rank 1 wait in every step before it computes, once the module is imported.
LATE = """
import importlib.abc, importlib.machinery, os, sys, time

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "train.loop.bench":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def patched(module):
            execute(module)
            run_steps = module.run_steps
            def waiting(batches):
                for batch in batches:
                    time.sleep(0.3)
                    yield batch
            module.run_steps = lambda step, batches, count: run_steps(step, waiting(batches), count)
        spec.loader.exec_module = patched
        return spec

if os.environ.get("HOROVOD_RANK") == "1":
    sys.meta_path.insert(0, Finder())
"""


def measure(results: Path, *overrides: str, variables: dict[str, str] | None = None) -> None:
    """Run the rounds of the experiment `diagnose` on two nodes."""
    command = [sys.executable, "-m", "train.launch", "experiment=diagnose", "nodes=2", *SHORT, f"results={results}"]
    done = subprocess.run(
        [*command, *overrides], cwd=ROOT, env=environment() | (variables or {}), capture_output=True, text=True,
        timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def diagnosed(results: Path) -> dict:
    """What the command says of the one curve that was measured."""
    command = (sys.executable, "-m", "analysis", "diagnose", "diagnose", "--results", str(results), "--format", "json")
    status, output = run(*command)
    assert status == 0, output
    [curve] = json.loads(output)["curves"]
    return curve


def adds_up(curve: dict) -> None:
    """Whether the parts of every point add up to its measured step, within the interval of that."""
    for point in curve["points"]:
        total, whole = sum(part["value"] for part in point["parts_s"].values()), point["measured_s"]
        assert whole["low"] <= total <= whole["high"]


def test_a_rank_that_waits_is_named_with_its_place(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(LATE)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    measure(tmp_path, *MODEL, "measure.budget_s=70", variables={"PYTHONPATH": path})
    curve = diagnosed(tmp_path)
    adds_up(curve)
    assert curve["largest_loss"] == "waiting", curve["sentences"]
    late = curve["slowest_rank"]
    assert (late["rank"], late["certain"]) == (1, True)
    assert late["cores"] == records(tmp_path)[0].ranks[1].cores
    assert late["behind_s"]["value"] == pytest.approx(0.3, abs=0.05)


def test_a_core_that_another_process_shares_is_named(tmp_path: Path):
    cores = sorted(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(cores[1]), sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command, start_new_session=True) for _ in range(3)]
    try:
        # The ranks of a starved core come late to a barrier too: of longer cycles the record allows for more.
        measure(tmp_path, *MODEL, "batch_per_rank=256", "distribution.cycle_time_ms=20", "measure.budget_s=80")
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    curve = diagnosed(tmp_path)
    adds_up(curve)
    assert curve["largest_loss"] == "shared", curve["sentences"]
    late = curve["slowest_rank"]
    assert late["rank"] == 1
    assert late["others_fraction"] > 0.25
    assert any("Other processes took" in sentence for sentence in curve["sentences"])


@pytest.mark.skipif(networks.missing() is not None, reason=str(networks.missing()))
def test_a_slow_link_is_named(tmp_path: Path):
    if isinstance(found := cgroups.find(), str):
        pytest.skip(found)
    emulated = ("launcher=emulated", "launcher.separate_networks=true", "system.cpus_per_node=0.8")
    link = ("system.link_mbit_per_s=100", "measure.budget_s=70")
    measure(tmp_path, *MODEL, *emulated, *link)
    curve = diagnosed(tmp_path)
    adds_up(curve)
    assert curve["largest_loss"] == "exchange", curve["sentences"]
    [_, two] = curve["points"]
    # 1,048,920 weights in fp32 are 4.2 MB; of two nodes each sends all of them: 0.336 s at 100 Mbit/s.
    assert two["exchange_alone_s"]["value"] > 0.3


def test_slow_input_is_named(tmp_path: Path):
    large_pictures(tmp_path / "fruit")
    given = ("dataset=fruit", f"dataset.data_dir={tmp_path / 'fruit'}", "model=tiny", "batch_per_rank=4")
    measure(tmp_path / "results", *given, "measure.budget_s=80", "--only=tiny-rounds")
    curve = diagnosed(tmp_path / "results")
    adds_up(curve)
    assert curve["largest_loss"] == "input", curve["sentences"]
    assert any("make input-bench MODELS=tiny DATASET=fruit" in sentence for sentence in curve["sentences"])


@needs_setup
def test_make_diagnose_measures_and_says_and_draws(tmp_path: Path):
    short = " ".join([*SHORT, "batch_per_rank=4", "measure.budget_s=60"])
    status, output = run(*make_command(tmp_path / "kit", "diagnose", "NODES=2", "MODELS=tiny", f"ARGS={short}"))
    assert status == 0, output
    assert "computing, as one node alone does" in output
    assert "where the time of a whole job goes" in output
    assert (tmp_path / "kit/figures/own-diagnose-diagnosis.png").exists()
    status, again = run(*make_command(tmp_path / "kit", "diagnose", "EXPERIMENT=diagnose", "MODELS=tiny"))
    assert status == 0, again
    assert "measured step" in again
