"""The tasks of a strategy of TensorFlow, and what each rank tells the others of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WORKER, SERVER, COORDINATOR = "worker", "ps", "chief"  # as TensorFlow names them


@dataclass(frozen=True)
class Peer:
    """What one rank tells the others: where it is, and which tasks it has."""

    host: str
    address: str
    ports: Mapping[str, int]  # task -> its port
    token: str  # which those that connect must know

    @property
    def first_task(self) -> str:
        """The worker, unless the rank only holds a server."""
        return next(iter(self.ports))

    @property
    def port(self) -> int:
        """That of its first task."""
        return self.ports[self.first_task]

    def place(self, task: str) -> str:
        """Address and port of one of its tasks, as TensorFlow takes them."""
        return f"{self.address}:{self.ports[task]}"
