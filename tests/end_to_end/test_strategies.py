"""TensorFlow's strategies: their exchanges, their records, and their failures."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.table.record_checks import faults
from tests.helpers import kit, simcluster
from tests.helpers.kit import LAUNCH, QUICK, analyse, gloo, records, start, succeed, wait_for
from tests.helpers.patched_ranks import Hold

pytestmark = pytest.mark.end_to_end
ON_CHANGE = pytest.mark.on_change_of("train/distribution/", "train/loop/asynchronous.py", "train/launch/launchers/")

MWMS = ("distribution=mwms", "nodes=2", "--only=tiny-nodes2")
APART = ("distribution=ps", "distribution.servers_on=nodes", "nodes=1", "--only=tiny-nodes1")  # rank 1 is the server

# Of a site: nothing answers there.
PROXY = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")

RANK = """
import sys
from pathlib import Path
from train import distribution, worker
from train.config.compose import load

config = load(["distribution=mwms", "nodes=2", "model=tiny"])
worker.start_tensorflow(config, 0, 1, Path("."), None)
import numpy as np
import tensorflow as tf

joined = distribution.join(config, Path("."))
rank = joined.rank
with joined.scope():
    weight = tf.Variable(2.0 + rank)
    matrix = tf.Variable([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    # like the statistics of batch normalisation: each rank has its own value
    drift = tf.Variable([0.0], synchronization=tf.VariableSynchronization.ON_READ,
                        aggregation=tf.VariableAggregation.MEAN, trainable=False)
assert float(weight.numpy()) == 2.0  # the strategy takes the values of rank 0
[local_weight, local_drift] = joined.local([weight, drift])
local_weight.assign(2.0 + rank)
assert distribution.weights_differ(joined, [weight])
step_number = tf.Variable(5 + rank, dtype=tf.int64)
joined.broadcast([weight, step_number])
assert float(local_weight) == 2.0 and int(step_number) == 5
assert not distribution.weights_differ(joined, [weight])

local_drift.assign([2.0 + 4 * rank])
joined.average([drift])
assert local_drift.numpy().tolist() == [4.0]
assert joined.sum(np.array([1.0, rank])).tolist() == [2.0, 1.0]
assert joined.gather("r%d" % rank, str) == ["r0", "r1"]

def gradients_by(ranks):
    def gradients():
        with tf.GradientTape() as tape:
            loss = weight * (1.0 + 2 * rank) + tf.reduce_sum(matrix * [[1.0, 0.0, 2.0], [3.0, 0.0, 4.0 * rank]])
        drift.assign_add([1.0 + rank])
        return ranks.exchange(tape.gradient(loss, [weight, matrix]), [weight, matrix])
    return ranks.compiled(gradients)()

for override, expected in ("gradients=grouped", 2.0), ("gradients=flat", 2.0), ("allreduce=false", [1.0, 3.0][rank]):
    settings = load(["distribution=mwms", "nodes=2", f"distribution.{override}"]).distribution
    joined._settings = settings
    # the gradients of weight are 1 and 3, those of matrix its factors, the last 0 and 4
    weight_mean, matrix_mean = gradients_by(joined)
    assert float(weight_mean) == expected, (override, weight_mean)
    assert matrix_mean.numpy().tolist() == [[1.0, 0.0, 2.0], [3.0, 0.0, 2.0 * expected - 2.0]], (override, matrix_mean)
assert local_drift.numpy().tolist() == [4.0 + 3 * (1 + rank)]  # it is not exchanged
joined.leave()
"""


def test_two_ranks_agree_on_what_they_exchange(tmp_path: Path):
    (tmp_path / "rank.py").write_text(RANK)
    succeed(*gloo(2), "env", "PYTHONPATH=.", sys.executable, str(tmp_path / "rank.py"), variables=PROXY)


@ON_CHANGE
def test_a_parameter_server_that_hangs_between_steps_is_named(tmp_path: Path):
    """No step is running: the failing code holds the only references to the variables on the server."""
    results, hold = (
        tmp_path / "results",
        Hold(tmp_path / "patch", "train.rank.counters.read_counters", after=0, ranks=[1]),
    )
    overrides = ("experiment=strategies", *QUICK, "distribution.servers=2", "nodes=2", f"results={results}")
    child = start(*LAUNCH, "--only=tiny-nodes2-ps", *overrides, variables=hold.variables | PROXY)
    wait_for(hold.holds)
    kit.ranks(results)[1].suspend()
    output, _ = child.communicate(timeout=kit.TIMEOUT_S)
    assert child.returncode != 0
    [record] = records(results)
    assert (record.arm, record.status, record.failure.phase) == ("ps", "failed", "warm_up"), output
    addresses = json.loads(record.environment.variables["TF_CONFIG"])["cluster"]
    assert {task: len(tasks) for task, tasks in addresses.items()} == {"worker": 2, "ps": 2, "chief": 1}
    assert record.failure.reason.startswith(f"rank 1 ({socket.gethostname()}) "), record.failure
    assert "does not answer" in record.failure.reason


@ON_CHANGE
def test_over_ssh_a_killed_server_and_a_silent_host_are_named(cluster, results):
    long = ("experiment=weak_scaling", "launcher=ssh", "measure.timed_steps=100000", *QUICK)

    def begin(name: str, hosts: str, strategy: tuple[str, ...]) -> subprocess.Popen:
        return cluster.popen("n0", *LAUNCH, *long, *strategy, f"launcher.hosts=[{hosts}]", f"results={results / name}")

    children = {"killed": begin("killed", "n1,n2", APART), "silent": begin("silent", "n3,n4", MWMS)}
    wait_for(lambda: all(kit.in_phase(results / name, "timed", "rank-1.*.jsonl") for name in children))
    cluster.link("n4", up=False)
    cluster.on("n2", "pkill", "-9", "-f", simcluster.RANKS)
    try:
        for child in children.values():
            child.communicate(timeout=kit.TIMEOUT_S)
    finally:
        cluster.link("n4", up=True)
    for name in children:
        host = "n2" if name == "killed" else "n4"
        [record] = records(results / name)
        assert record.status == "failed"
        # Rank 0 or ssh may be the first to report a silent host.
        is_named = (record.failure.rank, record.failure.host) == (1, host)
        assert is_named or (name == "silent" and "rank 1 (n4)" in record.failure.reason), record.failure
        assert [process.host for process in record.processes][1] == host
        assert record.failure.phase in ("warm_up", "timed")  # "timed" is announced before the barrier that begins it
        assert len(record.servers) == (name == "killed")
        tasks = json.loads(record.environment.variables["TF_CONFIG"])["cluster"].values()
        assert len({address.partition(":")[0] for addresses in tasks for address in addresses}) == 2  # one a host

    wait_for(lambda: not cluster.processes(simcluster.RANKS, "n1", "n2", "n3"))


@ON_CHANGE
def test_under_slurm_an_arm_finds_its_workers_on_the_hosts_of_the_allocation(cluster, results):
    short = ("measure.repeats=1", "measure.warm_up_steps=1", "measure.timed_steps=2", "tracking=none")
    overrides = ("experiment=strategies", "model=tiny", *short, "launcher=slurm", "system=slurm", f"results={results}")
    dry = cluster.on("n0", *LAUNCH, "--dry-run", *overrides, "nodes=2")
    assert "#SBATCH --nodes=2" in dry.stdout, dry.stdout  # also for the arm of one rank
    assert "ps_cpu: one process cannot be on 2 hosts" in dry.stdout
    apart = ("nodes=2", "distribution.servers_on=nodes")
    submitted = cluster.on("n0", *LAUNCH, "--only=tiny-nodes2-ps", *overrides, *apart)
    assert submitted.returncode == 0, submitted.stdout
    wait_for(lambda: not cluster.queue())
    [ps] = records(results)
    assert (ps.status, ps.arm, ps.weights_differ) == ("complete", "ps", None), ps.failure
    assert [rank.host for rank in ps.ranks] == ["n1", "n2"]
    addresses = json.loads(ps.environment.variables["TF_CONFIG"])["cluster"]
    assert {task: len(tasks) for task, tasks in addresses.items()} == {"worker": 2, "ps": 1, "chief": 1}
    assert [(server.rank, server.host, len(server.cores)) for server in ps.servers] == [(2, "n3", 1)]
    assert len({address.partition(":")[0] for tasks in addresses.values() for address in tasks}) == 3
    assert ps.config["global_batch"] == 2 * ps.config["batch_per_rank"]  # servers have no share of it
    assert [note for note in ps.notes if "1 parameter server on a separate node, with 1 core beside" in note]
    output = analyse("summary", "strategies", "--results", str(results))
    assert "asynchronous" in output
    assert "+1 core for servers" in " ".join(output.split()), output
    assert faults(ps) == []
