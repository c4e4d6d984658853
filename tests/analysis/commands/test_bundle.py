import hashlib
import io
import json
import subprocess
import tarfile

import pytest

from analysis.__main__ import main
from analysis.archive import collect
from analysis.commands import bundle
from analysis.figures import registry
from analysis.study import Study
from tests.helpers.own_records import named_run, save
from tests.helpers.timelines import launch_with_timeline
from train.record.record import Failure


def test_the_same_files_give_the_same_bytes(tmp_path):
    for folder in ("one", "two"):
        for name in ("b.txt", "a/c.txt"):
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
    packed = bundle.archive(tmp_path / "one")
    assert packed == bundle.archive(tmp_path / "two")
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert tar.getnames() == ["bundle/a/c.txt", "bundle/b.txt"]
        assert {(member.mtime, member.uid, member.uname, member.mode) for member in tar} == {(0, 0, "", 0o644)}


@pytest.mark.slow
def test_the_manifest_comes_last_and_is_what_sha256sum_checks(tmp_path):
    (tmp_path / "z.txt").write_text("a")
    bundle.seal(tmp_path, None)
    text = (tmp_path / "MANIFEST").read_text()
    assert text == f"{hashlib.sha256(b'a').hexdigest()}  z.txt\n"
    with tarfile.open(fileobj=io.BytesIO(bundle.archive(tmp_path))) as tar:
        assert tar.getnames() == ["bundle/z.txt", "bundle/MANIFEST"]
    check = ["sha256sum", "--check", "MANIFEST"]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 0
    (tmp_path / "z.txt").write_text("b")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 1


@pytest.fixture
def few_figures(monkeypatch):
    """All figures that local records are in, and one of a report alone: not the 30 others, which know of no host."""
    every = registry.figures

    def few(local):
        here = {*local["experiment"]}
        return {id: entry for id, entry in every(local).items() if id == "000-vgg19" or shows(entry, here)}

    def shows(entry, experiments):
        asked = (entry.local or {}).get("experiment", ())
        return bool(experiments & {*([asked] if isinstance(asked, str) else asked)})

    monkeypatch.setattr(registry, "figures", few)


def test_a_key_that_is_not_there_is_reported_before_anything_is_drawn(results, tmp_path, capsys):
    save(named_run(), results.folder)
    arguments = [
        "--results",
        str(results.folder),
        "--sign-key",
        str(tmp_path / "id"),
        "--out",
        str(tmp_path / "b.tar.gz"),
    ]
    assert main(["bundle", *arguments]) == 2
    assert "id: no such file; give an SSH key" in capsys.readouterr().err


@pytest.mark.slow  # draws figures
def test_the_whole_archive(few_figures, results, tmp_path, capsys):
    save(named_run(), results.folder)
    save(named_run(repeat=1, failure=Failure("killed", host="owens-ib2")), results.folder)
    launch_with_timeline(results.folder)
    broken = save(named_run(repeat=2), results.folder)
    broken.write_bytes(broken.read_bytes().replace(b'"repeat":2', b'"repeat":3'))
    out, key = tmp_path / "out" / "bundle.tar.gz", tmp_path / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    arguments = ["--results", str(results.folder), "--sign-key", str(key), "--out", str(out)]
    assert main(["bundle", "--scrub", *arguments]) == 0
    printed = capsys.readouterr()
    assert main(["bundle-check", str(out), "--sign-key", f"{key}.pub"]) == 0
    assert "none wrong" in capsys.readouterr().out
    assert "3 records, scrubbed" in printed.out
    assert "edited after it was written" in printed.err
    with tarfile.open(out) as tar:
        tar.extractall(tmp_path)
    there = tmp_path / "bundle"
    signed_by, *lines = (there / "MANIFEST").read_text().splitlines()
    assert signed_by.startswith("# signed with SHA256:")
    names = [line.partition("  ")[2] for line in lines]
    assert sorted(names) == sorted(
        str(path.relative_to(there))
        for path in there.rglob("*")
        if path.is_file() and not path.name.startswith("MANIFEST")
    )
    assert {
        "README.txt",
        "ro-crate-metadata.json",
        "report.html",
        "figures/captions.md",
        "figures/000-vgg19.pdf",
    } <= set(names)
    assert {"figures/001-figure-5.svg", "figures/own-weak-scaling-efficiency.svg"} <= set(names)
    [trace] = (there / "figures").glob("timeline-resnet50_nodes=2-*.json")
    assert json.loads(trace.read_text())["traceEvents"]
    packed = {name.rpartition("/")[2] for name in names if name.startswith("results/timeline/")}
    assert packed == {"record.json", "horovod-timeline.json", "operations-0.json.gz", "operations-1.json.gz"}
    assert subprocess.run(["sha256sum", "--check", "--quiet", "MANIFEST"], cwd=there).returncode == 0
    own = Study(there / "results")
    assert (own.local["record"].nunique(), len(own.failed), own.left_out) == (1, 1, [])
    for path in there.rglob("*"):
        if path.suffix in (".html", ".md", ".json", ".svg"):
            text = path.read_text()
            assert not any(name in text for name in ("owens", "jdoe42", str(tmp_path))), path
    assert "results/weak_scaling/" in (there / "report.html").read_text()


def test_what_remains_is_shown_first_and_asked_about(results, tmp_path, capsys, monkeypatch):
    save(named_run(), results.folder)
    out = tmp_path / "b.tar.gz"
    asked = io.StringIO("no\n")
    asked.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", asked)
    assert main(["bundle", "--scrub", "--results", str(results.folder), "--out", str(out)]) == 1
    assert "  TF_CONFIG: host1:2222, /.../tf.json, address" in capsys.readouterr().err.splitlines()
    assert not out.exists()


def test_a_user_without_a_name(results, monkeypatch):
    """As in a container with --user."""
    save(named_run(), results.folder)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def no_entry(number):
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr("pwd.getpwuid", no_entry)
    assert len(collect(results.folder, scrubbed=True).records) == 1


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_drawn(results, tmp_path, capsys):
    save(named_run(), results.folder)
    (tmp_path / "file").touch()  # root may write into any folder, but into no file
    out = tmp_path / "file" / "figures" / "b.tar.gz"
    assert main(["bundle", "--results", str(results.folder), "--out", str(out)]) == 2
    assert f"bundle: {tmp_path / 'file' / 'figures'}: Not a directory" in capsys.readouterr().err
