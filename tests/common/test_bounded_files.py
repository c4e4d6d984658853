"""Files of strangers are bounded before they take memory."""

import gzip
import os
import re

import pytest

from common import bounded_files as bounded


def test_a_file_is_read_up_to_a_size_and_from_a_byte(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"0123456789")
    link.symlink_to(path)
    assert bounded.read(path, 10) == bounded.read(link, 10) == b"0123456789"
    assert bounded.read(path, 2, begin=8) == b"89"
    with pytest.raises(OSError, match="more than 0 MB"):
        bounded.read(path, 9)
    with pytest.raises(OSError, match="symbolic links"):
        bounded.read(link, links=False)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkfifo, "not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (os.mkdir, "not a regular file"),
        (lambda path: os.mknod(path, 0o140644), "No such device or address"),  # a socket
        (lambda path: os.truncate(os.open(path, os.O_WRONLY | os.O_CREAT), 10**12), "more than 268 MB"),
    ],
)
def test_what_blocks_or_has_no_end_is_not_read(tmp_path, make, reason):
    make(tmp_path / "file")
    with pytest.raises(OSError, match=reason):
        bounded.read(tmp_path / "file")


def test_an_error_of_writing_names_its_file(tmp_path):
    with pytest.raises(OSError, match="No space") as raised, bounded.named(tmp_path / "a"):
        os.write(os.open("/dev/full", os.O_WRONLY), b"x")
    assert raised.value.filename == str(tmp_path / "a")


def test_what_unpacks_to_much_is_not_unpacked():
    packed = gzip.compress(bytes(100_000))
    assert len(packed) < 200
    assert bounded.unpacked(packed, 100_000) == bytes(100_000)
    for content, most, reason in ((packed, 99_999, "more than 0 MB"), (packed[:-9], 10**6, "dam"), (b"{}", 9, "Not")):
        with pytest.raises(OSError, match=reason):
            bounded.unpacked(content, most)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[" * 33 + b"]" * 33, "nested more than 32"),
        (b"[" * 100_000, "nested more than 32"),
        (b"[" + b"0," * bounded.MOST_VALUES + b"0]", "more than 20000000 values"),
    ],
)
def test_deep_and_long_json_is_refused(text, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        bounded.check_json(text)


@pytest.mark.parametrize("text", [b"[" * 32 + b"]" * 32, b'["' + b"[" * 99 + b'\\"' + b"{" * 99 + b'"]', b'{"a": [1'])
def test_brackets_in_strings_and_files_cut_short_are_left_to_the_parser(text):
    assert bounded.check_json(text) == text
