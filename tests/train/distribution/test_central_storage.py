"""One process with two towers, in a process of its own: TensorFlow's devices are set before anything else."""

import subprocess
import sys

import pytest

from tests.helpers import ROOT

pytestmark = pytest.mark.slow

TOWERS = """
import os
from pathlib import Path
from train import distribution, startup
from train.config.checks import ConfigError
from train.config.compose import load

shape = ["model=digits_plain", "dataset=digits", "batch_per_rank=null", "global_batch=8"]
shape += ["optimizer.learning_rate=0.05", "optimizer.learning_rate_scaling=none"]
config = load([*shape, "distribution=ps_cpu", "nodes=2"])
startup.start_tensorflow(config, 0, 2, Path("."), None)
import numpy as np
import tensorflow as tf
import tf_keras
from train.datasets import DATASETS
from train.distribution.base import Single
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
two = learner(towers, config)
one = learner(Single(), load([*shape, "nodes=1"]))
assert {variable.device[-5:] for variable in two.variables()} == {"CPU:0"}

images, labels = next(two.data.training(0))
assert images.shape[0] == 8
graph = two.train_step.get_concrete_function(images, labels).graph
convolutions = [node.device[-5:] for node in graph.as_graph_def().node if node.op == "Conv2DBackpropFilter"]
assert set(convolutions) == {"CPU:0", "CPU:1"} and convolutions.count("CPU:0") == len(convolutions) / 2, convolutions

before = [variable.numpy() for variable in one.model.trainable_variables]
of_one, of_two = one.data.training(0), two.data.training(0)
for _ in range(3):
    [loss, correct, _], [loss_of_two, correct_of_two, _] = one.train_step(*next(of_one)), two.train_step(*next(of_two))
    np.testing.assert_allclose(loss_of_two, loss, rtol=1e-5)
    assert float(correct) == float(correct_of_two)
after, of_towers = ([v.numpy() for v in of.model.trainable_variables] for of in (one, two))
moved, apart = (max(np.abs(a - b).max() for a, b in zip(after, others)) for others in (before, of_towers))
assert moved > 1e-3 and apart < 1e-4 * moved, (moved, apart)

batch = next(two.data.validation())
for a, b in zip(one.evaluation_step(*batch), two.evaluation_step(*batch)):
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
"""


def test_two_towers_make_the_steps_of_one_rank_each_with_half_of_its_batch():
    done = subprocess.run([sys.executable, "-c", TOWERS], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
