"""Which rank failed first, and why: from what the ranks left and what the launcher said. Pure, but for reading logs."""

from __future__ import annotations

import re
import signal

from train.launch.plan.job import Job, Outcome, host_of
from train.record import parts
from train.record.record import Failure

# What Horovod's Gloo launcher, Open MPI's mpirun and Slurm's srun say of the rank that ended first.
_GLOO = re.compile(r"first process to do so was:\s*Process name: (?P<rank>\d+)\s*Exit code: (?P<code>\d+)")
_MPI_SIGNAL = re.compile(r"mpirun noticed that process rank (?P<rank>\d+) .* exited on signal (?P<signal>\d+)")
_SRUN = re.compile(r"srun: error: \S+: task (?P<rank>\d+): (?:Exited with exit code (?P<code>\d+)|(?P<words>[A-Z].*))")
_MPI_EXIT = re.compile(r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]\s*Exit code:\s*(?P<code>\d+)")


_HINTS = {
    "SIGKILL": "; the kernel kills so when memory runs out: see `dmesg`",
    "SIGSEGV": "; Horovod's Gloo ends so where a host cannot resolve its own name: see `make doctor`",
}
_SIGNALS = {signal.strsignal(number): number for number in signal.valid_signals()}  # as srun says them: Killed


def first_to_end(output: str) -> tuple[int, int] | None:
    """The rank that the launcher saw end first, and its exit status as a shell gives it (128 + signal)."""
    for pattern in (_GLOO, _MPI_SIGNAL, _MPI_EXIT, _SRUN):
        if found := pattern.search(output):
            groups = found.groupdict()
            if "signal" in groups:
                return int(groups["rank"]), 128 + int(groups["signal"])
            return int(groups["rank"]), int(groups["code"] or 128 + _SIGNALS.get(groups["words"].strip(), 0))
    return None


def _in_words(code: int, over_ssh: bool) -> str:
    if code == 255 and over_ssh:  # ssh's own, for all that is not the command's exit
        return "killed by a signal, or its host or the link to it is gone: ssh ended with exit status 255"
    if code > 128 and code - 128 in signal.valid_signals():
        name = signal.Signals(code - 128).name
        return f"killed by {name}{_HINTS.get(name, '')}"
    return f"ended with exit status {code} before it could say why"


def find(job: Job, outcome: Outcome, left: list[parts.Part], timeout_s: float) -> Failure | None:
    """Why the run did not complete, or None where every rank finished its work."""
    ranks = parts.ranks_at_the_end(left, job.ranks)
    complete = {part.rank.rank for part in left if not part.failure} == set(range(ranks))
    if outcome.exit_code == 0 and complete:
        return None
    if outcome.ended_by == "timeout":
        return Failure(
            reason=f"ended after launcher.timeout_s={timeout_s:.0f} s; set a longer one",
            log=str(job.folder / "launcher.log"),
        )
    if outcome.ended_by:
        return Failure(reason=f"interrupted by {outcome.ended_by}")
    seen = first_to_end(outcome.output)
    if job.controller == "none":
        seen = (0, outcome.exit_code if outcome.exit_code >= 0 else 128 - outcome.exit_code)
    told = parts.first_failure([part for part in left if not seen or part.rank.rank == seen[0]])
    if told:
        told.exit_code = seen[1] if seen else None
        told.log = str(parts.log_path(job.folder, told.rank or 0))
        return told
    if seen:
        rank, code = seen
        return Failure(
            reason=_in_words(code, job.launcher == "ssh"),
            rank=rank,
            host=host_of(job, rank),
            phase=parts.last_phase(job.folder, rank),
            exit_code=code,
            log=str(parts.log_path(job.folder, rank)),
        )
    silent = sorted(set(range(ranks)) - {part.rank.rank for part in left})
    return Failure(
        reason=f"the launcher ended with exit status {outcome.exit_code}; ranks without a result: {silent}",
        exit_code=outcome.exit_code,
        log=str(job.folder / "launcher.log"),
    )
