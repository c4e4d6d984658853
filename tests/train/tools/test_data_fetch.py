import hashlib
import io
import tarfile

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
