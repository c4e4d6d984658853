import json
import shutil
import subprocess
import tarfile

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


def test_an_archive_as_it_was_packed(packed, command):
    output = command("bundle-check", packed()).out
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


def test_an_unpacked_archive_can_be_checked_too(packed, command, tmp_path):
    with tarfile.open(packed()) as tar:
        tar.extractall(tmp_path / "there")
    folder = tmp_path / "there" / "bundle"
    command("bundle-check", folder)
    (folder / "link").symlink_to("/etc/passwd")
    assert "extra: link is not a regular file" in command("bundle-check", folder, status=1).out


def test_line_ends_white_space_and_backups_are_named_and_do_not_fail(packed, command, tmp_path):
    with tarfile.open(packed()) as tar:
        tar.extractall(tmp_path / "there")
    folder = tmp_path / "there" / "bundle"
    (record,) = folder.rglob("record.json")
    for path in folder.rglob("*"):
        if path.name in ("README.txt", "ledger.jsonl") or path.name.startswith("rank-"):
            path.write_bytes((b"\xef\xbb\xbf" if path.name == "README.txt" else b"") + crlf(path.read_bytes()))
    record.write_text(json.dumps(json.loads(record.read_text()), indent=2))
    shutil.copytree(record.parent, record.parent.with_name("r0-old"))
    (folder / "README.txt~").write_text("read me, once")
    output = command("bundle-check", folder).out
    assert output.count("it says the same") >= 4
    assert output.count("a backup: not in the MANIFEST, and not used") == 4
    assert "1 of 1 records made again from their files" in output
    record.with_name("rank-9.host0.7.jsonl").write_text("{}")
    assert "extra: results/" in command("bundle-check", folder, status=1).out
    record.with_name("rank-9.host0.7.jsonl").unlink()
    (folder / "README.txt").write_bytes(crlf(b"read me not\n"))
    assert "differs: README.txt" in command("bundle-check", folder, status=1).out


def crlf(content):
    return content.replace(b"\n", b"\r\n")


def without_records(folder):
    shutil.rmtree(folder / "results")


def in_another_folder(folder):
    (folder / "results").rename(folder / "Results")


def without_files_of_ranks(folder):
    for path in folder.rglob("rank-*.jsonl"):
        path.unlink()


def with_another_time(folder):
    (path,) = folder.rglob("record.json")
    path.write_bytes(path.read_bytes().replace(b'"job_s":1', b'"job_s":2'))


NOT_MADE_AGAIN = "failed: none of its records was made again from its files\n"


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        (without_records, ["0 of 0 records made again from their files", NOT_MADE_AGAIN]),
        (in_another_folder, ["0 of 0 records made again from their files", NOT_MADE_AGAIN]),
        (without_files_of_ranks, ["0 of 1 records made again from their files; 1 not compared", NOT_MADE_AGAIN]),
        (with_another_time, ["serious record_changed: results/", "serious unreadable_record: results/"]),
    ],
)
def test_an_archive_that_was_changed_and_sealed_again(packed, command, change, messages):
    def change_and_seal(folder):
        change(folder)
        (folder / "MANIFEST").unlink()
        bundle.seal(folder, None)

    output = command("bundle-check", packed(change=change_and_seal), status=1).out
    assert all(message in output for message in ("none wrong\n", *messages)), output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "MANIFEST").unlink(), "no MANIFEST in it"),
        (lambda folder: (folder / "MANIFEST").write_text("abc\n"), "MANIFEST: line 1: 'abc' given"),
    ],
)
def test_an_archive_without_a_manifest_and_a_damaged_manifest(packed, command, change, message):
    assert message in command("bundle-check", packed(change=change), status=2).err
