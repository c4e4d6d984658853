"""A reader of .wandb files: LevelDB logs (https://github.com/google/leveldb/blob/main/doc/log_format.md) of messages.

They differ from LevelDB's by a 7-byte file header and by the checksum, a plain CRC-32 over type and data. Every
deviation from the format is an error. (wandb has the definitions of its messages, but no reader in Python.)
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE_HEADER = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
BLOCK_SIZE = 32768
CHUNK_HEADER = struct.Struct("<IHB")  # checksum, length of the data, type
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


class LogError(Exception):
    """The .wandb file is damaged or incomplete."""


def read(path: Path) -> list[Any]:
    """Return all messages of a .wandb file. Raises LogError if it is damaged, cut off or of another format."""
    return [decoded(message) for message in messages(path.read_bytes())]


def decoded(message: bytes) -> Any:
    """Return a message as W&B's class. It is imported here: that takes 0.4 s, and most tests do not need it."""
    from wandb.proto.wandb_internal_pb2 import Record

    return Record.FromString(message)


def messages(log: bytes) -> Iterator[bytes]:
    """Yield the messages in `log`, joined from their chunks."""
    _check(log.startswith(FILE_HEADER), f"it starts with {log[:7]!r}, not with {FILE_HEADER!r}")
    position, parts = len(FILE_HEADER), list[bytes]()
    while position < len(log):
        begin, left_in_block = position + CHUNK_HEADER.size, BLOCK_SIZE - position % BLOCK_SIZE
        if left_in_block < CHUNK_HEADER.size:  # too small for a chunk: filled with zeros
            _check(not any(log[position : position + left_in_block]), f"padding at byte {position} is not zero")
            position += left_in_block
            continue
        _check(begin <= len(log), f"chunk header at byte {position} is cut off")
        checksum, length, kind = CHUNK_HEADER.unpack_from(log, position)
        data, last = log[begin : begin + length], position + left_in_block
        is_whole = begin + length <= min(last, len(log)) and kind in (FULL, FIRST, MIDDLE, LAST)
        _check(is_whole, f"chunk at byte {position}: type {kind}, length {length}, {len(data)} bytes there")
        _check(zlib.crc32(bytes([kind]) + data) == checksum, f"chunk at byte {position}: its checksum does not match")
        _check((kind in (FULL, FIRST)) != bool(parts), f"chunk of type {kind} after {len(parts)} chunks of a message")
        parts.append(data)
        if kind in (FULL, LAST):
            yield b"".join(parts)
            parts = []
        position = begin + length
    _check(not parts, "the last message is cut off")


def _check(is_right: bool, problem: str) -> None:
    if not is_right:
        raise LogError(problem)
