"""Run Horovod's own tests in this environment, on two ranks, with each controller that it was compiled with.

    .venv/bin/python tests/helpers/horovod_tests.py FOLDER

FOLDER is a copy of Horovod's repository. pytest prints the results of each rank.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FILES = ("test_tensorflow.py", "test_tensorflow2_keras.py")
# horovodrun does not recognise the mpirun of MPICH's wheel.
_LAUNCHERS = {"gloo": ["horovodrun", "-np", "2", "--gloo"], "mpi": ["mpirun", "-np", "2"]}
# Horovod imports `keras`, which is Keras 3 where TensorFlow requires it; it works with Keras 2 only, which is tf_keras.
_RANK = """
import sys, pytest, tf_keras
sys.modules["keras"] = tf_keras
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", sys.argv[1]]))
"""
_CONTROLLERS = "import horovod.tensorflow as hvd; print(*['gloo'] * hvd.gloo_built(), *['mpi'] * hvd.mpi_built())"


def run(file: Path, controller: str) -> bool:
    """Run the tests of a file; return whether all passed on all ranks."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOROVOD_CONTROLLER": controller,
        "HOROVOD_CPU_OPERATIONS": controller,
        "TF_USE_LEGACY_KERAS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }
    print(f"{file.name}, {controller}", flush=True)
    command = [*_LAUNCHERS[controller], sys.executable, "-c", _RANK, str(file)]
    with tempfile.TemporaryDirectory() as folder:  # not the kit's: Horovod's tests have a module `common`, too
        return subprocess.run(command, env=environment, cwd=folder).returncode == 0


def main() -> int:
    """Run all; return 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="a copy of Horovod's repository, at the version that is installed")
    folder = parser.parse_args().source.absolute() / "test/parallel"
    if missing := [name for name in FILES if not (folder / name).exists()]:
        parser.error(f"{folder}: no {missing[0]}: git clone https://github.com/horovod/horovod -b v0.28.1")
    built = subprocess.run([sys.executable, "-c", _CONTROLLERS], capture_output=True, text=True, check=True).stdout
    return int(not all([run(folder / name, by) for by, name in itertools.product(built.split(), FILES)]))


if __name__ == "__main__":
    sys.exit(main())
