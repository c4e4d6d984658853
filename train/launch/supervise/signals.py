"""Signals that ask this program to end: raised where work may stop, deferred where it must be completed."""

import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_MAY_BE_IGNORED = (signal.SIGHUP, signal.SIGQUIT)  # as by nohup and by shells in scripts: the user wants that


class Interrupted(BaseException):
    """The user, or the system, asked this program to end."""

    def __init__(self, signal_number: int) -> None:
        """Keep the signal."""
        self.signal = signal.Signals(signal_number)
        super().__init__(self.signal.name)


@contextmanager
def _handled_by(handler: Callable[[int, object], None]) -> Iterator[None]:
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

    def interrupt(number: int, _frame: object) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        raise Interrupted(number)

    with _handled_by(interrupt):
        yield


@contextmanager
def interrupts_deferred() -> Iterator[list[int]]:
    """Within this block the signals are collected in the list that it yields, and interrupt nothing.

    For code that ends processes or writes records: it must run to its end.
    """
    numbers: list[int] = []

    def note(number: int, _frame: object) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        numbers.append(number)

    with _handled_by(note):
        yield numbers


def _leave_terminal() -> None:
    """Discard output to a terminal from now on: it is gone, and each write would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):
        if stat.S_ISCHR(os.fstat(output).st_mode):
            os.dup2(nowhere, output)
    os.close(nowhere)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def ends_with_make() -> Callable[[], None]:
    """Return a function to call often, which raises Interrupted once the make that started this program is gone.

    A killed make passes no signal on.
    """
    started_by_make = "MAKELEVEL" in os.environ
    makes = [p for p in psutil.Process().parents() if p.name() in ("make", "gmake")] if started_by_make else []

    def check() -> None:
        if makes and not _lives(makes[0]):
            raise Interrupted(signal.SIGHUP)

    return check
