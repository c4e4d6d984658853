"""The failure of a run, with rank and phase: from the parts of its ranks, and from the output of their launcher.

A rank that raised an error reported it in its part, with phase and step. Only the output of the launcher shows which
rank ended first, and the exit status of a killed rank.
"""

import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from common.grouping import grouped
from record import protocol
from record.parts import RankPart, first_failure
from record.schema import Failure
from train.launch.job import Exchange, Job, JobOutcome
from train.launch.launchers.base import Launcher
from train.launch.start import gloo_output, rank_groups
from train.rank.host import folded

STRAY = "another process connected to Gloo's port before a rank could"
# An error of Python in the output of a launcher.
_RAISED = re.compile(r"^(?!RuntimeError: Horovod detected)[\w.]*(?:Error|Exception|error)\b.*", re.MULTILINE)
_MAX_CHARACTERS = 300  # of a program's output

_HINTS = {
    "SIGKILL": "; the kernel does so when memory runs out: see `dmesg`",
    "SIGSEGV": "; Horovod's Gloo crashes so where a host cannot resolve its own name: see `make doctor`",
}


End = tuple[int, int]  # of a rank: its number and exit status


def run_failure(
    job: Job, launcher: Launcher, outcome: JobOutcome, parts: Sequence[RankPart], timeout_s: float
) -> Failure | None:
    """Return why the run did not complete; None if every rank finished its work.

    parts: of its ranks, by rank. timeout_s: the time after which a run is ended.
    """
    unfinished = sorted(set(range(job.ranks)) - {p.rank for p in parts if p.finished})
    if outcome.exit_code == 0 and not unfinished:
        return None
    if outcome.ended_by:
        return _ended_from_outside(job, launcher, outcome, parts, timeout_s)
    first = _first_to_end(job, launcher, outcome, parts)
    reports = {part.rank: part.failure for part in parts if part.failure}
    cause = first_failure(list(parts))  # a consequence only if no rank reported what caused it
    if first and first[0] in reports and cause and cause.consequence:
        first = _first_unreported(outcome.output, parts) or first
        if unresponsive := _unresponsive(job, parts):
            return unresponsive
    reported = reports.get(first[0]) if first else cause  # if the first to end reported nothing, it was killed
    if reported and reported.consequence:
        reported = cause
    if reported:
        code = first[1] if first and first[0] == reported.rank else None
        return replace(reported, exit_code=code, log=str(protocol.rank_log(job.folder, reported.rank or 0)))
    if first:
        return _unreported(job, launcher, parts, first, outcome.output)
    raised = _RAISED.findall(outcome.output)
    why = f" ({raised[-1][:_MAX_CHARACTERS]})" if raised else ""
    return Failure(
        reason=f"the launcher ended with exit status {outcome.exit_code}{why}; ranks that did not finish: {unfinished}",
        exit_code=outcome.exit_code,
        log=str(protocol.launcher_log(job.folder)),
    )


def _ended_from_outside(
    job: Job, launcher: Launcher, outcome: JobOutcome, parts: Sequence[RankPart], timeout_s: float
) -> Failure:
    phase, log = parts[0].phase if parts else None, str(protocol.launcher_log(job.folder))
    if outcome.ended_by == "timeout":
        reason = f"ended after launcher.timeout_s={timeout_s:.0f} s; set a longer one"
        return Failure(reason=f"{reason}{_where(job, parts)}", phase=phase, log=log)
    if lost := launcher.failed_host(outcome.output):
        part = next((part for part in parts if part.host == lost), None)
        reason = f"node {lost} failed: the batch system gave it up and ended the job by {outcome.ended_by}"
        return Failure(reason, part.rank if part else None, lost, part.phase if part else phase, log=log)
    if unresponsive := _unresponsive(job, parts):
        return replace(unresponsive, reason=f"{unresponsive.reason}, until {outcome.ended_by} ended the job")
    cancelled = launcher.cancellation(outcome.output)
    by_system = f" ({launcher.name}: {cancelled})" if cancelled else ""
    return Failure(f"interrupted by {outcome.ended_by}{by_system}{_where(job, parts)}", phase=phase)


def _where(job: Job, parts: Sequence[RankPart]) -> str:
    """Return which ranks were on which hosts in which phase, if there were several hosts."""
    if set(job.nodes.hosts) == {"localhost"}:
        return ""
    groups = grouped(parts, lambda part: "finished" if part.finished else f"in phase {part.phase}")
    texts = (f"{_ranks(group)} on {folded(part.host for part in group)} {phase}" for phase, group in groups.items())
    return "".join(f"; {text}" for text in texts)


def _ranks(parts: Sequence[RankPart]) -> str:
    numbers = sorted(part.rank for part in parts)
    return f"rank{'s' * (len(numbers) > 1)} {folded(map(str, numbers)).strip('[]')}"


