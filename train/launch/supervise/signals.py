"""SIGINT and SIGTERM: raised where work may stop, deferred where it must be completed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """The user, or the system, asked this program to end."""

    def __init__(self, signal_number: int) -> None:
        """Keep which signal it was."""
        self.signal = signal.Signals(signal_number)
        super().__init__(self.signal.name)


@contextmanager
def _handled_by(handler: Callable[[int, object], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in _INTERRUPTS}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Within this block SIGINT and SIGTERM raise Interrupted."""

    def interrupt(number: int, _frame: object) -> None:
        raise Interrupted(number)

    with _handled_by(interrupt):
        yield


@contextmanager
def interrupts_deferred() -> Iterator[list[int]]:
    """Within this block SIGINT and SIGTERM are collected in the list that it yields, and interrupt nothing.

    For code that ends processes or writes records: it must run to its end.
    """
    came: list[int] = []
    with _handled_by(lambda number, _frame: came.append(number)):
        yield came
