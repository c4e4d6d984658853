import hashlib
import io
import os
import re
import stat
import tarfile
import threading
import urllib.request
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.helpers import ROOT
from train.config.checks import ConfigError
from train.tools import data_fetch


class Server:
    """A real HTTP server on this machine, which can close the connection early, refuse to resume, or send other bytes.

    Serves `content`; what it was asked for, as (first byte, status), is in `requests`.
    """

    def __init__(self) -> None:
        self.content = b""
        self.requests: list[tuple[int, int]] = []
        self.break_after: list[int] = []  # bytes, of the next answers
        self.resumes = True
        self.headers: dict[str, str] = {}  # in place of its own, of all answers
        self.redirect: str | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if outer.redirect:
                    self.send_response(302)
                    self.send_header("Location", outer.redirect)
                    self.end_headers()
                    return
                asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
                begin = int(asked[1]) if asked and outer.resumes else 0
                if begin and begin >= len(outer.content):
                    outer.requests.append((begin, 416))
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(outer.content)}")
                    self.end_headers()
                    return
                status = 206 if begin else 200
                outer.requests.append((begin, status))
                body = outer.content[begin:]
                self.send_response(status)
                headers = {"Content-Length": str(len(body))}
                if begin:
                    headers["Content-Range"] = f"bytes {begin}-{len(outer.content) - 1}/{len(outer.content)}"
                for name, value in (headers | outer.headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body[: outer.break_after.pop(0)] if outer.break_after else body)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/data.tar.gz"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server():
    running = Server()
    yield running
    running.stop()


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
        *(  # another range than was asked for
            (b"0123", True, {"Content-Range": sent}, [(4, 206), (0, 200)])
            for sent in ("bytes 0-9/10", "bytes 5-9/10", "items 4-9/10", "")
        ),
    ],
)
def test_what_an_earlier_command_left_is_not_fetched_again_where_it_fits(
    server, tmp_path, part, resumes, sent, requests
):
    server.content, server.resumes, server.headers = b"0123456789", resumes, sent
    (tmp_path / "data.part").write_bytes(part)
    data_fetch.download(server.url, tmp_path / "data", md5(server.content), pause_s=0)
    assert (tmp_path / "data").read_bytes() == server.content
    assert server.requests == requests


def test_other_bytes_than_expected_are_removed_and_both_checksums_named(server, tmp_path):
    server.content = b"other bytes"
    with pytest.raises(ConfigError, match=r"11 bytes have the md5 \w{32}; expected 0{32}"):
        data_fetch.download(server.url, tmp_path / "data", "md5:" + "0" * 32)
    assert not list(tmp_path.iterdir())


def test_a_server_that_brings_nothing_is_dropped_and_the_part_is_kept(server, tmp_path):
    server.content = b"0123456789"
    server.break_after = [4, 0, 0, 0, 0, 0]
    with pytest.raises(ConfigError, match=r"tried 5 times. 4 bytes are kept in .*data.part"):
        data_fetch.download(server.url, tmp_path / "data", None, pause_s=0)
    assert (tmp_path / "data.part").read_bytes() == b"0123"


def test_a_file_larger_than_the_disk_is_refused_before_it_is_fetched(server, tmp_path, monkeypatch):
    server.content = b"0123456789"
    usage = data_fetch.shutil.disk_usage(tmp_path)._replace(free=9)
    monkeypatch.setattr(data_fetch.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ConfigError, match="to fetch"):
        data_fetch.download(server.url, tmp_path / "data", None)


def test_a_missing_file_is_reported_at_once(server, tmp_path):
    with pytest.raises(ConfigError, match="must begin with http"):
        data_fetch.download("file:///etc/hostname", tmp_path / "data", None)


@pytest.mark.parametrize("text", ["c58f", "md5:12", "md4:" + "0" * 32, "md5:" + "g" * 32])
def test_a_checksum_must_name_its_algorithm_and_have_its_length(text):
    with pytest.raises(ConfigError, match="hexadecimal digits"):
        data_fetch.parse_checksum(text)


def test_progress_by_hand():
    # 50 of 100 MB, of which 20 in 4 s: 5 MB/s, so the other 50 take 10 s.
    assert data_fetch.progress(50_000_000, 100_000_000, 20_000_000, 4.0) == (
        "50.0 MB of 100.0 MB, 50 %, 5.0 MB/s, 10 s left"
    )


@pytest.mark.parametrize("scheme", ["ftp", "file"])
def test_a_redirect_to_another_scheme_is_not_followed(server, tmp_path, scheme):
    server.redirect = f"{scheme}://127.0.0.1/etc/hostname"
    with pytest.raises(ConfigError, match=f"{scheme}://127"):
        data_fetch.download(server.url, tmp_path / "data", None, pause_s=0)
    assert list(tmp_path.iterdir()) == []


def test_a_redirect_from_https_to_http_is_not_followed():
    asked = urllib.request.Request("https://example.org/data")
    follow = data_fetch.SameKind().redirect_request
    answer = (None, 302, "Found", {})
    with pytest.raises(ConfigError, match=r"redirected to http://example\.org/data"):
        follow(asked, *answer, "http://example.org/data")
    assert follow(asked, *answer, "https://other.example.org/data").full_url == "https://other.example.org/data"


@pytest.mark.parametrize("length", ["ten", "-1", "1e3", "²"])
def test_a_length_that_is_no_number_is_reported(server, tmp_path, length):
    server.content, server.headers = b"0123456789", {"Content-Length": length}
    with pytest.raises(ConfigError, match="the server says Content-Length: "):
        data_fetch.download(server.url, tmp_path / "data", None, pause_s=0)


