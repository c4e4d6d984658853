"""How many files and connections this process may have open: as many as so many ranks need."""

from __future__ import annotations

import resource

# Horovod's launcher has five pipes and sockets for each rank; Gloo connects each rank with every other one.
_PER_RANK = 8
_BESIDE = 512


def allow_for(ranks: int) -> None:
    """Raise the limit for a process that serves or joins so many ranks, up to what the system allows (`ulimit -Hn`).

    Most systems begin with 1,024, which is too few from some hundred ranks on. It is not raised further than needed:
    some programs, as Open MPI's, close every number that could be open before they start another one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _BESIDE + _PER_RANK * ranks
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
