import subprocess
import sys

import pytest

from tests.helpers import ROOT

RANK = """
import os, sys
from pathlib import Path
import train.__main__
assert "hydra" not in sys.modules  # its configuration comes from the launcher
from train.config.compose import load
from train import worker
config = load(["nodes=1", "distribution=none", "distribution.onednn=tensorflow"])
worker.start_tensorflow(config, 0, 1, Path("."), None)
assert "TF_ENABLE_ONEDNN_OPTS" not in os.environ
print(*{name.partition(".")[0] for name in sys.modules} & {"pandas", "scipy", "tensorflow", "tf_keras"})
import scipy.stats
"""


@pytest.mark.slow
def test_a_rank_loads_neither_hydra_nor_the_parts_of_tensorflow_that_no_model_needs():
    result = subprocess.run([sys.executable, "-c", RANK], capture_output=True, text=True, cwd=ROOT, check=True)
    assert set(result.stdout.split()) == {"tensorflow", "tf_keras"}
