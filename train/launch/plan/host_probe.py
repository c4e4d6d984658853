"""What this host is, for a launcher on another one: one line of JSON."""

import argparse
import json
import shutil
import socket
from pathlib import Path

import psutil

from train.rank import environment, placement


def main() -> None:
    """Print what train/launch/plan/hosts.py asks for."""
    parser = argparse.ArgumentParser(prog="python -m train.launch.plan.host_probe", description=__doc__)
    parser.add_argument("token", type=Path, help="a file that the launcher has just made in the results folder")
    parser.add_argument("image", type=Path, nargs="?", help="the SIF that ranks will run in")
    asked = parser.parse_args()
    print(
        json.dumps(
            {
                "hostname": socket.gethostname(),
                "cores": len(placement.usable_cores()),
                "gpus": environment.gpus(),
                "free_bytes": psutil.virtual_memory().available,
                "cpu_model": environment.cpu_model(),
                "sees_results": asked.token.exists(),
                "has_image": asked.image is None or asked.image.is_file(),
                "has_singularity": asked.image is None or shutil.which("singularity") is not None,
            }
        )
    )


if __name__ == "__main__":
    main()
