"""Commands for before a measurement: is the machine ready, is the data complete, is the input the bottleneck."""

import argparse
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from common.printable import printable_output
from train.config.checks import reported


def tensorflow_main(
    module: str, about: str, overrides: str, work: Callable[[list[str]], int], gpu: bool = False
) -> NoReturn:
    """Call `work` with the overrides of the command line and exit with its status, as `reported` does.

    about: the module's docstring; its first line is the help. overrides: an example of them, for the help.
    work: imports TensorFlow.
    gpu: whether TensorFlow may use the GPU if the overrides have device=gpu; else it never sees one.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about.splitlines()[0])
    parser.add_argument("overrides", nargs="*", help=overrides)
    with printable_output():
        arguments = parser.parse_args()
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as on the ranks
    if not (gpu and "device=gpu" in arguments.overrides):
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    with printable_output():
        status = reported(lambda: work(arguments.overrides))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # TensorFlow's own shutdown takes a second
