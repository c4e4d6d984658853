"""A command that works with TensorFlow in one process, without Horovod: what stands around its work."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from train.config.schema import ConfigError


def main(module: str, about: str, overrides: str, work: Callable[[list[str]], int], gpu: bool = False) -> NoReturn:
    """Read the overrides from the command line, work, and end with its exit status; 2 where it raises ConfigError.

    Args:
        module: `python -m` this.
        about: its docstring; the first line stands in the help.
        overrides: an example of them.
        work: the overrides -> the exit status; it imports TensorFlow.
        gpu: whether TensorFlow sees the GPU where the overrides name it; else it never does.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about.splitlines()[0])
    parser.add_argument("overrides", nargs="*", help=overrides)
    arguments = parser.parse_args()
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as the ranks have it
    if not (gpu and "device=gpu" in arguments.overrides):
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    try:
        status = work(arguments.overrides)
    except ConfigError as error:
        print(error, file=sys.stderr)
        status = 2
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # taking TensorFlow apart costs a second
