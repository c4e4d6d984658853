import hashlib
import io
import subprocess
import tarfile

import pytest

from analysis.__main__ import main
from analysis.archive import manifest
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
    output = capsys.readouterr().out
    assert "3 files in the MANIFEST, none wrong" in output
    assert "not signed: this shows damage by accident, not a change on purpose" in output


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


@pytest.mark.slow
def test_who_signed_it(packed, tmp_path, capsys):
    mine, other = key(tmp_path), key(tmp_path, "other")
    path = packed(mine)
    assert main(["bundle-check", path]) == 0
    output = capsys.readouterr().out
    assert 'Good "horovod-scaling-kit" signature with ED25519 key SHA256:' in output
    assert "whose key it is, its owner can tell" in output
    assert main(["bundle-check", path, "--sign-key", f"{mine}.pub"]) == 0
    assert 'Good "horovod-scaling-kit" signature for author' in capsys.readouterr().out
    assert main(["bundle-check", path, "--sign-key", f"{other}.pub"]) == 1
    assert main(["bundle-check", path, "--sign-key", str(mine)]) == 2
    assert "give the public key of who signed" in capsys.readouterr().err


def edited(folder):
    (folder / "results/a/record.json").write_text('{"better": 1, "sha256": "of that"}')


def sealed(folder, sign_key=None):
    """Digest all files again; where there is no key, with the signature that there was."""
    old = (folder / "MANIFEST.sig").read_bytes()
    for name in ("MANIFEST", "MANIFEST.sig"):
        (folder / name).unlink()
    bundle.seal(folder, sign_key)
    if not sign_key:
        (folder / "MANIFEST.sig").write_bytes(old)


def signed_by(other, folder):
    (folder / "MANIFEST.sig").write_bytes(manifest.sign((folder / "MANIFEST").read_bytes(), other))


SIGNED = {  # what is done to a signed archive, and what is said of it without the key of its author
    "a record": (lambda folder, other: edited(folder), "differs: results/a/record.json"),
    "a digest": (
        lambda folder, other: (folder / "MANIFEST").write_text((folder / "MANIFEST").read_text().replace("a", "b")),
        "signature: ",
    ),
    "a record and its digest": (lambda folder, other: (edited(folder), sealed(folder)), "incorrect signature"),
    "no signature": (
        lambda folder, other: (folder / "MANIFEST.sig").unlink(),
        "missing: MANIFEST.sig: the MANIFEST says that it was signed with SHA256:",
    ),
    "the signature of another": (lambda folder, other: signed_by(other, folder), "it is by another key than SHA256:"),
    "no text of a signature": (lambda folder, other: (folder / "MANIFEST.sig").write_text("x"), "signature: "),
    "everything": (lambda folder, other: (edited(folder), sealed(folder, other)), None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNED)
def test_a_signed_archive_that_was_changed(packed, tmp_path, capsys, name):
    """Who makes all of it again, with a key of their own, is found only with that of the author."""
    mine, other = key(tmp_path), key(tmp_path, "other")
    change, printed = SIGNED[name]
    path = packed(mine, lambda folder: change(folder, other))
    assert main(["bundle-check", path]) == (1 if printed else 0)
    assert (printed or "none wrong") in capsys.readouterr().out
    assert main(["bundle-check", path, "--sign-key", f"{mine}.pub"]) == 1


@pytest.mark.slow
def test_an_archive_that_should_be_signed_and_is_not(packed, tmp_path):
    assert main(["bundle-check", packed(), "--sign-key", f"{key(tmp_path)}.pub"]) == 1


def test_an_unpacked_archive_can_be_checked_too(packed, tmp_path):
    with tarfile.open(packed()) as tar:
        tar.extractall(tmp_path / "there")
    assert main(["bundle-check", str(tmp_path / "there" / "bundle")]) == 0
    (tmp_path / "there" / "bundle" / "link").symlink_to("/etc/passwd")
    assert main(["bundle-check", str(tmp_path / "there" / "bundle")]) == 1


def named(name, kind=tarfile.REGTYPE):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member


ODD = {  # a member that is added, and what is said of it
    named("bundle/README.txt"): "extra: README.txt occurs twice",
    named("bundle/MANIFEST"): "extra: MANIFEST occurs twice",
    named("README.txt"): "extra: README.txt is not within the folder bundle",
    named("../.ssh/authorized_keys"): "extra: ../.ssh/authorized_keys is not within the folder bundle",
    named("/etc/cron.d/job"): "extra: /etc/cron.d/job is not within the folder bundle",
    named("bundle/results/../../job"): "extra: bundle/results/../../job is not within the folder bundle",
    named("bundle/..\\job"): "extra: bundle/..\\job is not within the folder bundle",
    named("bundle"): "extra: bundle is not within the folder bundle",
    named("bundle/link", tarfile.SYMTYPE): "extra: link is not a regular file",
    named("bundle/link", tarfile.LNKTYPE): "extra: link is not a regular file",
    named("bundle/pipe", tarfile.FIFOTYPE): "extra: pipe is not a regular file",
    named("bundle/disk", tarfile.BLKTYPE): "extra: disk is not a regular file",
    named("bundle/holes", tarfile.GNUTYPE_SPARSE): "extra: holes is not a regular file",
    named("bundle/r\udce9sum\udce9"): r"extra: 'r\udce9sum\udce9' is not a name that `bundle` writes",
    named("bundle/x\nall is well"): r"extra: 'x\nall is well' is not a name that `bundle` writes",
    named("bundle/\x1b[2Jx"): r"extra: '\x1b[2Jx' is not a name that `bundle` writes",
    named("bundle/Manifest"): "extra: MANIFEST and Manifest are one file on a system that ignores case",
    named("bundle/readme.TXT"): "extra: README.txt and readme.TXT are one file on a system that ignores case",
}


def with_member(path, member, listed):
    """The archive with one more member, an empty one, which its manifest lists or not."""
    with tarfile.open(path) as tar:
        *members, (last, text) = [(one, tar.extractfile(one).read()) for one in tar]
    name = member.name.removeprefix("bundle/").encode(errors="surrogateescape")
    if listed and b"  " + name + b"\n" not in text:
        text += hashlib.sha256(b"").hexdigest().encode() + b"  " + name + b"\n"
        last.size = len(text)
    with tarfile.open(path, "w:gz") as tar:
        for one, content in [*members, (last, text), (member, b"")]:
            tar.addfile(one, io.BytesIO(content))
    return path


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("member", ODD, ids=lambda one: ascii(f"{one.name} {one.type}"))
def test_a_member_that_no_archive_has_is_named_also_where_the_manifest_lists_it(packed, capsys, member, listed):
    if listed and "\n" in member.name:
        return  # no manifest can list it
    assert main(["bundle-check", with_member(packed(), member, listed)]) == 1
    assert ODD[member] in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_what_is_no_archive(tmp_path, capsys, content):
    path = tmp_path / "b.tar.gz"
    if content is not None:
        path.write_bytes(content)
    assert main(["bundle-check", str(path)]) == 2
    expected = "no such file" if content is None else "not a"
    assert f"b.tar.gz: {expected}" in capsys.readouterr().err


def test_an_archive_without_a_manifest_and_a_damaged_manifest(packed, capsys):
    assert main(["bundle-check", packed(change=lambda folder: (folder / "MANIFEST").unlink())]) == 2
    assert "no MANIFEST in it" in capsys.readouterr().err
    assert main(["bundle-check", packed(change=lambda folder: (folder / "MANIFEST").write_text("abc\n"))]) == 2
    assert "MANIFEST: line 1: 'abc' given" in capsys.readouterr().err
