"""Run Horovod's own tests in this environment, on two ranks, with each controller that it was compiled with.

    .venv/bin/python tests/helpers/horovod_tests.py FOLDER

FOLDER is a copy of Horovod's repository. A test counts once, by its worst result on any rank. A test that skips a part
of itself, such as one for a GPU, counts as skipped.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

FILES = ("test_tensorflow.py", "test_tensorflow2_keras.py")
_RESULTS = ("failed", "skipped", "passed")  # the worst first
_RANKS = 2
# Horovod imports `keras`, which is Keras 3 where TensorFlow requires it; it works with Keras 2 only, which is tf_keras.
_RANK = """
import os, sys, pytest, tf_keras
sys.modules["keras"] = tf_keras
rank = next(os.environ[name] for name in ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK") if name in os.environ)
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", f"--junitxml={sys.argv[2]}/{rank}.xml", sys.argv[1]]))
"""
_CONTROLLERS = "import horovod.tensorflow as hvd; print(*['gloo'] * hvd.gloo_built(), *['mpi'] * hvd.mpi_built())"


def results(reports: Iterable[str]) -> Counter[str]:
    """Return how many tests failed, were skipped and passed, from the JUnit reports of all ranks."""
    worst: dict[str, str] = {}
    for report in reports:
        for case in ElementTree.fromstring(report).iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            kinds = {child.tag for child in case}
            result = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            worst[name] = min(worst.get(name, "passed"), result, key=_RESULTS.index)
    return Counter(worst.values())


def _launcher(controller: str, environment: dict[str, str]) -> list[str]:
    """Return the command that starts two ranks. `horovodrun` does not recognise the mpirun of MPICH's wheel."""
    if controller == "mpi":
        version = subprocess.run(["mpirun", "--version"], env=environment, capture_output=True, text=True).stdout
        if "HYDRA" in version:
            return ["mpirun", "-np", str(_RANKS)]
    return ["horovodrun", "-np", str(_RANKS), f"--{controller}"]


def run(file: Path, controller: str) -> Counter[str]:
    """Run the tests of a file; return how many failed, were skipped and passed. A rank without a report has failed."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOROVOD_CONTROLLER": controller,
        "HOROVOD_CPU_OPERATIONS": controller,
        "TF_USE_LEGACY_KERAS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        command = [*_launcher(controller, environment), sys.executable, "-c", _RANK, str(file), folder]
        # Not in the kit's folder: Horovod's tests have a module `common`, too.
        subprocess.run(command, env=environment, stdout=sys.stderr, cwd=folder)
        reports = [path.read_text() for path in Path(folder).glob("*.xml")]
    return results(reports) + Counter(failed=_RANKS - len(reports))


def main() -> int:
    """Print a table of results; return 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="a copy of Horovod's repository, at the version that is installed")
    source = parser.parse_args().source
    if missing := [name for name in FILES if not (source / "test/parallel" / name).exists()]:
        parser.error(
            f"{source}: no test/parallel/{missing[0]}: git clone https://github.com/horovod/horovod -b v0.28.1"
        )
    controllers = subprocess.run(
        [sys.executable, "-c", _CONTROLLERS], capture_output=True, text=True, check=True
    ).stdout.split()
    total: Counter[str] = Counter()
    print(f"{'':<28}{'':<6}" + "".join(f"{result:>9}" for result in reversed(_RESULTS)))
    for controller, name in itertools.product(controllers, FILES):
        counts = run((source / "test/parallel" / name).absolute(), controller)
        print(
            f"{name:<28}{controller:<6}" + "".join(f"{counts[result]:>9}" for result in reversed(_RESULTS)), flush=True
        )
        total += counts
    return int(total["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
