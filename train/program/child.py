"""The program while it runs: its output, its end, and the libraries that it loads."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

from record import protocol
from train.config.program import search_path
from train.program.program_facts import mapped_libraries
from train.rank import placement, process

_GRACE_S = 5.0  # less than the launcher's grace for this process
_LOOK_EVERY_S = 2.0


class Child:
    """The program while it runs, with its output in a file."""

    def __init__(
        self, argv: list[str], cwd: Path, log: Path, until: str | None, until_s: float | None, stdin: int
    ) -> None:
        """Start nothing yet. until, until_s: the line or the time after which it is ended, which is a success."""
        self._stdin, self._argv, self._cwd, self._log = stdin, argv, cwd, log
        self._until, self._until_s = until, until_s
        self._asked, self._job_id = False, os.environ[protocol.JOB_ID]
        self.libraries: list[str] = []

    def wait(self) -> int:
        """Run it to its end; returns its exit status, 0 if it was ended as asked. Raises OSError if it cannot start.

        SIGTERM is passed on to it. The first process of a container ignores that by default: the remaining processes of
        the job are killed after a while. A program that is ended at a line writes to a terminal, so that it does not
        keep its output back.
        """
        controlling, output = pty.openpty() if self._until else (-1, -1)
        with self._log.open("wb") as file:
            child = subprocess.Popen(
                self._argv, cwd=self._cwd, stdin=self._stdin, stdout=output if self._until else file,
                stderr=subprocess.STDOUT, env=placement.without_rank() | {"PATH": search_path()},
            )  # fmt: skip
        signal.signal(signal.SIGTERM, lambda *_: self._end(child))
        copier = threading.Thread(target=self._copy, args=(controlling, child), daemon=True)
        if self._until:
            os.close(output)
            copier.start()
        if self._until_s:
            timer = threading.Timer(self._until_s, self._ask, [child])
            timer.daemon = True
            timer.start()
        threading.Thread(target=self._look, daemon=True).start()
        status = child.wait()
        if not self._asked:
            return status
        process.kill_job(self._job_id)  # what it started, and left
        if self._until:
            copier.join(_GRACE_S)
        return 0

    def _ask(self, child: subprocess.Popen[bytes]) -> None:
        self._asked = True
        self._end(child)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        child.terminate()
        timer = threading.Timer(_GRACE_S, process.kill_job, [self._job_id])
        timer.daemon = True
        timer.start()

    def _look(self) -> None:
        """Collect the libraries of its processes, now and then: it loads some of them late."""
        while True:
            time.sleep(_LOOK_EVERY_S)
            self.libraries = sorted({*self.libraries, *mapped_libraries(self._job_id)})

    def _copy(self, controlling: int, child: subprocess.Popen[bytes]) -> None:
        """Copy what the program writes to its terminal into the log, until a line asks for its end."""
        pattern, line = re.compile(self._until or ""), b""
        with self._log.open("ab", buffering=0) as file, contextlib.suppress(OSError):  # the terminal closes with it
            while read := os.read(controlling, 65536):
                file.write(read.replace(b"\r\n", b"\n"))
                *lines, line = re.split(rb"[\r\n]", line + read)  # a line of progress ends with \r
                if not self._asked and any(pattern.search(one.decode(errors="replace")) for one in lines):
                    self._ask(child)
