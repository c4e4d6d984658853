"""Fetching against a real HTTP server on this machine, which can break off, refuse to resume, or send other bytes."""

import hashlib
import io
import re
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.helpers import ROOT
from train.config.schema import ConfigError
from train.tools import data_fetch


class Server:
    """Serves `content`; what it was asked for, as (first byte, status), is in `requests`."""

    def __init__(self) -> None:
        self.content = b""
        self.requests: list[tuple[int, int]] = []
        self.break_after: list[int] = []  # bytes, of the next answers
        self.resumes = True
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
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
                self.send_header("Content-Length", str(len(body)))
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


def packed(names: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in names.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def md5(content: bytes) -> str:
    return f"md5:{hashlib.md5(content).hexdigest()}"


def test_a_download_that_breaks_off_twice_goes_on_where_it_stopped(server, tmp_path):
    server.content = bytes(range(256)) * 40
    server.break_after = [1000, 2000]
    data_fetch.download(server.url, tmp_path / "data", md5(server.content), pause_s=0)
    assert (tmp_path / "data").read_bytes() == server.content
    assert server.requests == [(0, 200), (1000, 206), (3000, 206)]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_an_earlier_command_left_is_not_fetched_again(server, tmp_path):
    server.content = b"0123456789"
    (tmp_path / "data.part").write_bytes(b"01234567")
    data_fetch.download(server.url, tmp_path / "data", md5(server.content))
    assert (tmp_path / "data").read_bytes() == server.content
    assert server.requests == [(8, 206)]


def test_a_part_that_is_whole_is_verified_and_named(server, tmp_path):
    server.content = b"0123456789"
    (tmp_path / "data.part").write_bytes(server.content)
    data_fetch.download(server.url, tmp_path / "data", md5(server.content))
    assert server.requests == [(10, 416)]
    assert (tmp_path / "data").read_bytes() == server.content


def test_a_part_longer_than_the_file_is_begun_anew(server, tmp_path):
    server.content = b"0123456789"
    (tmp_path / "data.part").write_bytes(b"another file, longer")
    data_fetch.download(server.url, tmp_path / "data", md5(server.content), pause_s=0)
    assert server.requests == [(20, 416), (0, 200)]
    assert (tmp_path / "data").read_bytes() == server.content


def test_a_server_that_cannot_resume_sends_all(server, tmp_path):
    server.content, server.resumes = b"0123456789", False
    (tmp_path / "data.part").write_bytes(b"wrong")
    data_fetch.download(server.url, tmp_path / "data", md5(server.content))
    assert (tmp_path / "data").read_bytes() == server.content


def test_other_bytes_than_expected_are_removed_and_both_checksums_named(server, tmp_path):
    server.content = b"other bytes"
    with pytest.raises(ConfigError, match=r"11 bytes have the md5 \w{32}; expected is 0{32}"):
        data_fetch.download(server.url, tmp_path / "data", "md5:" + "0" * 32)
    assert not list(tmp_path.iterdir())


def test_a_server_that_brings_nothing_is_given_up_and_what_came_is_kept(server, tmp_path):
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


def test_a_missing_file_is_said_at_once(server, tmp_path):
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


def test_every_dataset_read_from_files_has_a_source():
    conf = ROOT / "conf" / "dataset"
    files = {path.stem for path in conf.glob("*.yaml") if "\nfiles: true" in path.read_text()}
    assert set(data_fetch.SOURCES) == files
