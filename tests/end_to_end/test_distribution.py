"""Exchanges of real ranks: each rank checks its own results, and fails the job if one is wrong."""

import sys
from pathlib import Path

import pytest

from tests.helpers import mpi
from tests.helpers.kit import gloo, succeed

pytestmark = pytest.mark.end_to_end

RANK = """
from dataclasses import replace
from pathlib import Path
from train import distribution, worker
from train.config.compose import load
from record.recorded_config import RoundArm
from train.config.measure_config import LaunchPlan
from train.distribution import Single
from train.transport import tcp_group

def planned(*overrides, **plan):
    return replace(load(["nodes=3", *overrides]), launch=LaunchPlan(**plan))

def join(config):
    distribution.prepare(config, Path("."), None)
    return distribution.join(config, Path("."))

# Groups that join in turn exchange among themselves. The other ranks are in no cycle meanwhile.
config = planned(join_in_turn=True)
worker.start_tensorflow(config, 0, 1, Path("."), None)
import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from tests.train.loop.test_step import linear_model
from train.loop import step

joined = distribution.join(config, Path("."))
all_ranks = tcp_group.connect_joined(joined, lambda: b"k" * 64)
rank = joined.rank
assert all_ranks.gather(rank, int) == joined.gather(rank, int) == [0, 1, 2]

value = tf.Variable(1.0 + rank)  # 1, 2, 3
groups = {ranks: joined.group(ranks, True) for ranks in (1, 2, 3)}
sums = {ranks: tf.function(lambda group=group: group.allreduce(value, "v")) for ranks, group in groups.items()}
# Compiled once for all groups: arms of as many ranks as there may be share a step.
mean = tf.function(lambda: groups[3].exchange([value.value()], [value])[0])
without_allreduce = joined.group(3, False)
with joined.apart():
    assert not hvd.is_initialized()
    for ranks in (2, 1, 3, 2, 3, 1, 2, 2, 3):
        all_ranks.barrier()
        if rank < ranks:
            with groups[ranks].joined():
                if ranks > 1:
                    assert (hvd.size(), hvd.rank()) == (ranks, rank)
                    assert float(mean()) == {2: 1.5, 3: 2.0}[ranks]
                assert float(sums[ranks]()) == {1: 1.0, 2: 3.0, 3: 6.0}[ranks]
        assert not hvd.is_initialized()  # waiting ranks are in no cycle
    all_ranks.barrier()
    with without_allreduce.joined():
        assert float(without_allreduce.exchange([value.value()], [value])[0]) == 1.0 + rank
assert joined.sum(np.array([1.0, rank])).tolist() == [3.0, 3.0]
joined.leave()

# Steps of one compiled function exchange among the ranks of each arm.
arm = RoundArm("two", nodes=2, ranks=2, batch_per_rank=1, allreduce=True)
config = planned("optimizer.learning_rate=0.1", "optimizer.momentum=0", rounds=(arm,))
joined = join(config)
model = linear_model()
optimizer = step.make_optimizer(config.optimizer, 1, "fp32", model, None)
# The exchanges differ from rank to rank. So do the graphs, in which the same tensor has different scopes.
sizes = [(1, 2, 3), (3, 2, 1), (1, 3)][rank]
steps = step.make_train_steps(model, optimizer, [joined.group(size, True) if size > 1 else Single() for size in sizes])
# One image of class 0 with the input 1 + rank: the gradient is (1 + rank) (-1/2, 1/2). Its mean over 2 ranks is that of
# an input of 1.5, over 3 ranks that of 2.
images, labels = tf.constant([[[[1.0 + rank, 0.0]]]]), tf.constant([0])
for size, mean_input in [(3, 2.0), (2, 1.5), (1, 1.0 + rank), (3, 2.0), (2, 1.5)]:
    if size in sizes:
        model.set_weights([np.zeros((2, 2), np.float32)])
        steps[sizes.index(size)](images, labels)
        expected = [[0.05 * mean_input, -0.05 * mean_input], [0.0, 0.0]]
        np.testing.assert_allclose(model.get_weights()[0], expected, rtol=1e-6, err_msg=str(size))
joined.barrier()
joined.leave()

# The kit averages and compresses gradients.
joined = join(planned())
variables = [tf.Variable([1.0 + rank, 2.0]), tf.Variable(5.0 * rank)]
assert distribution.weights_differ(joined, variables)
joined.broadcast(variables)
assert not distribution.weights_differ(joined, variables)
assert variables[0].numpy().tolist() == [1.0, 2.0] and float(variables[1]) == 0.0

variables[0].assign([1.0, 2.0 + 4 * rank])
joined.average(variables)
np.testing.assert_allclose(variables[0], [1.0, 6.0], rtol=1e-6)

assert joined.gather("r%d" % rank, str) == ["r0", "r1", "r2"]

weight = tf.Variable(2.0)
matrix = tf.Variable([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
settings = {"gradients=flat": 3.0, "gradients=grouped": 3.0, "gradients=separate": 3.0}
for override, expected in [*settings.items(), ("allreduce=false", 1.0 + 2 * rank)]:
    again = distribution.join(load(["nodes=3", f"distribution.{override}"]), Path("."))
    with tf.GradientTape() as tape:
        loss = weight * (1.0 + 2 * rank) + tf.reduce_sum(matrix * [[1.0, 0.0, 2.0], [3.0, 0.0, 4.0 * rank]])
    # the gradients of weight are 1, 3 and 5, those of matrix its factors, the last 0, 4 and 8
    variables = [weight, matrix]
    weight_mean, matrix_mean = again.exchange(tape.gradient(loss, variables), variables)
    np.testing.assert_allclose(weight_mean, expected, rtol=1e-6, err_msg=override)
    factors = [[1.0, 0.0, 2.0], [3.0, 0.0, 2.0 * expected - 2.0]]
    np.testing.assert_allclose(matrix_mean, factors, rtol=1e-6, err_msg=override)

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            loss = weight * tf.reduce_sum(matrix)
        return again.exchange(tape.gradient(loss, variables), variables)

    # a failed exchange is recognised by its name alone: see train/distribution/horovod.py
    graph = gradients.get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    exchanges = [node.name for node in nodes if node.op.startswith("Horovod")]
    assert all("Horovod" in name for name in exchanges), (override, exchanges)
    assert bool(exchanges) == ("gradients" in override), (override, exchanges)
# fp16 has 11 bits: 1 + 2^-11 is rounded to 1
exact = 1.0 + 2.0**-11
for gradients, compression in [("flat", "none"), ("flat", "fp16"), ("grouped", "fp16"), ("separate", "fp16")]:
    settings = [f"distribution.gradients={gradients}", f"distribution.compression={compression}"]
    with tf.GradientTape() as tape:
        loss = weight * exact
    local = tape.gradient(loss, [weight])
    (mean,) = distribution.join(load(["nodes=3", *settings]), Path(".")).exchange(local, [weight])
    assert mean.dtype == tf.float32
    np.testing.assert_allclose(mean, exact if compression == "none" else 1.0, rtol=1e-6, err_msg=str(settings))
joined.barrier()
joined.leave()
"""

