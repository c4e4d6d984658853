"""A user's own command, and its placeholders."""

import re
import shlex
from collections.abc import Mapping, Sequence

# Placeholder -> its meaning. A command has them in braces.
PLACEHOLDERS = {
    "ranks": "processes of the whole job",
    "nodes": "nodes of the job",
    "ranks_per_node": "processes of a node",
    "hosts": "hosts with their processes, as horovodrun -H and mpirun -H take them: a:2,b:2",
    "host_names": "hosts alone: a,b",
    "threads": "cores of a process",
    "batch_per_rank": "images of a process in a step",
    "global_batch": "images of all processes in a step",
    "seed": "another for each launch",
}
_BRACES = re.compile(r"\{([a-z_]+)\}")


def command_problem(command: str) -> str:
    """Return why a command cannot be started; "" if it can."""
    try:
        argv = shlex.split(command)
    except ValueError as error:
        return f"{error}; it is split into words as a shell does"
    if not argv:
        return "give a command: make scaling COMMAND=..."
    unknown = sorted(set(_BRACES.findall(command)) - PLACEHOLDERS.keys())
    allowed = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    return f"no placeholder: {', '.join(unknown)}; allowed are {allowed}" if unknown else ""


def rate_problem(rate: str | None) -> str:
    """Return why an expression cannot find a rate; "" if it can, or there is none."""
    try:
        expression = re.compile("()" if rate is None else rate)
    except re.error as error:
        return f"not a regular expression: {error}"
    return "" if expression.groups else "its first group must be the rate, as RATE='rate: ([0-9.]+)'"


def filled(command: str, values: Mapping[str, object]) -> list[str]:
    """Return the argv of a command with its placeholders filled; no shell reads it."""
    return [_BRACES.sub(lambda match: str(values[match[1]]), word) for word in shlex.split(command)]


def host_slots(hosts: Sequence[str], ranks_per_node: int) -> str:
    """Return hosts with their processes: a:2,b:2, or localhost:4 if nodes share this machine."""
    counts: dict[str, int] = {}
    for host in hosts:
        counts[host] = counts.get(host, 0) + ranks_per_node
    return ",".join(f"{host}:{count}" for host, count in counts.items())
