import json
import shutil
import subprocess
import tarfile
from functools import partial
from pathlib import Path

import pytest

from analysis.archive import manifest
from analysis.commands import bundle
from tests.helpers import launched
from tests.helpers.needs import needs

FILES = {"README.txt": "read me\n", "figures/one.svg": "<svg/>"}  # beside the four of a launch


def key(folder, name="id_ed25519"):
    """A new SSH key."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name], check=True)
    return folder / name


@pytest.fixture
def packed(tmp_path):
    """Return a function that seals FILES and a launch in a folder, applies `change` to it, and packs it."""

    def make(sign_key=None, change=lambda folder: None):
        folder = tmp_path / "stage"
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        launched.launch(folder / "results", 1, 0, plan=launched.names(launched.PLAN[:1]))
        bundle.seal(folder, sign_key)
        change(folder)
        path = tmp_path / "bundle.tar.gz"
        path.write_bytes(bundle.archive(folder))
        shutil.rmtree(folder)
        return path

    return make


def unpacked(path, tmp_path):
    with tarfile.open(path) as tar:
        tar.extractall(tmp_path / "there")
    return tmp_path / "there/bundle"


def test_an_archive_as_it_was_packed_and_unpacked(packed, command, tmp_path):
    path = packed()
    folder = unpacked(path, tmp_path)
    for given in (path, folder):
        output = command("bundle-check", given).out
        assert "6 files in the MANIFEST, none wrong" in output
        assert "\n1 of 1 records made again from their files\n" in output
        assert "not signed: this shows damage by accident, not a change on purpose" in output


def test_each_file_that_differs_is_missing_or_extra_is_named(packed, command):
    def change(folder):
        (folder / "README.txt").write_text("read me not")
        (folder / "figures/one.svg").unlink()
        (folder / "figures/two.svg").write_text("<svg/>")

    path = packed(change=change)
    assert command("bundle-check", path, status=1).out.splitlines()[:4] == [
        "differs: README.txt",
        "extra: figures/two.svg is not in the MANIFEST",
        "missing: figures/one.svg",
        f"{path}: 6 files in the MANIFEST, 3 wrong",
    ]


@pytest.mark.slow
@needs("ssh-keygen")
def test_who_signed_it(packed, command, tmp_path):
    mine, other = key(tmp_path), key(tmp_path, "other")
    path = packed(mine)
    output = command("bundle-check", path).out
    assert 'Good "horovod-scaling-kit" signature with ED25519 key SHA256:' in output
    assert "whose key it is, its owner can tell" in output
    output = command("bundle-check", path, "--sign-key", f"{mine}.pub").out
    assert 'Good "horovod-scaling-kit" signature for author' in output
    command("bundle-check", path, "--sign-key", f"{other}.pub", status=1)
    assert "give the public key of who signed" in command("bundle-check", path, "--sign-key", mine, status=2).err
    output = command("bundle-check", packed(), "--sign-key", f"{mine}.pub", status=1).out
    assert output.endswith(f"failed: it is not signed, and SIGN_KEY={mine}.pub must have\n")


def edit(folder, _):
    (folder / "figures/one.svg").write_text("<svg>better</svg>")


def edit_digest(folder, _):
    (folder / "MANIFEST").write_text((folder / "MANIFEST").read_text().replace("a", "b"))


def edit_and_digest_again(folder, _):
    """Keep the old signature."""
    old = (folder / "MANIFEST.sig").read_bytes()
    edit_and_seal_again(folder, None)
    (folder / "MANIFEST.sig").write_bytes(old)


def edit_and_seal_again(folder, sign_key):
    edit(folder, None)
    for name in ("MANIFEST", "MANIFEST.sig"):
        (folder / name).unlink()
    bundle.seal(folder, sign_key)


def sign_again(folder, sign_key):
    (folder / "MANIFEST.sig").write_bytes(manifest.sign((folder / "MANIFEST").read_bytes(), sign_key))


@pytest.mark.slow
@needs("ssh-keygen")
@pytest.mark.parametrize(
    ("change", "message"),  # without the key of the author
    [
        (edit, "differs: figures/one.svg"),
        (edit_digest, "signature: "),
        (edit_and_digest_again, "incorrect signature"),
        (lambda folder, _: (folder / "MANIFEST.sig").unlink(), "missing: MANIFEST.sig: the MANIFEST says"),
        (sign_again, "it is by another key than SHA256:"),
        (lambda folder, _: (folder / "MANIFEST.sig").write_text("x"), "signature: "),
        (edit_and_seal_again, None),
    ],
    ids=["a record", "a digest", "both", "no signature", "the signature of another", "no text of a signature", "all"],
)
def test_a_signed_archive_that_was_changed(packed, command, tmp_path, change, message):
    """An archive that was made again with another key is found only with the key of the author."""
    mine, other = key(tmp_path), key(tmp_path, "other")
    path = packed(mine, lambda folder: change(folder, other))
    assert (message or "none wrong") in command("bundle-check", path, status=int(bool(message))).out
    command("bundle-check", path, "--sign-key", f"{mine}.pub", status=1)


def test_line_ends_white_space_and_backups_are_named_and_do_not_fail(packed, command, tmp_path):
    folder = unpacked(packed(), tmp_path)
    (record,) = folder.rglob("record.json")
    for path in (folder / "README.txt", *folder.rglob("ledger.jsonl"), *folder.rglob("rank-*")):
        path.write_bytes(b"\xef\xbb\xbf" * (path.name == "README.txt") + crlf(path.read_bytes()))
    record.write_text(json.dumps(json.loads(record.read_text()), indent=2))
    shutil.copytree(record.parent, record.parent.with_name("r0-old"))
    (folder / "README.txt~").write_text("read me, once")
    output = command("bundle-check", folder).out
    assert output.count("it says the same") >= 4
    assert output.count("a backup: not in the MANIFEST, and not used") == 4
    assert "1 of 1 records made again from their files" in output
    record.with_name("rank-9.host0.7.jsonl").write_text("{}")
    (folder / "README.txt").write_bytes(crlf(b"read me not\n"))
    output = command("bundle-check", folder, status=1).out
    assert [text in output for text in ("extra: results/", "differs: README.txt")] == [True, True]


def crlf(content):
    return content.replace(b"\n", b"\r\n")


def without_files_of_ranks(folder):
    for path in folder.rglob("rank-*.jsonl"):
        path.unlink()


def with_another_time(folder):
    (path,) = folder.rglob("record.json")
    path.write_bytes(path.read_bytes().replace(b'"job_s":1', b'"job_s":2'))


NONE = "failed: none of its records was made again from its files\n"
RECORDS = "{} records made again from their files"
SEALED_AGAIN = [
    (lambda folder: shutil.rmtree(folder / "results"), (RECORDS.format("0 of 0"), NONE)),
    (lambda folder: (folder / "results").rename(folder / "Results"), (RECORDS.format("0 of 0"), NONE)),
    (without_files_of_ranks, (RECORDS.format("0 of 1") + "; 1 not compared", NONE)),
    (with_another_time, ("serious record_changed: results/", "serious unreadable_record: results/")),
]


@pytest.mark.parametrize(("change", "messages"), SEALED_AGAIN)
def test_an_archive_that_was_changed_and_sealed_again(packed, command, change, messages):
    def change_and_seal(folder):
        change(folder)
        (folder / "MANIFEST").unlink()
        bundle.seal(folder, None)

    output = command("bundle-check", packed(change=change_and_seal), status=1).out
    assert all(message in output for message in ("none wrong\n", *messages)), output


def test_an_archive_without_a_manifest_and_a_damaged_manifest(packed, command):
    for change, message in (
        (Path.unlink, "no MANIFEST in it"),
        (partial(Path.write_text, data="abc\n"), "MANIFEST: line 1: 'abc' given"),
    ):
        path = packed(change=lambda folder, change=change: change(folder / "MANIFEST"))
        assert message in command("bundle-check", path, status=2).err