ADASUM = """
from pathlib import Path
from train import distribution, worker
from train.config.compose import load

config = load(
    ["nodes=2", "distribution.op=adasum", "distribution.controller=mpi", "distribution.gradients=separate"]
)
worker.start_tensorflow(config, 0, 1, Path("."), None)
import numpy as np
import tensorflow as tf

joined = distribution.join(config, Path("."))
first, second = tf.Variable([1.0, 2.0]), tf.Variable([[3.0]])
with tf.GradientTape() as tape:
    factors = [[1.0, 0.0], [2.0, 2.0]][joined.rank]
    loss = tf.reduce_sum(first * factors) + tf.reduce_sum(second * (1.0 + 3.0 * joined.rank))
variables = [first, second]
first_mean, second_mean = joined.exchange(tape.gradient(loss, variables), variables)
# Maleki et al. 2020 (2006.02924), section 3: (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b, tensor by tensor.
# a = (1, 0), b = (2, 2): a.b = 2, |a|^2 = 1, |b|^2 = 8: (1 - 1) a + (1 - 1/8) b = (1.75, 1.75).
# a = 1, b = 4: a.b = 4: (1 - 2) 1 + (1 - 1/8) 4 = 2.5, the mean, as for all gradients of the same direction.
np.testing.assert_allclose(first_mean, [1.75, 1.75], rtol=1e-6)
np.testing.assert_allclose(second_mean, [[2.5]], rtol=1e-6)
joined.barrier()
joined.leave()
"""


def on_ranks(script: Path, text: str, *launcher: str) -> None:
    """Run this program on the ranks of a launcher; assert that none of them fails."""
    script.write_text(text)
    succeed(*launcher, "env", "PYTHONPATH=.", sys.executable, str(script))


@pytest.mark.on_change_of("train/distribution/", "train/loop/", "train/transport/")
def test_three_ranks_exchange_what_they_must_in_groups_and_together(tmp_path: Path):
    on_ranks(tmp_path / "rank.py", RANK, *gloo(3))


@pytest.mark.on_change_of("train/distribution/")
def test_adasum_is_what_its_paper_says(tmp_path: Path):
    if reason := mpi.missing():
        pytest.skip(reason)
    on_ranks(tmp_path / "rank.py", ADASUM, "mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2")
