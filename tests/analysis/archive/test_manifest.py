import contextlib
import gzip
import io
import lzma
import os
import tarfile
from functools import partial

import numpy as np
import pytest

from analysis import TableError
from analysis.archive import manifest
from analysis.archive.manifest import digest

FILES = {"README.txt": b"read me", "results/a/record.json": b"{}", "MANIFEST": b"names"}


def tar(*more, names=FILES):
    """The bytes of an uncompressed archive of FILES, and of members after them: (TarInfo, content)."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in names:
            member = tarfile.TarInfo(f"bundle/{name}")
            member.size = len(names[name])
            archive.addfile(member, io.BytesIO(names[name]))
        for member, content in more:
            archive.fileobj.write(member.tobuf(tarfile.GNU_FORMAT) + content)
            archive.offset += tarfile.BLOCKSIZE + len(content)
    return packed.getvalue()


def member(name, size=0, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info


@pytest.fixture
def read(tmp_path):
    """Return a function that reads an archive of these bytes, compressed with gzip by default."""

    def read_bytes(packed, compress=gzip.compress):
        path = tmp_path / "bundle.tar.gz"
        path.write_bytes(compress(packed))
        return manifest.read_packed(path)

    return read_bytes


def test_the_files_of_an_archive_and_their_digests(read):
    folders = [(member(name, kind=tarfile.DIRTYPE), b"") for name in ("bundle", "bundle/results")]
    result = read(tar(*folders))  # tar itself packs those too
    assert result.digests == {name: digest(FILES[name]) for name in ("README.txt", "results/a/record.json")}
    assert (result.outside, result.extra) == ({"MANIFEST": b"names"}, [])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("MANIFEST.sig", 100_000), ("MANIFEST", 20_000_000)])
def test_a_signature_and_a_manifest_have_the_size_of_one(read, name, most):
    """ssh-keygen takes the square of the size of a signature."""
    assert len(read(tar(names={name: bytes(most)}) + bytes(most)).outside[name]) == most
    with pytest.raises(TableError, match=f"{name}: it has more than {most / 1e6:g} MB, which no such file has"):
        read(tar(names={name: bytes(most + 1)}))


def test_a_pipe_in_place_of_an_archive_or_a_key_is_named(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(TableError, match="neither a regular file nor a folder"):
        manifest.read_packed(pipe)
    for use in (manifest.signing_key, partial(manifest.verify, b"", b"")):
        with pytest.raises(TableError, match=f"SIGN_KEY={pipe}: no"):
            use(pipe)


def test_names_that_differ_in_how_an_accent_is_written(read):
    result = read(tar(names={"re\u0301sume\u0301.txt": b"1", "r\u00e9sum\u00e9.txt": b"2"}))
    (line,) = result.extra
    assert line.endswith("are one file on a system that ignores case")


OUTSIDE = (
    "README.txt",
    "../.ssh/authorized_keys",
    "/etc/cron.d/job",
    "bundle/results/../../job",
    "bundle/..\\job",
    "bundle",
)
SPECIAL = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.BLKTYPE, tarfile.GNUTYPE_SPARSE)
ODD = [  # the name and type of a member that is added, and the message
    ("bundle/README.txt", tarfile.REGTYPE, "README.txt occurs twice"),
    ("bundle/MANIFEST", tarfile.REGTYPE, "MANIFEST occurs twice"),
    *((name, tarfile.REGTYPE, f"{name} is not within the folder bundle") for name in OUTSIDE),
    *(("bundle/odd", kind, "odd is not a regular file") for kind in SPECIAL),
    *(
        (f"bundle/{name}", tarfile.REGTYPE, f"{name!a} is not a name that `bundle` writes")
        for name in ("r\udce9sum\udce9", "x\nall is well", "\x1b[2Jx")
    ),
    ("bundle/Manifest", tarfile.REGTYPE, "MANIFEST and Manifest are one file on a system that ignores case"),
    ("bundle/readme.TXT", tarfile.REGTYPE, "README.txt and readme.TXT are one file on a system that ignores case"),
]


@pytest.mark.parametrize(("name", "kind", "message"), ODD, ids=ascii)
def test_a_member_that_no_bundle_has_is_named(read, name, kind, message):
    assert read(tar((member(name, kind=kind), b""))).extra == [f"extra: {message}"]


LARGE = {f"{n}.json": os.urandom(2000) for n in range(9)}


@pytest.mark.parametrize(
    ("end", "where"),
    [*((end, "not a whole archive") for end in (1, 5, 30, 0.3, -9, -8, -1)), (0.5, r"in or after [3-5]\.json: Comp")],
)
def test_an_archive_that_was_cut_short(read, end, where):
    packed = gzip.compress(tar(names=LARGE))
    position = int(end * len(packed)) if isinstance(end, float) else end
    with pytest.raises(TableError, match=where):
        read(packed[:position], compress=bytes)


def test_a_file_that_is_not_there_is_named_with_the_one_that_bundle_writes(tmp_path):
    with pytest.raises(TableError, match=r"x\.tar\.gz: no such file; make bundle writes figures/bundle\.tar\.gz"):
        manifest.read_packed(tmp_path / "x.tar.gz")


@pytest.mark.parametrize("compress", [bytes, lzma.compress])
def test_an_archive_that_is_not_compressed_as_bundle_does(read, compress):
    with pytest.raises(TableError, match=r"bundle\.tar\.gz: not a whole archive: it is not compressed with gzip"):
        read(tar(), compress)


SIZES = {  # a member that is added, its content, and the message
    "longer than the archive": (member("bundle/large", 1 << 40), b"", "in or after large: unexpected end of data"),
    "skipped": (member("bundle/z", 1 << 40, b"Z"), b"", "in or after z: it unpacks to more than 268 MB"),
    # The second message is that of Python 3.13.18, which reads no header of that size.
    "header": (member("bundle/x", 1 << 40, tarfile.XHDTYPE), b"", "in or after MANIFEST: (it unpacks to|empty header)"),
    "negative": (member("bundle/back", -512), b"", r"in or after (back: a file lies within|\w+: what follows is not)"),
    "zeros": (member("bundle/zeros", 1 << 18), bytes(1 << 18), "in or after zeros: it unpacks to more than"),
    "no header": (member("bundle/one"), b"x" * 512, "in or after one: what follows is not a file"),
}


@pytest.mark.parametrize(("info", "content", "where"), SIZES.values(), ids=SIZES)
def test_sizes_that_are_not_true_or_made_to_fill_a_memory(read, monkeypatch, info, content, where):
    if info.size == len(content):
        monkeypatch.setattr(manifest, "MOST_BYTES", 1 << 16)
    with pytest.raises(TableError, match=where):
        read(tar((info, content)))


def test_what_comes_after_the_end_of_an_archive(read):
    with pytest.raises(TableError, match="what follows is not a file"):
        read(tar() + tar())
    with pytest.raises(TableError, match="Not a gzipped file"):
        read(gzip.compress(tar()) + b"more", compress=bytes)


def test_changed_bytes_raise_no_other_error_than_a_table_error(read):
    rng, packed = np.random.default_rng(1), tar()
    for compress, whole in ((gzip.compress, packed), (bytes, gzip.compress(packed))):
        for _ in range(25):
            changed = bytearray(whole)
            for position in rng.integers(len(whole), size=rng.integers(1, 4)):
                changed[position] = rng.integers(256)
            with contextlib.suppress(TableError):
                assert all(isinstance(line, str) for line in read(bytes(changed), compress).extra)


def test_a_folder_is_read_without_following_links_or_waiting_for_pipes(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc")
    result = manifest.read_packed(tmp_path)
    assert set(result.digests) == {"README.txt", "results/a/record.json"}
    assert result.extra == ["extra: link is not a regular file", "extra: pipe is not a regular file"]
