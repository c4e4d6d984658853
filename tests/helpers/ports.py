"""Ports that no other test takes: below those that the kernel hands out, and apart for each process of pytest."""

import os
import socket

_EACH = 500  # ports of one process


def free_ports(count: int) -> int:
    """The first of so many free ports, one after the other."""
    first = 20000 + _EACH * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for port in range(first, first + _EACH - count):
        try:
            for taken in range(port, port + count):
                socket.create_server(("", taken)).close()
        except OSError:
            continue
        return port
    raise AssertionError(f"no {count} free ports from {first} on")
