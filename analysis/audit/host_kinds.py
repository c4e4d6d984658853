"""What identifies the kind of a machine, and which differences make two hosts different machines."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from analysis.finding import SEVERITIES, Severity
from analysis.thresholds import limit
from record.schema import Environment, Host

_MINOR = re.compile(r"\d+\.\d+")


class HostDifference(NamedTuple):
    """A fact that differs between two hosts."""

    severity: Severity
    one: str
    other: str


def worst(differences: Iterable[HostDifference]) -> Severity:
    """Return the severity of the worst of some differences; a note without any."""
    return min((each.severity for each in differences), key=SEVERITIES.index, default="note")


def same_minor(one: str, other: str) -> bool:
    """Return whether two versions begin with the same two numbers: they differ in a patch level or a build."""
    numbers = [_MINOR.match(version) for version in (one, other)]
    return bool(numbers[0] and numbers[1] and numbers[0][0] == numbers[1][0])


def _facts(host: Host) -> tuple[str, ...]:
    """Return the facts of which each makes another machine; "" for flags that are not recorded."""
    state = host.state
    flags = " ".join(sorted(state.cpu_flags)) if state else ""
    threads = "several threads a core" if state and state.smt else "one thread a core"
    return host.cpu_model, ", ".join(host.gpus) or "no GPU", flags, threads


def _host_differences(one: Host, other: Host, alike: bool) -> Iterator[HostDifference]:
    """Yield what differs, first the facts of which each makes another machine.

    Amounts are alike up to 2 %: kernels reserve some memory, and report clocks in other digits at each start.
    """
    for fact, other_fact in zip(_facts(one), _facts(other), strict=True):
        if fact != other_fact:
            yield HostDifference("serious", fact, other_fact)
    if _apart(one.cores, other.cores):
        yield HostDifference("note" if alike else "serious", f"{one.cores} cores", f"{other.cores} cores")
    clocks = [host.state.frequency_max_mhz for host in (one, other) if host.state and host.state.frequency_max_mhz]
    if len(clocks) == 2 and _apart(*clocks):
        yield HostDifference("warning", f"{clocks[0]:.0f} MHz", f"{clocks[1]:.0f} MHz")
    if one.kernel != other.kernel:
        severity: Severity = "note" if same_minor(one.kernel, other.kernel) else "warning"
        yield HostDifference(severity, f"kernel {one.kernel}", f"kernel {other.kernel}")
    if _apart(one.memory_bytes, other.memory_bytes):
        yield HostDifference("note", *(f"{host.memory_bytes / 2**30:.1f} GiB" for host in (one, other)))


def _apart(one: float, other: float) -> bool:
    return abs(one - other) > limit("one_machine") * max(one, other)


Machine = tuple[Host, ...]  # a host of each kind of a job; empty: not recorded


def kinds(environment: Environment | None, notes: bool = False, alike: bool = False) -> Machine:
    """Return a host of each kind of a job, in a fixed order.

    notes: a difference that is a note makes another kind. alike: as for `differences`.
    """
    distinct: list[Host] = []
    hosts = environment.hosts if environment else []
    for host in sorted(hosts, key=lambda host: (_facts(host), host.cores, host.memory_bytes, host.kernel)):
        between = [differences((host,), (other,), alike) for other in distinct]
        if all(each and (notes or worst(each) != "note") for each in between):
            distinct.append(host)
    return tuple(distinct)


def differences(one: Machine, other: Machine, alike: bool = False) -> list[HostDifference]:
    """Return what differs between the machines of two jobs.

    alike: each rank is bound to as many cores, so that more cores of a host are a note.
    """
    if len(one) != len(other):
        return [HostDifference("serious", *(f"{len(each) or 'unknown'} kinds of hosts" for each in (one, other)))]
    pairs = zip(one, other, strict=True)
    return [each for host, other_host in pairs for each in _host_differences(host, other_host, alike)]
