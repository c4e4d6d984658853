import hashlib
import io
import os
import re
import signal
import stat
import tarfile
import threading
import time
import urllib.request
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from tests.helpers import ROOT
from train.config.checks import ConfigError
from train.tools import data_fetch


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server, size = self.server, len(self.server.content)
        requested = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        begin = int(requested[1]) if requested and server.resumes else 0
        if server.redirect:
            status, headers, body = 302, {"Location": server.redirect}, b""
        elif begin and begin >= size:
            status, headers, body = 416, {"Content-Range": f"bytes */{size}"}, b""
        else:
            body = server.content[begin:]
            status, headers = (206, {"Content-Range": f"bytes {begin}-{size - 1}/{size}"}) if begin else (200, {})
            headers |= {"Content-Length": str(len(body))} | server.headers
        server.requests.append((begin, status))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: server.break_after.pop(0)] if server.break_after else body)
        if server.interrupts:
            time.sleep(0.1)  # until the bytes are there
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.1)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """An HTTP server on this machine that can close the connection early, refuse to resume, or send other bytes.

    It serves `content`, and appends (first byte, status) of each answer to `requests`.
    """

    resumes = True
    redirect = None
    interrupts = False  # Ctrl-C in the process of the test, before the connection is closed

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = b"0123456789"
        self.requests: list[tuple[int, int]] = []
        self.break_after: list[int] = []  # after so many bytes of the next answers
        self.headers: dict[str, str] = {}  # replace those of all answers
        self.url = f"http://127.0.0.1:{self.server_port}/data.tar.gz"


@pytest.fixture
def server():
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


def md5(content: bytes) -> str:
    return f"md5:{hashlib.md5(content).hexdigest()}"


def test_a_download_that_breaks_off_twice_resumes_where_it_stopped(server, tmp_path):
    server.content = bytes(range(256)) * 40
    server.break_after = [1000, 2000]
    data_fetch.download(server.url, tmp_path / "data", md5(server.content), pause_s=0)
    assert (tmp_path / "data").read_bytes() == server.content
    assert server.requests == [(0, 200), (1000, 206), (3000, 206)]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(
    ("part", "resumes", "sent", "requests"),
    [
        (b"01234567", True, {}, [(8, 206)]),
        (b"0123456789", True, {}, [(10, 416)]),
        (b"another file, longer", True, {}, [(20, 416), (0, 200)]),
        (b"wrong", False, {}, [(0, 200)]),
        *((b"", True, {"Content-Length": text}, [(0, 200)]) for text in ("ten", "-1", "²")),  # of unknown length
        *(  # another range than was asked for
            (b"0123", True, {"Content-Range": sent}, [(4, 206), (0, 200)])
            for sent in ("bytes 0-9/10", "bytes 5-9/10", "items 4-9/10", "")
        ),
    ],
)
def test_the_part_of_an_earlier_command_is_not_fetched_again_where_it_fits(
    server, tmp_path, part, resumes, sent, requests
):
    server.resumes, server.headers = resumes, sent
    (tmp_path / "data.part").write_bytes(part)
    data_fetch.download(server.url, tmp_path / "data", md5(server.content), pause_s=0)
    assert (tmp_path / "data").read_bytes() == server.content
    assert server.requests == requests


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, r"10 bytes have the md5 \w{32}; expected 0{32}"),
        ({"url": "file:///etc/hostname"}, "must begin with http"),
        ({"redirect": "ftp://127.0.0.1/etc/hostname"}, "ftp://127"),
        ({"redirect": "file://127.0.0.1/etc/hostname"}, "file://127"),
    ],
)
def test_a_download_that_is_not_the_file_is_reported_and_nothing_is_left(server, tmp_path, settings, problem):
    vars(server).update(settings)
    with pytest.raises(ConfigError, match=problem):
        data_fetch.download(server.url, tmp_path / "data", "md5:" + "0" * 32, pause_s=0)
    assert not list(tmp_path.iterdir())


def test_a_file_of_unknown_length_takes_at_most_half_of_the_room(server, tmp_path, monkeypatch):
    server.headers = {"Content-Length": "unknown"}
    monkeypatch.setattr(data_fetch.shutil, "disk_usage", lambda folder: SimpleNamespace(free=2 * len(server.content)))
    data_fetch.download(server.url, tmp_path / "data", None, pause_s=0)
    monkeypatch.setattr(data_fetch.shutil, "disk_usage", lambda folder: SimpleNamespace(free=len(server.content)))
    with pytest.raises(ConfigError, match="the server does not say how long this file is, and half of what was free"):
        data_fetch.download(server.url, tmp_path / "other", None, pause_s=0)


def test_a_server_that_sends_nothing_is_dropped_and_the_part_is_kept(server, tmp_path):
    server.break_after = [4, 0, 0, 0, 0, 0]
    with pytest.raises(ConfigError, match=r"tried 5 times. 4 bytes are kept in .*data.part"):
        data_fetch.download(server.url, tmp_path / "data", None, pause_s=0)
    assert (tmp_path / "data.part").read_bytes() == b"0123"


