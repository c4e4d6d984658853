"""The record of a job that was started by hand, without a launcher: the ranks write it themselves.

Once the ranks have joined, rank 0 makes the run folder and every rank appends its part there. After a success rank 0
writes the record. After a failure the first rank that fails writes it, from all existing parts: horovodrun, mpirun and
srun then end the other ranks. Rank 0 also writes it if it is ended itself.
"""

import itertools
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from record import parts, protocol
from record import run_files as files
from record.schema import RECORD_NAME, Failure, dumps
from train.config.identity import config_hash, learning_rate, point_name, resolved, swept_values
from train.config.run_config import RunConfig
from train.distribution import Distribution
from train.rank import placement
from train.rank.phases import PhaseClock
from train.transport.rendezvous import Secret


@dataclass(frozen=True)
class AnnouncedRun:
    """The run that rank 0 announces when all ranks have joined."""

    folder: str
    identity: dict[str, Any]  # as `record.parts.assemble` takes it


def new_run(config: RunConfig, sweep: Sequence[str], overrides: Sequence[str]) -> AnnouncedRun:
    """Return the next repeat of the point of this configuration, with its folder. Raises OSError.

    sweep: the keys that the experiment sweeps.
    """
    digest, point = config_hash(config), point_name(config, sweep)
    home = files.point_folder(Path(config.results), config.experiment, point, digest)
    complete = files.completed(home)
    repeat = next(number for number in itertools.count() if number not in complete)
    folder, generation = files.new_run(home, repeat)
    Secret(protocol.secret_folder(folder)).create()
    identity = {
        "experiment": config.experiment,
        "point": point,
        "repeat": repeat,
        "generation": generation,
        "config": resolved(config),
        "config_hash": digest,
        "source_digest": files.source_digest(files.source_files()),
        "command": ["python", "-m", "train", *overrides],
        "learning_rate": learning_rate(config),
        "swept": swept_values(config, sweep, overrides),
    }
    return AnnouncedRun(str(folder.resolve()), identity)


class Standalone:
    """One rank's part in the record of a job that was started by hand."""

    def __init__(self, part: parts.PartWriter, clock: PhaseClock, overrides: Sequence[str]) -> None:
        """Write nothing yet: before the ranks have joined there is no folder."""
        self._part, self._clock, self._overrides = part, clock, overrides
        self._run: AnnouncedRun | None = None

    @property
    def folder(self) -> Path | None:
        """Return the run folder; None before the ranks have joined."""
        return Path(self._run.folder) if self._run else None

    def agree_on_folder(self, config: RunConfig, sweep: Sequence[str], distribution: Distribution) -> None:
        """Agree on the run folder, and append this rank's part there. Every rank calls this once all have joined."""
        rank = distribution.rank
        created = new_run(config, sweep, self._overrides) if rank == 0 else None
        [run, *_] = distribution.gather(created, AnnouncedRun | None)
        folder = Path(run.folder)
        folder.mkdir(parents=True, exist_ok=True)  # it exists, unless the hosts do not share it
        self._run = run
        self._part.append_to(protocol.part_path(folder, rank, self._part.part.host, os.getpid()))
        if rank == 0:
            when_ended(self._interrupted)

    def complete(self, distribution: Distribution) -> None:
        """Write the record of a run that is complete, on rank 0. Every rank calls this."""
        all_parts = distribution.gather(self._part.part, parts.RankPart)
        if distribution.rank == 0:
            self._write(all_parts, sum(all_parts[0].phases_s.values()))

    def failed(self, failure: Failure | None = None) -> None:
        """Write the record of a run that has failed, unless another rank has done so, or the ranks have never joined.

        failure: the reason, if no rank reports one.
        """
        if self._run:
            all_parts = [*parts.read_parts(Path(self._run.folder)).values()]
            first = parts.first_failure(all_parts)
            with suppress(FileExistsError):
                self._write(all_parts, self._clock.elapsed_s(), first or failure)

    def _interrupted(self, by: signal.Signals) -> None:
        """Write a record and end this process, without the main thread, which may be anywhere."""
        part = self._part.part
        reason = f"ended by {by.name}"
        if by == signal.SIGTERM:
            reason += ": another rank failed, or the job was cancelled"
        try:
            self.failed(Failure(reason=reason, rank=part.rank, host=part.host, phase=part.phase))
        finally:
            os._exit(128 + by)

    def _write(self, all_parts: Sequence[parts.RankPart], job_s: float, failure: Failure | None = None) -> None:
        """Write the record of these parts and print its path. Raises OSError, also if there is one already."""
        assert self._run
        job_end = parts.JobEnd(
            started_at=self._part.part.began_at,
            job_s=job_s,
            cores_shared=placement.shared_on_a_host((part.host, part.cores, part.workers) for part in all_parts),
            supervised=False,
            failure=failure,
        )
        record = parts.assemble(all_parts, self._run.identity, job_end)
        path = Path(self._run.folder) / RECORD_NAME
        files.write_file(path, dumps(record))
        Secret(protocol.secret_folder(path.parent)).remove()
        print(f"{path}: {record.summary or record.status}", flush=True)


def when_ended(handle: Callable[[signal.Signals], None]) -> None:
    """Call `handle`, in a thread, when a signal to end arrives: the main thread may be in TensorFlow for long.

    Python's handlers wait for the main thread; the byte that its C handler writes to the wakeup descriptor does not.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) != signal.SIG_IGN:  # ignored by nohup
            signal.signal(number, lambda *_: None)

    def wait() -> None:
        handle(signal.Signals(os.read(reading, 1)[0]))

    threading.Thread(target=wait, daemon=True).start()
