"""What the ranks exchange, on two real ranks: each checks its own side and fails the job where it is wrong."""

import sys
from pathlib import Path

import pytest

from tests.helpers.kit import run

pytestmark = pytest.mark.end_to_end

RANK = """
import os
from pathlib import Path
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy as np
import tensorflow as tf
from train import distribution
from train.config.compose import load

config = load(["nodes=2"])
distribution.prepare(config, Path("."))
joined = distribution.join(config)
rank = joined.rank
assert joined.size == 2

variables = [tf.Variable([1.0 + rank, 2.0]), tf.Variable(5.0 * rank)]
assert distribution.weights_differ(joined, variables)
joined.broadcast(variables)
assert not distribution.weights_differ(joined, variables)
assert variables[0].numpy().tolist() == [1.0, 2.0] and float(variables[1]) == 0.0

variables[0].assign([1.0, 2.0 + 4 * rank])
joined.average(variables)
assert variables[0].numpy().tolist() == [1.0, 4.0]

assert joined.sum(np.array([1.0, rank])).tolist() == [2.0, 1.0]
assert joined.gather("r%d" % rank) == ["r0", "r1"]

weight = tf.Variable(2.0)
matrix = tf.Variable([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
unused = tf.Variable(0.0)
settings = {"gradients=flat": 2.0, "gradients=grouped": 2.0, "gradients=separate": 2.0}
for override, expected in [*settings.items(), ("allreduce=false", [1.0, 3.0][rank])]:
    again = distribution.join(load(["nodes=2", f"distribution.{override}"]))
    with tf.GradientTape() as tape:
        loss = weight * (1.0 + 2 * rank) + tf.reduce_sum(matrix * [[1.0, 0.0, 2.0], [3.0, 0.0, 4.0 * rank]])
    # of weight 1 and 3; of matrix its factors, the last 0 and 4
    of_weight, of_unused, of_matrix = again.tape(tape).gradient(loss, [weight, unused, matrix])
    assert float(of_weight) == expected, (override, of_weight)
    assert of_unused is None
    assert of_matrix.numpy().tolist() == [[1.0, 0.0, 2.0], [3.0, 0.0, 2.0 * expected - 2.0]], (override, of_matrix)

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            loss = weight * tf.reduce_sum(matrix)
        return again.tape(tape).gradient(loss, [weight, matrix])

    # a failed one is known by its name alone: see train/distribution/elastic.py
    graph = gradients.get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    exchanges = [node.name for node in nodes if node.op.startswith("Horovod")]
    assert all("Horovod" in name for name in exchanges), (override, exchanges)
    assert bool(exchanges) == ("gradients" in override), (override, exchanges)
joined.barrier()
joined.leave()
"""


def test_two_ranks_agree_on_what_they_exchange(tmp_path: Path):
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    launcher = (sys.executable, "-m", "train.launch.start.gloo", "--ranks", "2", "--hosts", "localhost:2", "--")
    status, output = run(*launcher, "env", "PYTHONPATH=.", sys.executable, str(script))
    assert status == 0, output