def test_an_interruption_keeps_every_byte_that_arrived(server, tmp_path):
    server.break_after, server.interrupts = [4], True
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            data_fetch.download(server.url, tmp_path / "data", None, pause_s=0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (tmp_path / "data.part").read_bytes() == b"0123"


@pytest.mark.parametrize("text", ["c58f", "md5:12", "md4:" + "0" * 32, "md5:" + "g" * 32])
def test_a_checksum_must_name_its_algorithm_and_have_its_length(text):
    with pytest.raises(ConfigError, match="hexadecimal digits"):
        data_fetch.parse_checksum(text)


def test_a_redirect_from_https_to_http_is_not_followed():
    request = urllib.request.Request("https://example.org/data")
    follow = data_fetch.SafeRedirects().redirect_request
    answer = (None, 302, "Found", {})
    with pytest.raises(ConfigError, match=r"redirected to http://example\.org/data"):
        follow(request, *answer, "http://example.org/data")
    assert follow(request, *answer, "https://other.example.org/data").full_url == "https://other.example.org/data"


def packed(names: dict[str, bytes] | None = None, **attributes: object) -> bytes:
    """A tar archive of files that have these attributes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in (names or {"one.txt": b"one"}).items():
            member = tarfile.TarInfo(name)
            for key, value in (attributes | {"size": len(content)}).items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_fetch_unpacks_once_and_says_what_was_not_verified(server, tmp_path, capsys):
    server.content = packed({"set/one.txt": b"one"})
    for folder, checksum in ((tmp_path, md5(server.content)), (tmp_path / "other", None)):
        data_fetch.fetch("fruit", folder, server.url, checksum)
        assert (folder / "set/one.txt").read_bytes() == b"one"
        assert not (folder / "data.tar.gz").exists()
    digest = hashlib.sha256(server.content).hexdigest()
    assert capsys.readouterr().out.count(f"not verified, no checksum is known. It has the sha256 {digest}") == 1
    data_fetch.fetch("fruit", tmp_path, server.url, md5(server.content))
    assert len(server.requests) == 2
    assert "fetched and unpacked before" in capsys.readouterr().out


@pytest.mark.parametrize("dataset", ["imagenet", "imdb_wiki", "fruit"])
def test_a_dataset_that_is_not_fetched_names_its_address(dataset, tmp_path):
    with pytest.raises(ConfigError, match=f"{dataset} is not fetched by the kit. .*(https://|Kaggle).*URL="):
        data_fetch.fetch(dataset, tmp_path / "none", None, None)
    assert not (tmp_path / "none").exists()


def test_every_dataset_read_from_files_has_a_source():
    conf = ROOT / "conf" / "dataset"
    files = {path.stem for path in conf.glob("*.yaml") if "\nfiles: true" in path.read_text()}
    assert set(data_fetch.SOURCES) == files


def test_an_archive_that_is_there_is_verified(server, tmp_path):
    (tmp_path / "data.tar.gz").write_bytes(packed())
    with pytest.raises(ConfigError, match=r"data.tar.gz: has the md5 \w{32}; expected 0{32}. Remove it"):
        data_fetch.fetch("fruit", tmp_path, server.url, "md5:" + "0" * 32)
    data_fetch.fetch("fruit", tmp_path, server.url, md5((tmp_path / "data.tar.gz").read_bytes()))
    assert (tmp_path / "one.txt").read_bytes() == b"one"
    assert server.requests == []


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("one.txt", b"content")
    return buffer.getvalue()


def encrypted() -> bytes:
    content = bytearray(zipped())
    for signature, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):  # the flag of encryption, in both headers
        content[content.index(signature) + flags] |= 1
    return bytes(content)


ANOTHER_KIND = "one.txt is not a regular file"


@pytest.mark.parametrize(
    ("archive", "problem"),
    [
        (packed({"../one.txt": b"one"}), "outside the folder"),
        (packed(type=tarfile.SYMTYPE, linkname="/etc/passwd"), ANOTHER_KIND),
        (packed(type=tarfile.LNKTYPE, linkname="/etc/passwd"), ANOTHER_KIND),
        (packed(type=tarfile.FIFOTYPE), ANOTHER_KIND),
        (packed(type=tarfile.CHRTYPE), ANOTHER_KIND),
        (packed()[:-8] + bytes(4) + packed()[-4:], "CRC"),  # RFC 1952: CRC32, then the length
        (packed()[:-9], "end-of-stream"),
        (zipped().replace(b"content", b"changed", 1), "CRC"),
        (encrypted(), "password"),
    ],
    ids=("elsewhere", "link", "hard link", "pipe", "device", "another checksum", "cut off", "changed", "encrypted"),
)
def test_an_archive_that_is_damaged_or_unsafe_is_not_unpacked(server, tmp_path, archive, problem):
    server.content = archive
    with pytest.raises(ConfigError, match=rf"cannot be unpacked: .*{problem}.*Remove it, and fetch it again"):
        data_fetch.fetch("fruit", tmp_path / "in", server.url, None)
    assert not list(tmp_path.glob("in/.fetched-*"))
    assert archive.startswith(b"PK") or not list(tmp_path.rglob("one.txt"))


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6777, 0o644, 0o000])
def test_files_belong_to_the_user_and_have_no_special_rights(tmp_path, mode):
    (tmp_path / "data.tar").write_bytes(packed(mode=mode, uid=1234, gid=1234, uname="daemon"))
    data_fetch.unpack(tmp_path / "data.tar", tmp_path)
    status = (tmp_path / "one.txt").stat()
    assert (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())
    assert stat.S_IMODE(status.st_mode) == (0o755 if mode & 0o100 else 0o644)


def test_files_larger_than_the_disk_are_neither_fetched_nor_unpacked(server, tmp_path, monkeypatch):
    usage = data_fetch.shutil.disk_usage(tmp_path)._replace(free=2)
    monkeypatch.setattr(data_fetch.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ConfigError, match="GB to fetch"):
        data_fetch.download(server.url, tmp_path / "data", None)
    for name, content in (("data.tar", packed()), ("data.zip", zipped())):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match="GB to unpack"):
            data_fetch.unpack(tmp_path / name, tmp_path)
    assert not (tmp_path / "one.txt").exists()
