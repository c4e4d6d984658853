"""What this host has, for a launcher on another one: one line of JSON."""

import argparse
import json
import shutil
import socket
from pathlib import Path

import psutil

from train.rank import environment, host, placement


def main() -> None:
    """Print the fields of train.launch.plan.hosts.Host, but for its name."""
    parser = argparse.ArgumentParser(prog="python -m train.launch.plan.host_probe", description=__doc__)
    parser.add_argument("token", type=Path, help="a file that the launcher has just made in the results folder")
    parser.add_argument("image", type=Path, nargs="?", help="the SIF that ranks will run in")
    arguments = parser.parse_args()
    image = arguments.image
    print(
        json.dumps(
            {
                "hostname": socket.gethostname(),
                "cores": len(placement.usable_cores()),
                "gpus": environment.gpus(),
                "free_bytes": psutil.virtual_memory().available,
                "cpu_model": environment.cpu_model(),
                "cpu_flags": host.cpu_flags(),
                "sees_results": arguments.token.exists(),
                "has_image": image is None or image.is_file(),
                "has_singularity": image is None or shutil.which("singularity") is not None,
            }
        )
    )


if __name__ == "__main__":
    main()
