import os
import pty
import signal
import sys

import pytest

from tests.helpers import ROOT
from train.launch.supervise.signals import Interrupted, interrupts_deferred, interrupts_raised


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_each_signal_that_asks_to_end_interrupts_unless_it_is_ignored_from_the_start(number):
    before = signal.signal(number, signal.default_int_handler)  # a shell's background job ignores some of them
    try:
        with interrupts_raised():
            with interrupts_deferred() as deferred:  # where work must end
                signal.raise_signal(number)
            assert deferred == [number]
            with pytest.raises(Interrupted, match=number.name):
                signal.raise_signal(number)
        assert signal.getsignal(number) is signal.default_int_handler
        if number in (signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)  # as nohup does
            with interrupts_raised(), interrupts_deferred() as deferred:
                signal.raise_signal(number)
            assert deferred == []
    finally:
        signal.signal(number, before)


# Its terminal is closed: an error of printing must not hide the interruption.
IN_A_TERMINAL = """
import signal, sys
from pathlib import Path
from train.launch.supervise.signals import Interrupted, interrupts_raised
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
with interrupts_raised():
    try:
        print("ready", flush=True)
        signal.pause()
    except Interrupted as error:
        print("all is kept", flush=True)
        Path(sys.argv[1]).write_text(str(error))
"""


@pytest.mark.slow
def test_a_terminal_that_is_closed_is_no_error(tmp_path):
    message = tmp_path / "message"
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-c", IN_A_TERMINAL, str(message)])
    assert b"ready" in os.read(terminal, 100)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert (status, message.read_text()) == (0, "SIGHUP")