def packed(names: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in names.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_fetch_unpacks_once(server, tmp_path, capsys):
    server.content = packed({"set/one.txt": b"one"})
    data_fetch.fetch("fruit", tmp_path, server.url, md5(server.content))
    assert (tmp_path / "set/one.txt").read_bytes() == b"one"
    assert not (tmp_path / "data.tar.gz").exists()
    data_fetch.fetch("fruit", tmp_path, server.url, md5(server.content))
    assert len(server.requests) == 1
    assert "fetched and unpacked before" in capsys.readouterr().out


def test_without_a_checksum_it_says_that_nothing_was_verified(server, tmp_path, capsys):
    server.content = packed({"one.txt": b"one"})
    data_fetch.fetch("fruit", tmp_path, server.url, None)
    assert f"not verified, no checksum is known. It has the sha256 {hashlib.sha256(server.content).hexdigest()}" in (
        capsys.readouterr().out
    )


def test_an_archive_that_reaches_out_of_the_folder_is_refused(server, tmp_path):
    server.content = packed({"../outside.txt": b"one"})
    with pytest.raises(ConfigError, match="cannot be unpacked"):
        data_fetch.fetch("fruit", tmp_path / "inside", server.url, None)
    assert not (tmp_path / "outside.txt").exists()


@pytest.mark.parametrize("dataset", ["imagenet", "imdb_wiki", "fruit"])
def test_what_is_not_fetched_names_where_it_is(dataset, tmp_path):
    with pytest.raises(ConfigError, match=f"{dataset} is not fetched by the kit. .*(https://|Kaggle).*URL="):
        data_fetch.fetch(dataset, tmp_path / "none", None, None)
    assert not (tmp_path / "none").exists()


def test_every_dataset_read_from_files_has_a_source():
    conf = ROOT / "conf" / "dataset"
    files = {path.stem for path in conf.glob("*.yaml") if "\nfiles: true" in path.read_text()}
    assert set(data_fetch.SOURCES) == files


def test_an_archive_that_is_there_is_verified(server, tmp_path):
    (tmp_path / "data.tar.gz").write_bytes(packed({"one.txt": b"one"}))
    with pytest.raises(ConfigError, match=r"data.tar.gz: has the md5 \w{32}; expected 0{32}. Remove it"):
        data_fetch.fetch("fruit", tmp_path, server.url, "md5:" + "0" * 32)
    data_fetch.fetch("fruit", tmp_path, server.url, md5((tmp_path / "data.tar.gz").read_bytes()))
    assert (tmp_path / "one.txt").read_bytes() == b"one"
    assert server.requests == []


def zipped(content: bytes, method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("one.txt", content)
    return buffer.getvalue()


def with_wrong_crc() -> dict[str, bytes]:
    tar = packed({"one.txt": b"one"})
    return {
        "gzip": tar[:-8] + bytes(4) + tar[-4:],  # RFC 1952: CRC32, then the length
        "gzip cut off": tar[:-9],
        "zip": zipped(b"content").replace(b"content", b"changed", 1),
    }


@pytest.mark.parametrize("kind", with_wrong_crc())
def test_an_archive_with_a_wrong_checksum_is_not_done(server, tmp_path, kind):
    server.content = with_wrong_crc()[kind]
    with pytest.raises(ConfigError, match=r"cannot be unpacked: .*Remove it, and fetch it again"):
        data_fetch.fetch("fruit", tmp_path, server.url, None)
    assert not list(tmp_path.glob(".fetched-*"))
    assert kind == "zip" or not (tmp_path / "one.txt").exists()


def test_a_zip_with_a_password_is_reported(server, tmp_path):
    content = bytearray(zipped(b"content"))
    for signature, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):  # the flag of encryption, in both headers
        content[content.index(signature) + flags] |= 1
    server.content = bytes(content)
    with pytest.raises(ConfigError, match=r"cannot be unpacked: .*password"):
        data_fetch.fetch("fruit", tmp_path, server.url, None)


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6777, 0o644, 0o000])
def test_files_belong_to_the_user_and_have_no_special_rights(tmp_path, mode):
    with tarfile.open(tmp_path / "data.tar", "w") as tar:
        member = tarfile.TarInfo("program")
        member.mode, member.uid, member.gid, member.uname = mode, 1234, 1234, "daemon"
        tar.addfile(member)
    data_fetch.unpack(tmp_path / "data.tar", tmp_path)
    made = (tmp_path / "program").stat()
    assert (made.st_uid, made.st_gid) == (os.geteuid(), os.getegid())
    assert stat.S_IMODE(made.st_mode) == (0o755 if mode & 0o100 else 0o644)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(tmp_path, kind):
    with tarfile.open(tmp_path / "data.tar", "w") as tar:
        member = tarfile.TarInfo("program")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(ConfigError, match="program is not a regular file"):
        data_fetch.unpack(tmp_path / "data.tar", tmp_path)
    assert not (tmp_path / "program").exists()


def test_an_archive_larger_than_the_disk_is_not_unpacked(tmp_path, monkeypatch):
    usage = data_fetch.shutil.disk_usage(tmp_path)._replace(free=2)
    monkeypatch.setattr(data_fetch.shutil, "disk_usage", lambda path: usage)
    for name, content in (("data.tar", packed({"one.txt": b"one"})), ("data.zip", zipped(b"one"))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match="GB to unpack"):
            data_fetch.unpack(tmp_path / name, tmp_path)
    assert not (tmp_path / "one.txt").exists()
