"""Programs of this machine that are run to their end, but not waited for without end."""

from __future__ import annotations  # train/tools/doctor.py also runs under an older Python, and says so

import subprocess
from collections.abc import Sequence
from pathlib import Path

NO_ANSWER = 124  # the exit status of a program that took too long, as timeout(1) has it


def finished(
    argv: Sequence[str | Path], within_s: float = 60.0, content: bytes = b"", new_session: bool = False
) -> subprocess.CompletedProcess[str]:
    """Return a program that has ended, with its output; after this time it is killed and has the status NO_ANSWER.

    content: its standard input. Raises OSError if it cannot be started.
    """
    try:
        done = subprocess.run(argv, input=content, capture_output=True, timeout=within_s, start_new_session=new_session)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, NO_ANSWER, "", f"{argv[0]} did not end within {within_s:g} s")
    output, errors = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(argv, done.returncode, output, errors)
