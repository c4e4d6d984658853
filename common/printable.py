"""Text of records, logs and other hosts, with control characters escaped for a terminal."""

from __future__ import annotations  # train/tools/doctor.py also runs under an older Python, and says so

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOWrapper
from typing import Any, TextIO

# Control characters, which a terminal obeys, without tabs and ends of lines; those that reverse how text runs
# (Bidi_Control of Unicode); and what XML 1.0 cannot hold.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def escaped(text: str) -> str:
    """Return the text with each control character as an escape, as \\x1b."""
    return _CONTROL.sub(lambda character: ascii(character[0])[1:-1], text)


def os_error_text(error: OSError) -> str:
    """Return the file that an OSError names, if any, and its reason."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


class Printable:
    """A stream that writes each control character as an escape."""

    def __init__(self, stream: TextIO) -> None:
        """Take the stream that is written to. A character that its encoding lacks becomes an escape, too."""
        self.stream = stream
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """Write the text and return its length."""
        self.stream.write(escaped(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the stream."""
        return getattr(self.stream, name)


@contextmanager
def printable_output() -> Iterator[None]:
    """Within this context no control character of a text that is printed reaches the terminal."""
    with redirect_stdout(Printable(sys.stdout)), redirect_stderr(Printable(sys.stderr)):
        yield


def unescaped_output() -> TextIO:
    """Return standard output without these escapes, for a console that escapes texts but not its own control codes."""
    return sys.stdout.stream if isinstance(sys.stdout, Printable) else sys.stdout
