"""The largest loss of real launches: each test disturbs one thing, and the diagnosis must name it.

The disturbance takes several times as long as all delays by other processes of a busy machine.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.helpers import small_sets
from tests.helpers.kit import (
    LAUNCH,
    analyse,
    finish,
    in_phase,
    make_command,
    needs_setup,
    records,
    start,
    succeed,
    wait_for,
)
from tests.helpers.patched_ranks import UNCOUNTED, Hold, patch_ranks, rounds
from train.launch import cgroups, networks

pytestmark = pytest.mark.end_to_end

# One launch of 24 short rounds: a diagnosis names no loss of fewer.
SHORT = ("tracking=none", "measure.precision_fraction=0.9", "measure.budget_s=1", "measure.repeats=1")
COUNT = 24
ROUNDS = rounds(COUNT)
# An exchange takes one cycle of Horovod or less. A short cycle is small against the disturbance.
CYCLE = "distribution.cycle_time_ms=5"
TINY = ("model=tiny", "--only=tiny-rounds", CYCLE)
LATE_S = 0.2
LOOPS = 12  # more than the processes of a busy machine, which the kernel moves to the other core

# Makes rank 1 wait in every step before it computes.
LATE = f"""
def changed(run_steps):
    def late(batches):
        for batch in batches:
            time.sleep({LATE_S})
            yield batch
    def steps(step, batches, count):
        return run_steps(step, late(batches) if os.environ.get("HOROVOD_RANK") == "1" else batches, count)
    return steps
"""


# Makes each picture take long to read, as from a busy file server: this takes no core from the ranks.
SLOW_READ_S = 0.03
SLOW_READ = f"""
def changed(decoder):
    def slow(config, *, training):
        import tensorflow as tf
        decode = decoder(config, training=training)
        def late(encoded):
            time.sleep({SLOW_READ_S})
            return encoded
        def read(encoded, numbers):
            return decode(tf.ensure_shape(tf.py_function(late, [encoded], tf.string), ()), numbers)
        return read
    return slow
