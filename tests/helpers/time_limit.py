"""Lets a test that hangs fail, with its stack, instead of holding up all others.

pytest's `faulthandler_timeout` has one limit for all tests, none for the teardown of a test that failed, and ends the
whole process.
"""

import faulthandler
import os
import signal
from contextlib import suppress
from types import FrameType

import psutil
import pytest

from tests.helpers import shell

# Seconds of the set-up, the call and the teardown of a test. On a busy machine everything takes many times as long.
_LIMIT_S = 240
_LIMIT_END_TO_END_S = 600
_AGAIN_S = 30  # if the test goes on, for instance in a `finally`
_STDERR = pytest.StashKey[int]()


def keep_stderr(config: pytest.Config) -> None:
    """Keep the standard error that pytest does not capture, for stacks."""
    config.stash[_STDERR] = os.dup(2)


def start(item: pytest.Item) -> None:
    """Limit the time of the next phase of a test. If Python's code cannot end it, this process ends.

    A fast test loads no library that can hold up Python's code, and has no such thread: it would take a millisecond.
    """
    slow, end_to_end = item.get_closest_marker("slow"), item.get_closest_marker("end_to_end")
    limit_s = _LIMIT_END_TO_END_S if end_to_end else _LIMIT_S

    def fail(_number: int, _frame: FrameType | None) -> None:
        faulthandler.dump_traceback(item.config.stash[_STDERR])  # of all threads
        kill_started()
        pytest.fail(f"the test was not over after {limit_s} s")

    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, limit_s, _AGAIN_S)
    if slow or end_to_end:
        faulthandler.dump_traceback_later(limit_s + 10 * _AGAIN_S, exit=True, file=item.config.stash[_STDERR])


def stop() -> None:
    """End the limit: the test is over."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()


def kill_started() -> None:
    """Kill all that tests of this process have started, and what that has started: the test may wait for any of it."""
    processes = psutil.Process().children(recursive=True)
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(shell.MARK) == str(os.getpid()):
                processes.append(process)
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
