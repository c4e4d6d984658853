"""Separate networks for the nodes of a job on this machine, each with a link of a given rate to one switch.

Linux network namespaces, each with a pair of virtual Ethernet devices (ip-netns(8)). A token bucket filter at both
ends limits sending and receiving alike (tc-tbf(8)). Needs root. The machine's own network is not touched: the switch
has a namespace too, and all addresses are in the range for benchmarks (RFC 2544).
"""

import os
import re
import shutil
import socket
from pathlib import Path

from common.programs import finished

INTERFACE = "kit0"  # the bridge on the switch, and every node's end of its link
_NAMESPACES = Path("/run/netns")
_ETC = Path("/etc/netns")  # files below it replace those of /etc in the namespace of that name (ip-netns(8))


def own_name() -> str:
    """Return the prefix of this launcher's namespaces: every running launcher has another one."""
    return f"kit{os.getpid()}"


def switch(name: str) -> str:
    """Return the namespace of the switch, in which the job's launcher runs."""
    return f"{name}-switch"


def node(name: str, number: int | str) -> str:
    """Return the namespace of a node; number "": its prefix, without a number."""
    return f"{name}-n{number}"


def address(number: int) -> str:
    """Return the address of a node."""
    return f"198.18.{number // 250}.{number % 250 + 1}"


def commands(name: str, nodes: int) -> list[list[str]]:
    """Return the commands that make the namespaces and their links."""
    middle = switch(name)
    steps = [
        ["ip", "netns", "add", middle],
        ["ip", "-n", middle, "link", "set", "lo", "up"],
        ["ip", "-n", middle, "link", "add", INTERFACE, "type", "bridge"],
        ["ip", "-n", middle, "addr", "add", "198.18.255.254/16", "dev", INTERFACE],
        ["ip", "-n", middle, "link", "set", INTERFACE, "up"],
    ]
    for number in range(nodes):
        namespace, port = node(name, number), f"port{number}"
        steps += [
            ["ip", "netns", "add", namespace],
            ["ip", "-n", namespace, "link", "set", "lo", "up"],
            ["ip", "-n", middle, "link", "add", port, "type", "veth", "peer", "name", INTERFACE, "netns", namespace],
            ["ip", "-n", middle, "link", "set", port, "master", INTERFACE, "up"],
            ["ip", "-n", namespace, "addr", "add", f"{address(number)}/16", "dev", INTERFACE],
            ["ip", "-n", namespace, "link", "set", INTERFACE, "up"],
        ]
    return steps


def limit_commands(name: str, nodes: int, mbit_per_s: float | None) -> list[list[str]]:
    """Return the commands that set the rate of every link in each direction; None: no limit."""
    rule = ["pfifo"]
    if mbit_per_s is not None:
        rule = ["tbf", "rate", f"{mbit_per_s:g}mbit", "burst", "128kb", "latency", "50ms"]
    ends = [end for i in range(nodes) for end in ((switch(name), f"port{i}"), (node(name, i), INTERFACE))]
    return [["tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", *rule] for namespace, device in ends]


def _run(commands: list[list[str]]) -> None:
    for command in commands:
        done = finished(command)
        if done.returncode:
            raise OSError(done.returncode, done.stderr.strip(), " ".join(command))


def limit(name: str, nodes: int, mbit_per_s: float | None) -> None:
    """Limit the links from now on; None: no limit. Raises OSError as `make` does."""
    _run(limit_commands(name, nodes, mbit_per_s))


def missing() -> str | None:
    """Return why such networks cannot be made here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    absent = [command for command in ("ip", "tc") if not shutil.which(command)]
    return f"{' and '.join(absent)} not found; on Debian: apt-get install iproute2" if absent else None


def make(name: str, nodes: int) -> None:
    """Make the networks, without limits; first remove those of killed launchers.

    Raises OSError with the command that failed, and its message.
    """
    for path in [*_NAMESPACES.glob("kit*-*"), *_ETC.glob("kit*-*")]:
        match = re.match(r"(kit(\d+))-", path.name)
        if match and not Path("/proc", match[2]).exists():
            remove(match[1])
    for number in range(nodes):
        # Gloo announces the address of the host name, whatever interface it is given.
        hosts = _ETC / node(name, number) / "hosts"
        hosts.parent.mkdir(parents=True)
        hosts.write_text(f"127.0.0.1 localhost\n{address(number)} {socket.gethostname()}\n")
    _run(commands(name, nodes))


def remove(name: str) -> None:
    """Remove the namespaces with this prefix, and everything in them."""
    for path in _NAMESPACES.glob(f"{name}-*"):
        finished(["ip", "netns", "delete", path.name], new_session=True)
    for path in _ETC.glob(f"{name}-*"):
        shutil.rmtree(path)
