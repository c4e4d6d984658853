"""Reads a .wandb file: a LevelDB log (https://github.com/google/leveldb/blob/main/doc/log_format.md) of W&B's messages.

It differs from LevelDB's own in its 7-byte file header and in its checksum, a plain CRC-32 over type and data.
Strict: anything that a whole file does not hold is an error. (wandb ships its messages, but no reader in Python.)
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from wandb.proto.wandb_internal_pb2 import Record

FILE_HEADER = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
BLOCK_SIZE = 32768
CHUNK_HEADER = struct.Struct("<IHB")  # checksum, length of the data, type
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


class LogError(Exception):
    """Not a whole, undamaged .wandb file."""


def read(path: Path) -> list[Record]:
    """All messages of a .wandb file, in order. Raises LogError where it is damaged, cut off or of another format."""
    return [Record.FromString(message) for message in messages(path.read_bytes())]


def messages(log: bytes) -> Iterator[bytes]:
    """The messages in `log`, put together from their chunks."""
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
    at = len(FILE_HEADER)
    while at < len(log):
        left_in_block = BLOCK_SIZE - at % BLOCK_SIZE
        if left_in_block < CHUNK_HEADER.size:  # too small for a chunk: filled with zeros
            if any(log[at : at + left_in_block]):
                raise LogError(f"padding at byte {at} is not zero")
            at += left_in_block
            continue
        if at + CHUNK_HEADER.size > len(log):
            raise LogError(f"chunk header at byte {at} is cut off")
        checksum, length, kind = CHUNK_HEADER.unpack_from(log, at)
        data = log[at + CHUNK_HEADER.size : at + CHUNK_HEADER.size + length]
        if kind not in (FULL, FIRST, MIDDLE, LAST) or CHUNK_HEADER.size + length > left_in_block or len(data) < length:
            raise LogError(f"chunk at byte {at}: type {kind}, length {length}, {len(data)} bytes there")
        if zlib.crc32(bytes([kind]) + data) != checksum:
            raise LogError(f"chunk at byte {at}: its checksum does not match")
        yield kind, data
        at += CHUNK_HEADER.size + length
