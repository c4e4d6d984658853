"""A launcher whose ranks are one program, which writes the parts of all ranks and measures nothing."""

import os
import sys
import time
from pathlib import Path

from record import protocol
from record.parts import PartWriter
from train.launch.job import Job
from train.launch.launchers.base import Launcher


class WrittenRanks(Launcher):
    """Starts that program on this machine. endless: its ranks neither finish nor end."""

    name = "local"

    def __init__(self, endless: bool = False) -> None:
        self._options = ["endless"] * endless

    def command(self, job: Job) -> list[str]:
        return [sys.executable, "-m", __name__, str(job.folder), *self._options]


def write_parts(folder: Path, finished: bool) -> None:
    """Write the part of each rank, with two timed steps."""
    config, host = protocol.read_assignment(folder).config, os.uname().nodename
    for rank in range(config["nodes"] * config["ranks_per_node"]):
        path = protocol.part_path(folder, rank, host, os.getpid())
        part = PartWriter(path, rank=rank, host=host, cores=[rank], phase="timed")
        phases_s = {"start": 0.001, "warm_up": 0.002} | ({"timed": 0.005} if finished else {})
        second_s = 0.005 / config["nodes"]  # no two points measure the same times
        part.add(phases_s=phases_s, step_times_s=[0.0025, second_s], finished=finished)


if __name__ == "__main__":
    run_folder, *options = sys.argv[1:]
    write_parts(Path(run_folder), finished=not options)
    if options:
        Path(run_folder, "written").touch()
        time.sleep(600)
