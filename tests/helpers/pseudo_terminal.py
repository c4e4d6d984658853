"""A command in a pseudo-terminal: the test presses keys and reads the screen."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping

import pyte

from tests.helpers import ROOT
from tests.helpers.kit import environment

LINES = 40
ESCAPE = re.compile(r"\\x|\\r|\[\d*m|\[2K")  # control codes that a person reads instead of a terminal


class Terminal:
    """One command in a terminal, which keeps the lines that leave its screen at the top."""

    def __init__(self, *command: str, columns: int = 100, variables: Mapping[str, str] | None = None) -> None:
        """Start the command in the kit's folder. variables: are added to the user's environment."""
        self._master, slave = pty.openpty()
        self._screen = pyte.HistoryScreen(columns, LINES, history=10_000)
        self._stream, self._lock = pyte.ByteStream(self._screen), threading.Lock()
        self._set_size(columns)
        env = {**environment(), "TERM": "xterm-256color", **(variables or {})}
        env.pop("COLUMNS", None)  # a terminal says its size by itself
        command = ("setsid", "--ctty", *command)  # so that Ctrl-C reaches it
        self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self._output = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                output = os.read(self._master, 65536)
            except OSError:  # the last process on the terminal has ended
                return
            with self._lock:
                self._output += output
                self._stream.feed(output)

    def _set_size(self, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))

    def resize(self, columns: int) -> None:
        """Give the terminal another width."""
        with self._lock:
            self._screen.resize(LINES, columns)
            self._set_size(columns)

    def press(self, keys: str) -> None:
        """Press keys: "\\x03" is Ctrl-C."""
        os.write(self._master, keys.encode())

    @property
    def output(self) -> str:
        """All output so far, with its control sequences."""
        return self._output.decode(errors="replace")

    def lines(self) -> list[str]:
        """Return the lines that a person sees, from the first one on, without text that was overwritten."""
        with self._lock:
            screen = self._screen
            above = ["".join(line[x].data for x in range(screen.columns)) for line in screen.history.top]
            lines = [line.rstrip() for line in (*above, *screen.display)]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def wait(self, timeout: float) -> int:
        """Return the exit status of the command when it has ended and all its output is read."""
        status = self.process.wait(timeout)
        self._reader.join(60)
        os.close(self._master)
        return status
