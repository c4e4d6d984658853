"""What Horovod's Gloo launcher and Open MPI's mpirun print of ranks that ended, and Gloo in the log of a rank."""

import re
import signal

_GLOO = re.compile(r"first process to do so was:\s*Process name: (?P<rank>\d+)\s*Exit code: (?P<code>\d+)")
_MPI_SIGNAL = re.compile(r"mpirun noticed that process rank (?P<rank>\d+) .* exited on signal (?P<signal>\d+)")
_MPI_EXIT = re.compile(r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]\s*Exit code:\s*(?P<code>\d+)")
# Horovod's Gloo launcher reports each rank that failed so; the statuses below are those of ranks that it ended itself.
_GLOO_EACH = re.compile(r"Process (?P<rank>\d+) exit with status code (?P<code>-?\d+)\.")
_ENDED_BY_GLOO = (-signal.SIGTERM, 128 + signal.SIGTERM)
# The output of a rank through Horovod's launcher before it had a log, and why the launcher could not start it.
_GLOO_PRINTED = re.compile(r"^\[(?P<rank>\d+)\]<stderr>:(?P<text>.*\S)", re.MULTILINE)
NOT_STARTED = re.compile(r"exception message: (?P<text>.+)")
RAISED = re.compile(r"^(?!RuntimeError: Horovod detected)[\w.]*(?:Error|Exception|error)\b.*", re.MULTILINE)
WAIT_TIMED_OUT = re.compile("Timed out waiting")  # Gloo, for a rank that is connected and sends nothing
# Gloo's port for a peer takes one connection: if a stranger comes first, ranks are refused, cut off, or wait in vain.
NOT_JOINED = re.compile(r"gloo/transport/tcp/\w+\.cc:\d+\] (.+)")


def first_to_end(output: str) -> tuple[int, int] | None:
    """Return the rank that ended first, and its exit status as in a shell (128 + signal); None if it is not named."""
    for pattern in (_GLOO, _MPI_SIGNAL, _MPI_EXIT):
        if match := pattern.search(output):
            groups = match.groupdict()
            return int(groups["rank"]), int(groups.get("code") or 128 + int(groups["signal"]))
    return None


def ended_by_themselves(output: str) -> list[tuple[int, int]]:
    """Return the ranks that Horovod's launcher reports and did not end itself, in order, with their exit statuses."""
    ends = ((int(match["rank"]), int(match["code"])) for match in _GLOO_EACH.finditer(output))
    return [(rank, code if code > 0 else 128 - code) for rank, code in ends if code not in _ENDED_BY_GLOO]


def forwarded_lines(rank: int, output: str) -> list[str]:
    """Return the lines that Horovod's launcher forwarded from a rank or its ssh."""
    return [match["text"] for match in _GLOO_PRINTED.finditer(output) if int(match["rank"]) == rank]
