"""Errors that end an exchange of TensorFlow's strategies, and one process with two towers.

The towers run in a separate process, because TensorFlow's devices are set before anything else.
"""

import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.helpers import ROOT
from train import transport
from train.distribution.cluster import Peer

pytestmark = pytest.mark.slow

SECOND = SimpleNamespace(rank=1, _peers=[Peer(f"n{number}", "127.0.0.1", {"worker": 1}) for number in range(3)])
# TensorFlow puts these around the cause.
BEGIN = "Graph execution error:\n\nDetected at node CollectiveReduceV2 defined at:\n  File one\n\n"
END = "\nThe error could be from a previous operation. Restart your program to reset.\n\t [[node]]"
# TensorFlow 2.18 writes these after a worker was killed, and after a worker or the first of them fell silent.
KILLED = "Collective ops is aborted by: Connection reset by peer from remote target /job:worker/replica:0/task:1 while"
FIRST_KILLED = KILLED.replace("task:1", "task:0")
SILENT = (
    "Collective ops is aborted by: Error reported from /job:worker/task:2: Task /job:worker/replica:0/task:2 heartbeat"
)
LOST = "an exchange with the other ranks failed: Collective"
FIRST_SILENT = "Collective ops is aborted by: Deadline Exceeded RPC: /tensorflow.CoordinationService/Heartbeat"


@pytest.mark.parametrize(
    ("name", "message", "raised", "expected"),
    [
        ("UnavailableError", FIRST_KILLED, "PeerLost", r"an exchange with rank 0 \(n0\) failed: Collective"),
        ("AbortedError", "Collective ops is aborted", "PeerLost", LOST),
        # It names the rank itself, which does not show who was lost.
        ("UnavailableError", KILLED, "PeerLost", LOST),
        ("InternalError", f"{BEGIN}{SILENT}{END}", "RankUnresponsive",
         rf"^rank 2 \(n2\) does not answer: {re.escape(SILENT)}$"),
        ("DeadlineExceededError", f"{BEGIN}{FIRST_SILENT}{END}", "RankUnresponsive",
         rf"^rank 0 \(n0\) does not .*: {FIRST_SILENT}$"),
        ("InternalError", "cuDNN failed", "InternalError", "cuDNN failed"),
    ],
)  # fmt: skip
def test_a_failed_collective_is_a_peer_that_is_lost_or_silent_and_all_other_errors_stay(
    name, message, raised, expected
):
    import tensorflow as tf

    from train.distribution.strategies import MultiWorker

    kind = getattr(transport, raised, None) or getattr(tf.errors, raised)
    with pytest.raises(kind, match=expected), MultiWorker.exchanges(SECOND):
        raise getattr(tf.errors, name)(None, None, message)


TOWERS = """
import os
from pathlib import Path
from train import distribution, worker
from train.config.checks import ConfigError
from train.config.compose import load

shape = ["model=digits_plain", "dataset=digits", "batch_per_rank=null", "global_batch=8"]
shape += ["optimizer.learning_rate=0.05", "optimizer.learning_rate_scaling=none"]
config = load([*shape, "distribution=ps_cpu", "nodes=2"])
worker.start_tensorflow(config, 0, 2, Path("."), None)
import numpy as np
import tensorflow as tf
import tf_keras
from train.datasets import DATASETS
from train.distribution import Single
from train.loop.learner import Learner
from train.models import build

def learner(ranks, config):
    tf_keras.utils.set_random_seed(0)
    with ranks.scope():
        model = build(config.model.name, config.model.image_size, config.dataset.channels, config.dataset.classes)
    return Learner(config, ranks, DATASETS["digits"](config, 0), model)

os.environ["HOROVOD_SIZE"] = "2"
try:
    distribution.join(config, Path("."))
    raise AssertionError
except ConfigError as error:
    assert "ps_cpu: this is one of 2 processes. One alone computes for all 2 ranks" in str(error), error
del os.environ["HOROVOD_SIZE"]
towers = distribution.join(config, Path("."))
towers_learner = learner(towers, config)
rank_learner = learner(Single(), load([*shape, "nodes=1"]))
assert {variable.device[-5:] for variable in towers_learner.variables()} == {"CPU:0"}

images, labels = next(towers_learner.data.training(0))
assert images.shape[0] == 8
graph = towers_learner.train_step.get_concrete_function(images, labels).graph
convolutions = [node.device[-5:] for node in graph.as_graph_def().node if node.op == "Conv2DBackpropFilter"]
assert set(convolutions) == {"CPU:0", "CPU:1"} and convolutions.count("CPU:0") == len(convolutions) / 2, convolutions

for each in (rank_learner, towers_learner):
    each.train_step(images, labels)
batch = next(towers_learner.data.validation())
for a, b in zip(rank_learner.evaluation_step(*batch), towers_learner.evaluation_step(*batch)):
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
"""


def test_two_towers_make_the_steps_of_one_rank_each_with_half_of_its_batch():
    done = subprocess.run([sys.executable, "-c", TOWERS], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_step_may_take_four_times_as_long_as_any_earlier_one_and_the_first_one_minutes():
    from train.distribution.parameter_servers import step_limit_s

    assert [step_limit_s(longest_s) for longest_s in (None, 0.5, 10, 20)] == [300, 40, 40, 80]
