"""What identifies the kind of a machine, and which differences make two hosts different machines."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from analysis.finding import SEVERITIES, Severity
from analysis.thresholds import limit
from train.record.record import Environment, Host

_MINOR = re.compile(r"\d+\.\d+")


class Difference(NamedTuple):
    """A fact that differs between two hosts, or two programs."""

    severity: Severity
    one: str
    other: str


def worst(differences: Iterable[Difference]) -> Severity:
    """Return the severity of the worst of some differences; a note without any."""
    return min((each.severity for each in differences), key=SEVERITIES.index, default="note")


def same_minor(one: str, other: str) -> bool:
    """Return whether two versions begin with the same two numbers: they differ in a patch level or a build."""
    numbers = [_MINOR.match(version) for version in (one, other)]
    return bool(numbers[0] and numbers[1] and numbers[0][0] == numbers[1][0])


@dataclass(frozen=True)
class Hardware:
    """The hardware and the kernel of a host; None for what is not recorded."""

    cpu_model: str
    gpus: str
    cpu_flags: str
    smt: bool
    cores: int  # that the job may use
    clock_mhz: float | None  # the highest
    memory_bytes: int
    kernel: str

    def differences(self, other: "Hardware") -> Iterator[Difference]:
        """Yield what differs, first the facts of which each makes another machine.

        Amounts are alike up to 2 %: kernels reserve some memory, and report clocks in other digits at each start.
        """
        exact = [
            (self.cpu_model, other.cpu_model),
            (self.gpus or "no GPU", other.gpus or "no GPU"),
            (self.cpu_flags, other.cpu_flags),
            ("several threads a core" if self.smt else "one thread a core",
             "several threads a core" if other.smt else "one thread a core"),
        ]  # fmt: skip
        yield from (Difference("serious", mine, theirs) for mine, theirs in exact if mine != theirs)
        if _apart(self.cores, other.cores):
            yield Difference("serious", f"{self.cores} cores", f"{other.cores} cores")
        if self.clock_mhz and other.clock_mhz and _apart(self.clock_mhz, other.clock_mhz):
            yield Difference("warning", f"{self.clock_mhz:.0f} MHz", f"{other.clock_mhz:.0f} MHz")
        if self.kernel != other.kernel:
            severity: Severity = "note" if same_minor(self.kernel, other.kernel) else "warning"
            yield Difference(severity, f"kernel {self.kernel}", f"kernel {other.kernel}")
        if _apart(self.memory_bytes, other.memory_bytes):
            yield Difference("note", *(f"{each.memory_bytes / 2**30:.1f} GiB" for each in (self, other)))


def _apart(one: float, other: float) -> bool:
    return abs(one - other) > limit("one_machine") * max(one, other)


def hardware(host: Host) -> Hardware:
    """Return the hardware and kernel of a host."""
    state = host.state
    return Hardware(
        host.cpu_model,
        ", ".join(host.gpus),
        " ".join(sorted(state.cpu_flags)) if state else "",
        bool(state and state.smt),
        host.cores,
        state.frequency_max_mhz if state else None,
        host.memory_bytes,
        host.kernel,
    )


Machine = tuple[Hardware, ...]  # the kinds of hosts of a job; empty: not recorded


def kinds(environment: Environment | None) -> Machine:
    """Return the kinds of hosts of a job, each once, in a fixed order."""
    distinct: list[Hardware] = []
    for each in sorted(map(hardware, environment.hosts if environment else []), key=repr):
        if not any(alike((each,), (known,)) for known in distinct):
            distinct.append(each)
    return tuple(distinct)


def differences(one: Machine, other: Machine) -> list[Difference]:
    """Return what differs between the machines of two jobs."""
    if len(one) != len(other):
        return [Difference("serious", *(f"{len(each) or 'unknown'} kinds of hosts" for each in (one, other)))]
    return [each for mine, theirs in zip(one, other, strict=True) for each in mine.differences(theirs)]


def alike(one: Machine, other: Machine) -> bool:
    """Return whether nothing differs between the machines of two jobs."""
    return not differences(one, other)
