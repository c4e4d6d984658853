import io
import subprocess
import tarfile

import pytest

from analysis.__main__ import main
from analysis.commands import bundle

FILES = {"README.txt": "read me", "results/a/record.json": "{}", "figures/one.svg": "<svg/>"}


def key(folder, name="id_ed25519"):
    """A new SSH key."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name], check=True)
    return folder / name


@pytest.fixture
def packed(tmp_path):
    """Returns a function that seals FILES, lets someone change the folder after that, and packs it."""

    def make(sign_key=None, change=lambda folder: None):
        folder = tmp_path / "stage"
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        bundle.seal(folder, sign_key)
        change(folder)
        path = tmp_path / "bundle.tar.gz"
        path.write_bytes(bundle.archive(folder))
        return str(path)

    return make


def test_an_archive_as_it_was_packed(packed, capsys):
    assert main(["bundle-check", packed()]) == 0
    told = capsys.readouterr().out
    assert "3 files in the MANIFEST, none wrong" in told
    assert "not signed: this shows damage by accident, not a change on purpose" in told


def test_each_file_that_differs_is_missing_or_extra_is_named(packed, capsys):
    def change(folder):
        (folder / "README.txt").write_text("read me not")
        (folder / "figures/one.svg").unlink()
        (folder / "figures/two.svg").write_text("<svg/>")

    path = packed(change=change)
    assert main(["bundle-check", path]) == 1
    assert capsys.readouterr().out.splitlines()[:4] == [
        "differs: README.txt",
        "extra: figures/two.svg is not in the MANIFEST",
        "missing: figures/one.svg",
        f"{path}: 3 files in the MANIFEST, 3 wrong",
    ]


def test_who_signed_it(packed, tmp_path, capsys):
    mine, other = key(tmp_path), key(tmp_path, "other")
    path = packed(mine)
    assert main(["bundle-check", path]) == 0
    told = capsys.readouterr().out
    assert 'Good "horovod-scaling-kit" signature with ED25519 key SHA256:' in told
    assert "whose key it is, its owner can tell" in told
    assert main(["bundle-check", path, "--sign-key", f"{mine}.pub"]) == 0
    assert 'Good "horovod-scaling-kit" signature for author' in capsys.readouterr().out
    assert main(["bundle-check", path, "--sign-key", f"{other}.pub"]) == 1
    assert main(["bundle-check", path, "--sign-key", str(mine)]) == 2
    assert "give the public key of who signed" in capsys.readouterr().err


def test_a_manifest_that_was_written_again_has_no_good_signature(packed, tmp_path, capsys):
    def change(folder):
        (folder / "results/a/record.json").write_text('{"better": 1}')
        signature = (folder / "MANIFEST.sig").read_bytes()
        for name in ("MANIFEST", "MANIFEST.sig"):
            (folder / name).unlink()
        bundle.seal(folder, None)
        (folder / "MANIFEST.sig").write_bytes(signature)

    assert main(["bundle-check", packed(key(tmp_path), change)]) == 1
    told = capsys.readouterr().out
    assert "none wrong" in told
    assert "signature: " in told
    assert "incorrect signature" in told


def test_an_archive_that_should_be_signed_and_is_not(packed, tmp_path):
    assert main(["bundle-check", packed(), "--sign-key", f"{key(tmp_path)}.pub"]) == 1


def test_an_unpacked_archive_can_be_checked_too(packed, tmp_path):
    with tarfile.open(packed()) as tar:
        tar.extractall(tmp_path / "there")
    assert main(["bundle-check", str(tmp_path / "there" / "bundle")]) == 0
    (tmp_path / "there" / "bundle" / "link").symlink_to("/etc/passwd")
    assert main(["bundle-check", str(tmp_path / "there" / "bundle")]) == 1


def test_links_and_files_that_are_there_twice_are_named(tmp_path, packed, capsys):
    path = packed()
    with tarfile.open(path) as tar:
        members = [(member, tar.extractfile(member).read()) for member in tar]
    with tarfile.open(path, "w:gz") as tar:
        for member, content in [*members, members[0]]:
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("bundle/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    assert main(["bundle-check", path]) == 1
    told = capsys.readouterr().out
    assert "is there twice" in told
    assert "extra: link is no plain file" in told


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_what_is_no_archive(tmp_path, capsys, content):
    path = tmp_path / "b.tar.gz"
    if content is not None:
        path.write_bytes(content)
    assert main(["bundle-check", str(path)]) == 2
    assert "b.tar.gz: not a" in capsys.readouterr().err


def test_an_archive_without_a_manifest_and_a_damaged_manifest(packed, capsys):
    assert main(["bundle-check", packed(change=lambda folder: (folder / "MANIFEST").unlink())]) == 2
    assert "no MANIFEST in it" in capsys.readouterr().err
    assert main(["bundle-check", packed(change=lambda folder: (folder / "MANIFEST").write_text("abc\n"))]) == 2
    assert "MANIFEST: line 1: 'abc' given" in capsys.readouterr().err


def test_a_file_of_another_kind(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("notes")
    assert main(["bundle-check", str(tmp_path / "notes.txt")]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.endswith("notes.txt: not a whole archive: file could not be opened successfully")