def _first_to_end(job: Job, launcher: Launcher, outcome: JobOutcome, parts: Sequence[RankPart]) -> End | None:
    """Return the rank that ended first, and its exit status; not one whose failure is a consequence, if possible."""
    if not job.groups:
        return _first_of_command(launcher, job.exchange, outcome.exit_code, outcome.output)
    victims = {part.rank for part in parts if part.failure and part.failure.consequence}
    ended_first = []
    for number, code, output in rank_groups.failed(outcome.output):
        group = job.groups[number]
        if first := _first_of_command(launcher, group.exchange, code, output):
            ended_first.append((group.first_rank + first[0], first[1]))
    return next((first for first in ended_first if first[0] not in victims), ended_first[0] if ended_first else None)


def _first_of_command(launcher: Launcher, exchange: Exchange, code: int, output: str) -> End | None:
    """Return the first rank of one command to end, and its exit status."""
    if first := launcher.first_to_end(output):
        return first
    if exchange.controller != "none" or code == 0:
        return None
    return 0, code if code > 0 else 128 - code  # one rank without a launcher


def _first_unreported(output: str, parts: Sequence[RankPart]) -> End | None:
    """Return the first rank that ended by itself and reported nothing, and its exit status.

    The end of a killed rank may be reported after that of ranks that lost it. A rank that Horovod's launcher killed,
    because it ignored SIGTERM for five seconds, comes even later; for one that hangs, see `_unresponsive`.
    """
    reported = {part.rank for part in parts if part.finished or part.failure}
    return next((end for end in gloo_output.ended_by_themselves(output) if end[0] not in reported), None)


def _unresponsive(job: Job, parts: Sequence[RankPart]) -> Failure | None:
    """Return the failure of ranks that reported nothing while others waited in vain; None if there are none."""
    logs = [protocol.rank_log(job.folder, part.rank) for part in parts if part.failure]  # into which Gloo writes
    waited = any(gloo_output.WAIT_TIMED_OUT.search(log.read_text(errors="replace")) for log in logs if log.exists())
    silent = [part for part in parts if not (part.failure or part.finished)]
    if not (waited and silent):
        return None
    named = ", ".join(f"rank {part.rank} ({part.host})" for part in silent)
    return Failure(
        reason=f"{named} stopped answering: it stood still, or its host or link did. The others waited in vain",
        rank=silent[0].rank,
        host=silent[0].host,
        phase=silent[0].phase,
        log=str(protocol.rank_log(job.folder, silent[0].rank)),
    )


def _unreported(job: Job, launcher: Launcher, parts: Sequence[RankPart], first: End, output: str) -> Failure:
    rank, code = first
    log = protocol.rank_log(job.folder, rank)
    part = next((part for part in parts if part.rank == rank), None)
    reason = launcher.explain_exit(code)
    if reason and (lines := gloo_output.forwarded_lines(rank, output)):  # by ssh: why it lost the rank
        reason += f"; it printed last: {lines[-1][:_MAX_CHARACTERS]}"
    text = log.read_text(errors="replace") if part and part.phase == "init" and log.exists() else ""
    if not_joined := gloo_output.NOT_JOINED.search(text):
        reason = (
            f"{STRAY}, a scanner of ports or another user, or another rank ended or hangs (Gloo: "
            f"{not_joined[1][:_MAX_CHARACTERS]}). A private network keeps strangers away: docs/security.md"
        )
    return Failure(
        reason=reason or _exit_text(code, _last_line(log, rank, output)),
        rank=rank,
        host=part.host if part else job.host_of(rank),
        phase=part.phase if part else None,
        exit_code=code,
        log=str(log if log.exists() else protocol.launcher_log(job.folder)),
    )


def _last_line(log: Path, rank: int, output: str) -> str:
    """Return the last line of a rank's output, or why it was not started; "" if neither is known.

    log: of the rank; it does not exist if the rank failed before it made one. output: of the launcher.
    """
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    lines = lines or gloo_output.forwarded_lines(rank, output)
    lines = lines or [match["text"] for match in gloo_output.NOT_STARTED.finditer(output)]
    return next((line.strip()[:_MAX_CHARACTERS] for line in reversed(lines) if line.strip()), "")


def _exit_text(code: int, last_line: str) -> str:
    """Return an exit status as text. last_line: of the rank's output, which shows why it ended itself."""
    last = f"; it printed last: {last_line}" if last_line else ""
    if code > 128 and code - 128 in signal.valid_signals():
        name = signal.Signals(code - 128).name
        return f"killed by {name}{_HINTS.get(name, '')}{last if name == 'SIGABRT' else ''}"
    return f"ended with exit status {code}{last or ' without a message'}"
