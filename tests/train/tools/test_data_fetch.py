import hashlib
import io
import os
import stat
import tarfile
import zipfile

import pytest

from tests.helpers import ROOT
from train.config.checks import ConfigError
from train.tools import data_fetch


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
