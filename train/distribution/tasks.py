"""The tasks of a strategy of TensorFlow, and what each rank tells the others of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WORKER, SERVER, COORDINATOR = "worker", "ps", "chief"  # as TensorFlow names them; every rank has the first


@dataclass(frozen=True)
class Worker:
    """One worker, as it tells the others."""

    host: str
    address: str
    ports: Mapping[str, int]  # task -> its port
    token: str  # which those that connect must know

    @property
    def port(self) -> int:
        """That of the worker itself."""
        return self.ports[WORKER]

    def place(self, task: str) -> str:
        """Address and port of one of its tasks, as TensorFlow takes them."""
        return f"{self.address}:{self.ports[task]}"
