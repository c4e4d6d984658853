"""One rank of one run: configure, join the others, build, measure, record.

`python -m train.launch` starts it on every rank, with the run folder that holds its task. By hand it works the same
under horovodrun, mpirun or srun:

    horovodrun -np 2 python -m train experiment=weak_scaling model=resnet50 nodes=2
"""

import time

FIRST_LINE_AT = time.time()

import argparse  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import NoReturn  # noqa: E402

from record import protocol  # noqa: E402
from record.parts import PartWriter, RankPart  # noqa: E402
from record.schema import Failure  # noqa: E402
from train import task  # noqa: E402
from train.config.checks import ConfigError  # noqa: E402
from train.rank import placement, process  # noqa: E402
from train.rank.phases import PhaseClock  # noqa: E402
from train.standalone import Standalone  # noqa: E402
from train.transport import PeerLost, RankUnresponsive  # noqa: E402
from train.worker import Worker  # noqa: E402


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="python -m train", description=__doc__.splitlines()[0])
    parser.add_argument("--run-dir", type=Path, help="the run folder, from the launcher; overrides are then not used")
    parser.add_argument("overrides", nargs="*", help="by hand: Hydra overrides, as experiment=weak_scaling nodes=2")
    options = parser.parse_intermixed_args()
    if options.run_dir and options.overrides:
        parser.error(
            f"--run-dir {options.run_dir} holds the whole configuration; leave out {' '.join(options.overrides)}"
        )
    return options


def redirect_output(folder: Path, rank: int) -> None:
    """Send the output of this process to the rank's log, and end it when the launcher is gone."""
    process.end_with_launcher(os.dup(sys.stdout.fileno()))
    log = os.open(protocol.rank_log(folder, rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())


def start_part(folder: Path | None) -> PartWriter:
    """Return the writer of this rank's part, which is in the run folder if there is one."""
    rank, host = placement.global_rank(), socket.gethostname()
    path = protocol.part_path(folder, rank, host, os.getpid()) if folder else None
    return PartWriter(path, rank=rank, local_rank=placement.local_rank(), host=host, began_at=FIRST_LINE_AT)


def explain(error: Exception, part: RankPart, phase: str) -> Failure:
    """Return the failure, with rank, phase and step, and print it."""
    kind = "" if isinstance(error, ConfigError | PeerLost | RankUnresponsive) else f"{type(error).__name__}: "
    cause = error if isinstance(error, RankUnresponsive) and error.rank is not None else part  # another rank, or this
    failure = Failure(
        reason=f"{kind}{error}",
        rank=cause.rank,
        host=cause.host,
        phase=phase,
        step=getattr(error, "step", None),
        consequence=isinstance(error, PeerLost),
    )
    print(f"rank {part.rank} on {part.host} failed in phase {phase}: {failure.reason}", file=sys.stderr)
    if not isinstance(error, ConfigError):
        traceback.print_exception(error)
    return failure


def finish(part: PartWriter, clock: PhaseClock, failure: Failure | None = None) -> None:
    """Record that this rank measures no more, with the failure, if any."""
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    part.add(phases_s=clock.stop(), peak_memory_bytes=peak_bytes, failure=failure, finished=failure is None)


def end(status: int) -> NoReturn:
    """Flush the output and end this process.

    Not by sys.exit: after a failure Horovod would wait for ranks that are not coming, and after a success TensorFlow's
    own shutdown takes a second.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main(options: argparse.Namespace) -> int:
    """Run one rank; returns the exit status: 0 only if it has measured all of its task.

    Ends this process itself after a failure.
    """
    if options.run_dir:
        redirect_output(options.run_dir, placement.global_rank())
    part = start_part(options.run_dir)
    started_at = float(os.environ.get(protocol.JOB_STARTED_AT, FIRST_LINE_AT))
    clock = PhaseClock(started_at, lambda phase, seconds: part.add(phase=phase, phases_s=dict(seconds)))
    clock.enter("import", at=FIRST_LINE_AT)
    standalone = None if options.run_dir else Standalone(part, clock, options.overrides)
    try:
        rank_task = task.assigned(options.run_dir) if options.run_dir else task.composed(options.overrides)
        ranks = Worker(rank_task, part, clock, standalone).work()
    except Exception as error:
        # All within this block: its end would delete the objects of the failed frames, and TensorFlow waits without a
        # limit to delete a variable on a parameter server that no longer answers.
        finish(part, clock, explain(error, part.part, clock.phase))
        if standalone:
            standalone.failed()
        end(1)
    finish(part, clock)
    if standalone:
        standalone.complete(ranks)
    ranks.leave()
    return 0


if __name__ == "__main__":
    options = arguments()
    try:
        end(main(options))
    except BaseException:
        traceback.print_exc()
        end(1)
