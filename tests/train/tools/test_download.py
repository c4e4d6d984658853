import hashlib
import urllib.request

import pytest

from train.config.checks import ConfigError
from train.tools import download


def md5(content: bytes) -> str:
    return f"md5:{hashlib.md5(content).hexdigest()}"


def test_a_download_that_breaks_off_twice_resumes_where_it_stopped(server, tmp_path):
    server.content = bytes(range(256)) * 40
    server.break_after = [1000, 2000]
    download.download(server.url, tmp_path / "data", md5(server.content), pause_s=0)
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
    download.download(server.url, tmp_path / "data", md5(server.content), pause_s=0)
    assert (tmp_path / "data").read_bytes() == server.content
    assert server.requests == requests


def test_other_bytes_than_expected_are_removed_and_both_checksums_named(server, tmp_path):
    server.content = b"other bytes"
    with pytest.raises(ConfigError, match=r"11 bytes have the md5 \w{32}; expected 0{32}"):
        download.download(server.url, tmp_path / "data", "md5:" + "0" * 32)
    assert not list(tmp_path.iterdir())


def test_a_server_that_brings_nothing_is_dropped_and_the_part_is_kept(server, tmp_path):
    server.content = b"0123456789"
    server.break_after = [4, 0, 0, 0, 0, 0]
    with pytest.raises(ConfigError, match=r"tried 5 times. 4 bytes are kept in .*data.part"):
        download.download(server.url, tmp_path / "data", None, pause_s=0)
    assert (tmp_path / "data.part").read_bytes() == b"0123"


def test_a_file_larger_than_the_disk_is_refused_before_it_is_fetched(server, tmp_path, monkeypatch):
    server.content = b"0123456789"
    usage = download.shutil.disk_usage(tmp_path)._replace(free=9)
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ConfigError, match="to fetch"):
        download.download(server.url, tmp_path / "data", None)


def test_a_missing_file_is_reported_at_once(server, tmp_path):
    with pytest.raises(ConfigError, match="must begin with http"):
        download.download("file:///etc/hostname", tmp_path / "data", None)


@pytest.mark.parametrize("text", ["c58f", "md5:12", "md4:" + "0" * 32, "md5:" + "g" * 32])
def test_a_checksum_must_name_its_algorithm_and_have_its_length(text):
    with pytest.raises(ConfigError, match="hexadecimal digits"):
        download.parse_checksum(text)


def test_progress_by_hand():
    # 50 of 100 MB, of which 20 in 4 s: 5 MB/s, so the other 50 take 10 s.
    assert download.progress(50_000_000, 100_000_000, 20_000_000, 4.0) == (
        "50.0 MB of 100.0 MB, 50 %, 5.0 MB/s, 10 s left"
    )


@pytest.mark.parametrize("scheme", ["ftp", "file"])
def test_a_redirect_to_another_scheme_is_not_followed(server, tmp_path, scheme):
    server.redirect = f"{scheme}://127.0.0.1/etc/hostname"
    with pytest.raises(ConfigError, match=f"{scheme}://127"):
        download.download(server.url, tmp_path / "data", None, pause_s=0)
    assert list(tmp_path.iterdir()) == []


def test_a_redirect_from_https_to_http_is_not_followed():
    asked = urllib.request.Request("https://example.org/data")
    follow = download.SameKind().redirect_request
    answer = (None, 302, "Found", {})
    with pytest.raises(ConfigError, match=r"redirected to http://example\.org/data"):
        follow(asked, *answer, "http://example.org/data")
    assert follow(asked, *answer, "https://other.example.org/data").full_url == "https://other.example.org/data"


@pytest.mark.parametrize("length", ["ten", "-1", "1e3", "²"])
def test_a_length_that_is_no_number_is_reported(server, tmp_path, length):
    server.content, server.headers = b"0123456789", {"Content-Length": length}
    with pytest.raises(ConfigError, match="the server says Content-Length: "):
        download.download(server.url, tmp_path / "data", None, pause_s=0)
