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
    if not log.startswith(FILE_HEADER):
        raise LogError(f"it starts with {log[:7]!r}, not with {FILE_HEADER!r}")
    parts: list[bytes] = []
    for kind, data in _chunks(log):
        if (kind in (FULL, FIRST)) == bool(parts):
            raise LogError(f"chunk of type {kind} after {len(parts)} chunks of a message")
        parts.append(data)
        if kind in (FULL, LAST):
            yield b"".join(parts)
            parts = []
    if parts:
        raise LogError("the last message is cut off")


def _chunks(log: bytes) -> Iterator[tuple[int, bytes]]:
    position = len(FILE_HEADER)
    while position < len(log):
        left_in_block = BLOCK_SIZE - position % BLOCK_SIZE
        if left_in_block < CHUNK_HEADER.size:  # too small for a chunk: filled with zeros
            if any(log[position : position + left_in_block]):
                raise LogError(f"padding at byte {position} is not zero")
            position += left_in_block
            continue
        if position + CHUNK_HEADER.size > len(log):
            raise LogError(f"chunk header at byte {position} is cut off")
        checksum, length, kind = CHUNK_HEADER.unpack_from(log, position)
        begin = position + CHUNK_HEADER.size
        data = log[begin : begin + length]
        if kind not in (FULL, FIRST, MIDDLE, LAST) or CHUNK_HEADER.size + length > left_in_block or len(data) < length:
            raise LogError(f"chunk at byte {position}: type {kind}, length {length}, {len(data)} bytes there")
        if zlib.crc32(bytes([kind]) + data) != checksum:
            raise LogError(f"chunk at byte {position}: its checksum does not match")
        yield kind, data
        position = begin + length
