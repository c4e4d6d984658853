"""The settings and the load of this machine that can change a measurement; short lists of host names."""

import functools
import os
import re
import socket
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from common.grouping import gathered
from record.schema import GpuState, HostState
from train.rank import counters

_CPUINFO = Path("/proc/cpuinfo")
# Instruction sets for which oneDNN and Eigen have special kernels, by the names of /proc/cpuinfo.
_SPEED_FLAGS = (
    "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16",
    "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
)  # fmt: skip
BF16_FLAGS = ("avx512_bf16", "amx_bf16")  # either of them multiplies bfloat16 in hardware
_LOOPBACK_WITHIN_S = 5.0
_NUMBERED = re.compile(r"^(.*?)(\d+)(\D*)$")  # the last number of a text, with the text before and after it


def state(
    cores: Collection[int], gpus: list[GpuState], gpu_topology: str | None, kernel: Path = Path("/sys")
) -> HostState:
    """Return the state of this machine, with these GPUs. cores: those that the job may use."""
    cpus, nodes = kernel / "devices/system/cpu", kernel / "devices/system/node"
    governors = {_read(cpus / f"cpu{core}/cpufreq/scaling_governor") or "" for core in cores}
    smt = _read(cpus / "smt/active")
    huge_pages = re.search(r"\[(\w+)\]", _read(kernel / "kernel/mm/transparent_hugepage/enabled") or "")
    return HostState(
        governor=None if "" in governors else ", ".join(sorted(governors)) or None,
        frequency_mhz=counters.frequency_mhz(cores, clocks=cpus),
        frequency_max_mhz=counters.frequency_mhz(cores, "cpuinfo_max_freq", cpus),
        smt=None if smt is None else smt == "1",
        numa_nodes=len([path for path in nodes.glob("node*") if re.fullmatch(r"node\d+", path.name)]) or None,
        transparent_huge_pages=huge_pages[1] if huge_pages else None,
        load=os.getloadavg()[0],
        cpu_flags=cpu_flags(),
        gpus=gpus,
        gpu_topology=gpu_topology,
        energy_unknown=counters.why_no_energy(),
    )


@functools.cache  # the file is long on a machine with many cores
def cpu_flags(cpuinfo: Path = _CPUINFO) -> list[str]:
    """Return the instruction sets of the processor that determine its training speed."""
    line = re.search(r"^flags\s*:(.*)$", _read(cpuinfo) or "", re.MULTILINE)
    flags = set(line[1].split()) if line else set()
    return [flag for flag in _SPEED_FLAGS if flag in flags]


def hardware(cores: int, cpu_model: str, gpus: Sequence[str]) -> str:
    """Return the hardware of a host as text; gpus: their names."""
    gpu_texts = [f"{count} x {name}" for name, count in Counter(gpus).items()] or ["no GPU"]
    return ", ".join([f"{cores} cores", cpu_model, *gpu_texts])


def hardware_note(hardware_by_host: Mapping[str, str]) -> str | None:
    """Return a note on how hosts differ, from the hardware of each as text; None if they do not.

    A synchronous step waits for the slowest.
    """
    kinds = hosts_by_text(hardware_by_host.items())
    if len(kinds) < 2:
        return None
    each = "; ".join(f"{hosts}: {kind}" for kind, hosts in kinds.items())
    return f"heterogeneous hardware, and every step waits for the slowest host: {each}"


def emulation_note(precision: str, flags_by_host: Mapping[str, Collection[str]]) -> str | None:
    """Return a note that processors emulate a precision without instructions for it; None if all have them.

    flags_by_host: the instruction sets of the processor of each host, by name.
    """
    lacking = [name for name, flags in flags_by_host.items() if not {*BF16_FLAGS} & {*flags}]
    if not lacking or precision != "bf16":
        return None
    return (
        f"precision={precision} is emulated on {folded(lacking)}: the processor has neither "
        f"{' nor '.join(flag.upper() for flag in BF16_FLAGS)}, so steps take several times as long as with "
        "precision=fp32; it measures the emulation"
    )


def _read(path: Path) -> str | None:
    """Return the content of a file of the kernel; None if it is not there, or not for this user."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def folded(names: Iterable[str]) -> str:
    """Return the names as Slurm and pdsh write them: n[1-3], n[0008-0256].cluster, login."""
    parts = [_parts(name) for name in dict.fromkeys(names)]
    padded = {(head, tail, len(number)) for head, number, tail in parts if number.startswith("0")}
    families: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for head, number, tail in parts:
        digits = len(number) if (head, tail, len(number)) in padded else 1  # n08 and n8 are two hosts
        families[head, tail, digits if number else 0].append(int(number or 0))
    return ", ".join(_family(*key, sorted(numbers)) for key, numbers in families.items())


def _parts(name: str) -> tuple[str, str, str]:
    """Return the parts of a host name: before its number, the number ("": none), after it, such as the domain."""
    label, dot, domain = name.partition(".")
    if label.isdigit():  # an address
        label, dot, domain = name, "", ""
    if match := _NUMBERED.match(label):
        return match[1], match[2], f"{match[3]}{dot}{domain}"
    return name, "", ""


def _family(head: str, tail: str, digits: int, numbers: list[int]) -> str:
    """Return hosts that differ in their number alone as text; digits: of the number, at least; 0: there is none."""
    if digits == 0:
        return head
    texts = []
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):  # the same for consecutive numbers
        members = [number for _, number in run]
        texts.append(f"{members[0]:0{digits}}" + (f"-{members[-1]:0{digits}}" if len(members) > 1 else ""))
    inner = ",".join(texts)
    return f"{head}{inner}{tail}" if len(numbers) == 1 else f"{head}[{inner}]{tail}"


def hosts_by_text(texts: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Return text -> the folded names of the hosts that it holds for, from pairs of host and text."""
    return {text: folded(hosts) for text, hosts in gathered((text, host) for host, text in texts).items()}


def loopback_problem() -> str:
    """Return why processes of this host cannot reach each other at 127.0.0.1; "" if they can."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            socket.create_connection(listener.getsockname(), _LOOPBACK_WITHIN_S).close()
    except OSError as error:
        return f"no connection from this machine to itself, at 127.0.0.1: {error.strerror or error}"
    return ""