"""


def command(results: Path, *overrides: str) -> list[str]:
    """Return the command that measures the rounds of the experiment `diagnose` on two nodes."""
    return [*LAUNCH, "experiment=diagnose", "nodes=2", *SHORT, f"results={results}", *overrides]


def measure(results: Path, *overrides: str, changes: Mapping[str, str] | None = None) -> None:
    """Run that command, with these changes of the ranks."""
    variables = patch_ranks(results / "patch", {**ROUNDS, **UNCOUNTED, **(changes or {})})
    succeed(*command(results, *overrides), variables=variables)


def diagnosed(results: Path) -> dict:
    """Return the diagnosis of the only measured curve."""
    [curve] = json.loads(analyse("diagnose", "diagnose", "--results", str(results), "--format", "json"))["curves"]
    return curve


def check_sums(curve: dict) -> None:
    """Assert that the parts of every point add up to its measured step."""
    for point in curve["points"]:
        total = sum(part["value"] for part in point["parts_s"].values())
        assert total == pytest.approx(point["measured_s"]["value"])


@needs_setup
def test_make_measures_a_curve_and_names_a_rank_that_waits_with_its_cores(tmp_path: Path):
    kit = tmp_path / "kit"
    settings = f"ARGS={' '.join(SHORT)} batch_per_rank=4 {CYCLE}"
    changes = {**ROUNDS, **UNCOUNTED, "train.loop.timed_steps.run_steps": LATE}
    make = make_command(kit, "diagnose", "NODES=2", "MODELS=tiny", "ONLY=tiny-rounds", settings)
    output = succeed(*make, variables=patch_ranks(tmp_path / "patch", changes) | {"COLUMNS": "200"})
    assert "computing, as one node alone does" in output
    assert "where the time of a whole job goes" in output
    assert (kit / "figures/own-diagnose-diagnosis.png").exists()

    [record] = records(kit / "results")
    assert (record.point, record.status, record.weights_differ) == ("tiny-rounds", "complete", False)
    assert [(arm["nodes"], arm["allreduce"]) for arm in record.config["rounds"]] == [(1, True), (2, True), (2, False)]
    first, second = ({(window.round, window.arm) for window in rank.windows} for rank in record.ranks)
    assert first == {(number, arm) for number in range(COUNT) for arm in (0, 1, 2)}
    assert second == {(number, arm) for number in range(COUNT) for arm in (1, 2)}
    points = json.loads(analyse("summary", "diagnose", "--results", str(kit / "results"), "--format", "json"))
    [speedup] = [p["speedup_throughput"] for p in points if (p["nodes"], p["arm"]) == (2, "")]
    assert speedup["low"] <= speedup["value"] <= speedup["high"]
    assert speedup["n"] == COUNT

    curve = diagnosed(kit / "results")
    check_sums(curve)
    # If other processes share its core too, the larger of the two losses may not be certain.
    assert "waiting for the slowest rank" in " ".join(curve["sentences"][:2]), curve["sentences"]
    late = curve["slowest_rank"]
    assert (late["rank"], late["certain"]) == (1, True)
    assert late["cores"] == record.ranks[1].cores


@pytest.mark.on_change_of("train/loop/", "train/rank/counters.py", "analysis/diagnose/")
def test_a_core_that_other_processes_share_is_named(tmp_path: Path):
    # Rank 1 waits at its first window until the loops run: on a busy machine they need seconds to start.
    hold = Hold(tmp_path / "patch", "train.rank.counters.read_counters", after=0, ranks=[1], changes=ROUNDS)
    launcher = start(*command(tmp_path, *TINY, "batch_per_rank=256"), variables=hold.variables)
    wait_for(hold.holds)
    core = str(sorted(os.sched_getaffinity(0))[1])
    busy = ["taskset", "-c", core, sys.executable, "-S", "-c", "print(flush=True)\nwhile True: pass"]
    # The batch takes long to compute, against an exchange that waits for the same core once or twice. Each loop is in a
    # separate session, to which many kernels give as much time as to the whole job (sched(7), autogroup).
    loops = [subprocess.Popen(busy, start_new_session=True, stdout=subprocess.PIPE) for _ in range(LOOPS)]
    try:
        for loop in loops:
            loop.stdout.readline()
        hold.off()
        wait_for(lambda: in_phase(tmp_path, "evaluate") or launcher.poll() is not None)
    finally:
        for loop in loops:
            loop.kill()
            loop.communicate()
    finish(launcher)
    curve = diagnosed(tmp_path)
    check_sums(curve)
    # If the other core is shared too, the exchange waits longer, and the larger of the two losses may not be certain.
    assert "cores shared with other processes" in " ".join(curve["sentences"][:2]), curve["sentences"]
    late = curve["slowest_rank"]
    assert late["rank"] == 1
    assert late["others_fraction"] > 0.25


@pytest.mark.on_change_of("train/loop/", "train/launch/networks.py", "analysis/diagnose/")
@pytest.mark.skipif(networks.missing() is not None, reason=str(networks.missing()))
def test_a_slow_link_is_named(tmp_path: Path, means: cgroups.QuotaMethod):
    emulated = ("launcher=emulated", "launcher.separate_networks=true", "system.cpu_quota_per_node=0.8")
    model = ("model=digits_cnn", "batch_per_rank=1", "--only=digits_cnn-rounds")
    measure(tmp_path, *model, *emulated, "system.link_mbit_per_s=100")
    [record] = records(tmp_path)
    assert [(quota.node, quota.cpus, quota.by) for quota in record.node_quotas] == [
        (n, 0.8, means.text) for n in (0, 1)
    ]
    assert all(quota.periods >= quota.throttled_periods for quota in record.node_quotas)
    assert not record.cores_shared
    curve = diagnosed(tmp_path)
    check_sums(curve)
    assert curve["largest_loss"] == "exchange", curve["sentences"]
    [_, two] = curve["points"]
    # 1,048,920 weights in fp32 are 4.2 MB. Each of two nodes sends all of them: 0.336 s at 100 Mbit/s.
    assert two["exchange_alone_s"]["value"] > 0.3


@pytest.mark.on_change_of("train/loop/", "train/input/", "analysis/diagnose/")
def test_slow_input_is_named(tmp_path: Path):
    small_sets.fruit(tmp_path / "fruit")
    changes = {"train.input.image_ops.decoder": SLOW_READ}
    data = ("dataset=fruit", f"dataset.data_dir={tmp_path / 'fruit'}", "batch_per_rank=4")
    measure(tmp_path / "results", *TINY, *data, changes=changes)
    curve = diagnosed(tmp_path / "results")
    check_sums(curve)
    assert curve["largest_loss"] == "input", curve["sentences"]
    assert any("make input-bench DATASET=fruit MODELS=tiny" in sentence for sentence in curve["sentences"])
