"""Signals that ask this program to end: raised where work may stop, deferred where it must be completed."""

import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_MAY_BE_IGNORED = (signal.SIGHUP, signal.SIGQUIT)  # as by nohup and by shells in scripts: the user wants that


class Interrupted(BaseException):
    """The user, or the system, asked this program to end."""

    def __init__(self, signal_number: int) -> None:
        """Keep the signal."""
        self.signal = signal.Signals(signal_number)
        super().__init__(self.signal.name)


@contextmanager
def _handled_by(handle: Callable[[int], None]) -> Iterator[None]:
    def handler(number: int, _frame: object) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        handle(number)

    ignored = [number for number in _MAY_BE_IGNORED if signal.getsignal(number) == signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in INTERRUPTS if number not in ignored}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Within this block the signals raise Interrupted."""

    def interrupt(number: int) -> None:
        raise Interrupted(number)

    with _handled_by(interrupt):
        yield


@contextmanager
def interrupts_deferred() -> Iterator[list[int]]:
    """Within this block the signals are collected in the list that it yields, and interrupt nothing.

    For code that ends processes or writes records: it must run to its end.
    """
    numbers: list[int] = []
    with _handled_by(numbers.append):
        yield numbers


def _leave_terminal() -> None:
    """Discard output to a terminal from now on: it is gone, and each write would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):
        if stat.S_ISCHR(os.fstat(output).st_mode):
            os.dup2(nowhere, output)
    os.close(nowhere)
