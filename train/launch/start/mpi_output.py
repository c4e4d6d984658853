"""What Open MPI's mpirun prints of ranks that ended."""

import re

_SIGNAL = re.compile(r"mpirun noticed that process rank (?P<rank>\d+) .* exited on signal (?P<signal>\d+)")
_EXIT = re.compile(r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]\s*Exit code:\s*(?P<code>\d+)")
# Its own words on a process that failed, between lines of dashes, after the error of the process itself.
_OWN = re.compile(r"^-{60,}\n(?:mpirun|Primary job) .*?^-{60,}\n?", re.M | re.S)


def first_to_end(output: str) -> tuple[int, int] | None:
    """Return the rank that ended first, and its exit status as in a shell (128 + signal); None if it is not named."""
    if match := _SIGNAL.search(output):
        return int(match["rank"]), 128 + int(match["signal"])
    match = _EXIT.search(output)
    return (int(match["rank"]), int(match["code"])) if match else None


def rank_output(log: str) -> str:
    """Return the lines of a log that mpirun did not print itself; the whole log if there are none."""
    return _OWN.sub("", log) or log
