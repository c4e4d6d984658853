import hashlib
import io
import json
import re
import subprocess
import tarfile

import pytest

from analysis.archive import collect
from analysis.commands import bundle
from analysis.figures import registry
from analysis.study import Study
from record.schema import Failure
from tests.helpers.drawn_figures import experiment_figures
from tests.helpers.needs import needs
from tests.helpers.run_records import run_with_names, save
from tests.helpers.timelines import launch_with_timeline


def test_the_same_files_give_the_same_bytes_and_the_manifest_is_what_sha256sum_checks(tmp_path):
    for folder in ("one", "two"):
        for name in ("b.txt", "a/c.txt"):
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        bundle.seal(tmp_path / folder, None)
    lines = [f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in ("a/c.txt", "b.txt")]
    assert (tmp_path / "one/MANIFEST").read_text() == "".join(lines)
    packed = bundle.archive(tmp_path / "one")
    assert packed == bundle.archive(tmp_path / "two")
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert tar.getnames() == ["bundle/a/c.txt", "bundle/b.txt", "bundle/MANIFEST"]  # the manifest comes last
        assert {(member.mtime, member.uid, member.uname, member.mode) for member in tar} == {(0, 0, "", 0o644)}


@pytest.mark.slow  # draws figures
@needs("ssh-keygen")
def test_the_whole_archive(results, tmp_path, command, monkeypatch):
    monkeypatch.setattr(registry, "figures", experiment_figures)
    save(run_with_names(), results.folder)
    save(run_with_names(repeat=1, failure=Failure("killed", host="owens-ib2")), results.folder)
    launch_with_timeline(results.folder)
    broken = save(run_with_names(repeat=2), results.folder)
    broken.write_bytes(broken.read_bytes().replace(b'"repeat":2', b'"repeat":3'))
    out, key = tmp_path / "out" / "bundle.tar.gz", tmp_path / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    output = command("bundle", "--scrub", "--results", results.folder, "--sign-key", key, "--out", out)
    assert "3 records, scrubbed" in output.out
    assert "0 of 3 records made again from their files; 3 not compared: scrubbed: " in output.out
    assert "edited after it was written" in output.err
    check = command("bundle-check", out, "--sign-key", f"{key}.pub", status=1)  # scrubbed: nothing can be made again
    assert "failed: none of its records was made again from its files" in check.out + check.err
    with tarfile.open(out) as tar:
        tar.extractall(tmp_path)
    folder = tmp_path / "bundle"
    signed_by, *lines = (folder / "MANIFEST").read_text().splitlines()
    assert signed_by.startswith("# signed with SHA256:")
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    names = [line.partition("  ")[2] for line in lines]
    assert sorted(names) == sorted(files.keys() - {"MANIFEST", "MANIFEST.sig"})
    figures = ("captions.md", "own-weak-scaling-throughput.pdf", "own-weak-scaling-efficiency.svg")
    assert {"README.txt", "ro-crate-metadata.json", "report.html", *(f"figures/{name}" for name in figures)} <= {*names}
    [trace] = (folder / "figures").glob("timeline-resnet50_nodes=2-*.json")
    assert json.loads(trace.read_text())["traceEvents"]
    packed = {name.rpartition("/")[2] for name in names if name.startswith("results/timeline/")}
    assert packed == {"record.json", "horovod-timeline.json", "operations-0.json.gz", "operations-1.json.gz"}
    assert subprocess.run(["sha256sum", "--check", "--quiet", "MANIFEST"], cwd=folder).returncode == 0
    study = Study(folder / "results")
    assert (study.local["record"].nunique(), len(study.failed), study.left_out) == (1, 1, [])
    for name, path in files.items():
        if path.suffix in (".html", ".md", ".json", ".svg"):
            assert not re.search(f"owens|jdoe42|{re.escape(str(tmp_path))}", path.read_text()), name
    assert "results/weak_scaling/" in (folder / "report.html").read_text()


def test_names_of_the_author_are_shown_and_confirmed_first(results, tmp_path, command, monkeypatch):
    save(run_with_names(model="marble"), results.folder)
    out = tmp_path / "b.tar.gz"
    answer = io.StringIO("no\n")
    answer.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", answer)
    output = command("bundle", "--scrub", "--results", results.folder, "--out", out, status=1)
    assert "  model: marble" in output.err.splitlines()
    assert not out.exists()


def test_a_user_without_a_name(results, monkeypatch):
    """A container that runs with --user has no entry for its user."""
    save(run_with_names(), results.folder)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def no_entry(number):
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr("pwd.getpwuid", no_entry)
    assert len(collect(results.folder, scrubbed=True).records) == 1


def test_what_cannot_be_used_is_named_before_anything_is_drawn(results, tmp_path, command, monkeypatch):
    save(run_with_names(), results.folder)
    (tmp_path / "file").touch()  # root may write into any folder, but into no file
    into = tmp_path / "file" / "figures"
    error = command("bundle", "--results", results.folder, "--out", into / "b.tar.gz", status=2).err
    assert f"error: {into}: Not a directory" in error
    out = ("--out", tmp_path / "b.tar.gz")
    error = command("bundle", "--results", results.folder, "--sign-key", tmp_path / "id", *out, status=2).err
    assert "id: no such file; give an SSH key" in error
    monkeypatch.setenv("PATH", str(tmp_path))
    error = command("bundle", "--results", results.folder, "--sign-key", tmp_path / "file", *out, status=2).err
    assert error == "error: ssh-keygen is not installed: it signs and verifies (Debian: openssh-client)\n"
