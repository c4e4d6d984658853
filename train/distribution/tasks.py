"""The tasks of a strategy of TensorFlow, and what each rank tells the others of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from train.transport.channel import Address

WORKER, SERVER, COORDINATOR = "worker", "ps", "chief"  # as TensorFlow names them


@dataclass(frozen=True)
class Peer:
    """What one rank tells the others: where it is, and which tasks it has."""

    host: str
    address: str
    ports: Mapping[str, int]  # task -> its port

    @property
    def first_task(self) -> str:
        """The worker, unless the rank only holds a server."""
        return next(iter(self.ports))

    def address_of(self, task: str) -> Address:
        """Return the address of one of its tasks."""
        return Address(self.address, self.ports[task])

    def place(self, task: str) -> str:
        """Return address and port of one of its tasks, as TensorFlow takes them."""
        return f"{self.address}:{self.ports[task]}"
