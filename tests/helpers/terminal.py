"""A command in a real terminal: a pseudo-terminal of so many columns, its keys, and what it shows."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping

from tests.helpers import shell
from tests.helpers.kit import ROOT, environment

_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """One command in a terminal of its own."""

    def __init__(self, *command: str, columns: int = 100, variables: Mapping[str, str] | None = None) -> None:
        """Start the command in the kit's folder. variables: of its environment, beside the user's own."""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        env = {**environment(), "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "40", **(variables or {})}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=slave, stdout=slave, stderr=slave, preexec_fn=_take_terminal
        )
        os.close(slave)
        self._shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                self._shown += os.read(self._master, 65536)
            except OSError:  # the last process that had the terminal has ended
                return

    def press(self, keys: str) -> None:
        """Press keys: "\\x03" is Ctrl-C."""
        os.write(self._master, keys.encode())

    @property
    def output(self) -> str:
        """All that was shown, as it came."""
        return self._shown.decode(errors="replace")

    def lines(self) -> list[str]:
        """What is left on the lines of the screen: what was written over is not."""
        lines = [""]
        at = 0
        for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", self.output):
            if token == "\n":
                at += 1
                if at == len(lines):
                    lines.append("")
            elif up := re.fullmatch(r"\x1b\[(\d*)A", token):
                at = max(0, at - int(up[1] or 1))
            elif token == "\x1b[2K":
                lines[at] = ""
            elif not _CONTROLS.fullmatch(token) and token != "\r":
                lines[at] += token
        return [line.rstrip() for line in lines]

    def wait(self, timeout: float) -> int:
        """The exit status of the command, when it and its terminal have ended."""
        status = self.process.wait(timeout)
        self._reader.join(60)
        os.close(self._master)
        return status


def _take_terminal() -> None:
    """In the child: a session of its own, whose terminal is its standard input: Ctrl-C reaches it."""
    shell.heed_ctrl_c()
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
