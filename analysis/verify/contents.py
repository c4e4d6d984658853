"""The content of a launch's file with a given digest, whatever line ends and white space it has now.

Git, editors and mail change line ends, add a newline or a byte-order mark, or indent JSON. What the file says is the
same, and the content as the kit wrote it can be made again.
"""

import hashlib
import json

import msgspec

from common import bounded_files as bounded
from record import schema as record


def as_written(name: str, content: bytes) -> bytes:
    """Return the content of a record, of run.json or of a rank's file as the kit writes it. Raises ValueError."""
    if name == record.RECORD_NAME:
        return record.as_written(bounded.check_json(content))
    if name.endswith(".jsonl"):
        return b"".join(_line(line) for line in content.decode("utf-8-sig").encode().splitlines())
    text = bounded.check_json(content).decode(json.detect_encoding(content))
    return msgspec.json.format(msgspec.json.encode(msgspec.json.decode(text)), indent=1)


def _line(text: bytes) -> bytes:
    try:
        return json.dumps(json.loads(bounded.check_json(text))).encode() + b"\n"
    except ValueError:  # cut short
        return text


def with_digest(name: str, content: bytes, sha256: str) -> bytes | None:
    """Return the content of a file that has this digest; None if it says something else.

    It is the whole, or the first lines of a rank's file, if the rank wrote on after the record.
    """
    if (same := _beginning(content, sha256)) is not None:
        return same
    try:
        return _beginning(as_written(name, content), sha256)
    except ValueError:
        return None


def _beginning(content: bytes, sha256: str) -> bytes | None:
    digest, length = hashlib.sha256(), 0
    for line in content.splitlines(keepends=True):
        digest.update(line)
        length += len(line)
        if digest.hexdigest() == sha256:
            return content[:length]
    return None
