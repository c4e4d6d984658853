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

from tests.helpers import ROOT, shell
from tests.helpers.kit import environment

_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """One command in a terminal of 40 lines of 100 columns."""

    def __init__(self, *command: str, variables: Mapping[str, str]) -> None:
        """Start the command in the kit's folder. variables: are added to the user's environment."""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        env = {**environment(), "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", **variables}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=slave, stdout=slave, stderr=slave, preexec_fn=_take_terminal
        )
        os.close(slave)
        self._output = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                self._output += os.read(self._master, 65536)
            except OSError:  # the last process on the terminal has ended
                return

    def press(self, keys: str) -> None:
        """Press keys: "\\x03" is Ctrl-C."""
        os.write(self._master, keys.encode())

    @property
    def output(self) -> str:
        """All output so far, with its control sequences."""
        return self._output.decode(errors="replace")

    def lines(self) -> list[str]:
        """Return the lines of the screen, without text that was overwritten."""
        lines, row = [""], 0
        for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", self.output):
            if token == "\n":
                row += 1
                if row == len(lines):
                    lines.append("")
            elif up := re.fullmatch(r"\x1b\[(\d*)A", token):
                row = max(0, row - int(up[1] or 1))
            elif token == "\x1b[2K":
                lines[row] = ""
            elif not _CONTROLS.fullmatch(token) and token != "\r":
                lines[row] += token
        return [line.rstrip() for line in lines]

    def wait(self, timeout: float) -> int:
        """Return the exit status of the command when it has ended and all its output is read."""
        status = self.process.wait(timeout)
        self._reader.join(60)
        os.close(self._master)
        return status


def _take_terminal() -> None:
    """Start a session in the child, with its standard input as terminal, so that Ctrl-C reaches it."""
    shell.heed_ctrl_c()
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
