"""W&B runs that mirror records: written while a run is in progress, or from its finished record, and uploaded later.

A run that is watched is written by a separate process, which reads the files of the ranks in the run folder. Neither
ranks nor launcher wait for it: a slow or missing W&B, disk or network does not affect the measurement. When the record
exists, the process completes the W&B run. All other runs are mirrored, offline, after all points of an experiment have
been measured, never while a job runs. So are those that could not be completed, again under the same ID. Apart from
watched runs, only the upload needs a W&B server.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from record import protocol, this_kit
from record.parts import RankPart
from record.progress import Follower, launched_at
from record.schema import RECORD_NAME, RunRecord, find, load
from train.config.identity import rebuild, resolved
from train.config.run_config import RunConfig
from train.config.tracking_config import TrackingConfig
from train.tracking import wandb_runs

_READ_EVERY_S = 2.0
_NICE = 19  # the cores belong to the ranks
_LOG_NAME = "tracking.log"
_WENT_OFFLINE = 3  # exit status

# Without a network wandb would retry for minutes. The user's environment overrides these, and the folder of its log, by
# default wandb/ in the working folder.
_UPLOAD_LIMITS = {
    "WANDB_X_GRAPHQL_RETRY_MAX": "3",
    "WANDB_X_GRAPHQL_RETRY_WAIT_MAX_SECONDS": "4",
    "WANDB_X_FILE_STREAM_RETRY_MAX": "5",
    "WANDB_X_FILE_TRANSFER_RETRY_MAX": "5",
}


def is_live(tracking: TrackingConfig, epochs: int) -> bool:
    """Return whether a run is to be logged while it trains."""
    return tracking.name == "wandb" and (bool(epochs) if tracking.live is None else tracking.live)


class Logged:
    """The rows that a W&B run has, and those that are new."""

    def __init__(self) -> None:
        """Begin without any."""
        self._epochs, self._time_s, self._phase = 0, -1, ""

    def new_rows(self, parts: list[RankPart]) -> list[wandb_runs.Row]:
        """Return rows since the last call: epochs that have ended, and seconds that every rank has sampled."""
        epochs = wandb_runs.epoch_rows(parts[0].epochs[self._epochs :])
        usages = [part.usage for part in parts]
        sampled_s = min((usage.at_s[-1] if usage else 0.0 for usage in usages), default=0.0)
        seconds = [row for row in wandb_runs.usage_rows(parts) if self._time_s < row["usage/time_s"] < int(sampled_s)]
        self._epochs += len(epochs)
        self._time_s = max([self._time_s, *(row["usage/time_s"] for row in seconds)])
        return epochs + seconds

    def new_summary(self, parts: list[RankPart]) -> dict[str, Any]:
        """Return the phase of rank 0, and how long each phase took so far; empty if the phase is the same as before."""
        if parts[0].phase == self._phase:
            return {}
        self._phase = parts[0].phase
        return {"status": "running", "phase": self._phase, **wandb_runs.phases([part.phases_s for part in parts])}

    def missing_rows(self, record: RunRecord) -> list[wandb_runs.Row]:
        """Return the rows of the record that the run does not have."""
        epochs = wandb_runs.epoch_rows(record.epochs[self._epochs :])
        seconds = [row for row in wandb_runs.usage_rows(record.ranks) if row["usage/time_s"] > self._time_s]
        return wandb_runs.round_rows(record) + wandb_runs.step_rows(record) + epochs + seconds


def follow(folder: Path) -> int:
    """Log the run in this folder until it ends; returns the exit status: 0 if its W&B run is complete.

    Also ends when the launcher, which started this process, is gone: then there will be no record.
    """
    os.nice(_NICE)
    launcher, path = os.getppid(), folder / RECORD_NAME
    config, follower, logged = rebuild(protocol.read_assignment(folder).config), Follower(folder), Logged()
    with wandb_runs.wandb_module(wandb_runs.home(folder)) as wandb:
        run, online = _begin(wandb, _run_name(folder, config), folder, config.tracking)
        while not path.exists():
            if os.getppid() != launcher:
                run.finish(exit_code=1)
                return 1
            with suppress(OSError):  # a shared folder may be unavailable for a while
                _log_new(run, logged, follower.parts())
            time.sleep(_READ_EVERY_S)
        record = load(path)
        wandb_runs.update(run, wandb_runs.run_name(record, folder, config.tracking))
        run.summary.update({"phase": "exit"})
        wandb_runs.complete(wandb, run, record, path, logged.missing_rows(record))
    if online and (file := wandb_runs.run_file(path)):
        wandb_runs.synced_marker(file).touch()
    return 0 if online or config.tracking.mode == "offline" else _WENT_OFFLINE


def _run_name(folder: Path, config: RunConfig) -> wandb_runs.RunName:
    """Return the ID, labels and configuration of a run before it has a record."""
    return wandb_runs.RunName(
        id=wandb_runs.begin_live(folder),
        config=resolved(config),
        host=socket.gethostname(),
        tags=tuple(config.tracking.tags),
        notes=config.tracking.notes or "",
        commit=this_kit.commit()[0],
    )


def _begin(wandb: Any, name: wandb_runs.RunName, folder: Path, tracking: TrackingConfig) -> tuple[Any, bool]:
    """Return the run, and whether it is online; it is offline if the server does not answer."""
    if tracking.mode == "online":
        try:
            return wandb_runs.begin(wandb, name, folder, tracking, mode="online"), True
        except wandb.Error as error:
            print(f"not online: {error}", file=sys.stderr, flush=True)
    return wandb_runs.begin(wandb, name, folder, tracking, mode="offline"), False


def _log_new(run: Any, logged: Logged, parts: list[RankPart]) -> None:
    if not parts:
        return
    for row in logged.new_rows(parts):
        run.log(row)
    if new := logged.new_summary(parts):
        run.summary.update({**new, "launched_at": launched_at(parts[0])})


class Watchers:
    """The processes that log the runs of an experiment while they are in progress."""

    def __init__(self, timeout_s: float = 30.0) -> None:
        """Start none yet. timeout_s: how long to wait for them when all is measured."""
        self._timeout_s = timeout_s
        self.running: dict[Path, subprocess.Popen] = {}

    def watch(self, folder: Path, assignment: protocol.Assignment) -> Callable[[], None]:
        """Start to log a run that begins now, if configured; returns a function that does nothing.

        If the process cannot be started, the run is mirrored from its record as any other.
        """
        tracking = TrackingConfig(**assignment.config["tracking"])
        if is_live(tracking, assignment.config["measure"]["epochs"]):
            command = [sys.executable, "-m", "train.tracking", "live", str(folder.resolve())]
            with suppress(OSError), (folder / _LOG_NAME).open("wb") as log:
                # In a separate session: Ctrl-C is for the launcher, and this process waits for its record.
                self.running[folder] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                )
        return lambda: None

    def finish(self) -> list[str]:
        """Wait for the processes; those that take too long are ended. Returns a line for each that had a problem."""
        end, problems = time.monotonic() + self._timeout_s, []
        for folder, process in self.running.items():
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with the service process of wandb
                process.wait()
                problems.append(f"{folder}: its W&B run was not complete in time; it is written from the record")
                continue
            if process.returncode == _WENT_OFFLINE:
                problems.append(f"{folder}: W&B did not answer ({folder / _LOG_NAME}); `make wandb-sync` uploads later")
            elif process.returncode:
                problems.append(f"{folder}: not logged while it trained: see {folder / _LOG_NAME}")
        self.running.clear()
        return problems


def mirror_records(record_paths: Sequence[Path], tracking: TrackingConfig) -> list[str]:
    """Write an offline run of each record that has no complete one yet into `results/<experiment>/wandb/`.

    Returns a line for each that failed. A failure does not affect the measurement: the others are still mirrored, no
    record is changed, and the next call tries again. To be called after all points are measured, from one process.
    """
    waiting = [path.resolve() for path in record_paths if not wandb_runs.is_complete(path.parent)]
    if not waiting or tracking.name == "none":
        return []
    failures = []
    with wandb_runs.wandb_module(wandb_runs.home(waiting[0].parent)) as wandb:
        for path in waiting:
            try:
                record = load(path)
                name = wandb_runs.run_name(record, path.parent, tracking)
                run = wandb_runs.begin(wandb, name, path.parent, tracking, mode="offline")
                wandb_runs.complete(wandb, run, record, path, Logged().missing_rows(record))
            except Exception as error:  # whatever W&B raises, the other records are mirrored
                failures.append(f"{path}: not mirrored to W&B: {error}")
    return failures


class UploadError(Exception):
    """Some runs were not uploaded: the message has their number and folder, and what to do."""


def upload_runs(results: Path) -> int:
    """Upload every mirror below the folder `results` that is not uploaded yet; returns how many.

    Raises UploadError if a mirror was not uploaded.
    """
    waiting = [file for path in find(results) if (file := wandb_runs.run_file(path)) and not wandb_runs.is_synced(file)]
    if not waiting:
        return 0
    command = [sys.executable, "-m", "wandb", "sync", "-n", "16", *map(str, waiting)]
    environment = {"WANDB_ERROR_REPORTING": "false", "WANDB_DIR": str(results), **_UPLOAD_LIMITS, **os.environ}
    # Without a terminal wandb reports a missing API key; with one it would wait for input.
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
    # wandb's exit status is 0 also without a network.
    remaining = [file for file in waiting if not wandb_runs.is_synced(file)]
    if remaining:
        raise UploadError(
            f"{len(remaining)} of {len(waiting)} W&B runs were not uploaded (wandb says why above); nothing is lost, "
            f"the first is in {remaining[0].parent}. Log in with `wandb login` or set WANDB_API_KEY, check that this "
            f"machine reaches {environment.get('WANDB_BASE_URL', 'the W&B server')}, and run `make wandb-sync` again"
        )
    return len(waiting)
