"""What Horovod's Gloo launcher prints of its ranks, and what Gloo writes into the log of a rank."""

import re
import signal

_FIRST = re.compile(r"first process to do so was:\s*Process name: (?P<rank>\d+)\s*Exit code: (?P<code>\d+)")
# The launcher reports each rank that failed so; the statuses below are those of ranks that it ended itself.
_EACH = re.compile(r"Process (?P<rank>\d+) exit with status code (?P<code>-?\d+)\.")
_ENDED_BY_LAUNCHER = (-signal.SIGTERM, 128 + signal.SIGTERM)
_FORWARDED = re.compile(r"^\[(?P<rank>\d+)\]<stderr>:(?P<text>.*\S)", re.MULTILINE)  # of a rank without a log yet
NOT_STARTED = re.compile(r"exception message: (?P<text>.+)")  # why the launcher could not start a rank
WAIT_TIMED_OUT = re.compile("Timed out waiting")  # for a rank that is connected and sends nothing
# Gloo's port for a peer takes one connection: after a foreign one ranks are refused, cut off, or wait in vain.
NOT_JOINED = re.compile(r"gloo/transport/tcp/\w+\.cc:\d+\] (.+)")


def first_to_end(output: str) -> tuple[int, int] | None:
    """Return the rank that ended first, and its exit status as in a shell; None if it is not named."""
    match = _FIRST.search(output)
    return (int(match["rank"]), int(match["code"])) if match else None


def ended_by_themselves(output: str) -> list[tuple[int, int]]:
    """Return the ranks that the launcher reports and did not end itself, in order, with their exit statuses."""
    ends = ((int(match["rank"]), int(match["code"])) for match in _EACH.finditer(output))
    return [(rank, code if code > 0 else 128 - code) for rank, code in ends if code not in _ENDED_BY_LAUNCHER]


def forwarded_lines(rank: int, output: str) -> list[str]:
    """Return the lines that the launcher forwarded from a rank or its ssh."""
    return [match["text"] for match in _FORWARDED.finditer(output) if int(match["rank"]) == rank]
