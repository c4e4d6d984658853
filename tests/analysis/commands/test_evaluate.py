import json
import shutil
import subprocess
import tarfile
from contextlib import suppress

import pytest

from analysis.__main__ import main
from analysis.commands import evaluate, report
from tests.helpers.needs import needs
from tests.helpers.studies import curve_in_rounds


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The archive of an author who measured weak scaling: speedups of 1.5 to 1.65. Its page: test_bundle.py."""
    folder = tmp_path_factory.mktemp("author")
    curve_in_rounds(folder / "results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "write_page", lambda study, path, figures: path.write_text("a page"))
        assert main(["bundle", "--results", str(folder / "results"), "--out", str(folder / "bundle.tar.gz")]) == 0
        yield folder / "bundle.tar.gz"


@pytest.mark.slow
def test_a_reviewer_who_measured_the_same_reproduces_it(command, archive, tmp_path):
    curve_in_rounds(tmp_path / "results")
    command("evaluate", archive, "--results", tmp_path / "results", "--out", tmp_path / "evaluation.md")
    document = json.loads((tmp_path / "evaluation.json").read_text())
    assert document["differing"] == []
    assert {step["command"] for step in document["steps"]} >= {"make tables", "make audit", "make claims"}
    assert all(step["outcome"] == "reproduced" for step in document["steps"]), document["steps"]
    rows = {row["id"]: row for row in document["rows"]}
    assert rows["weak-scaling-pays"]["outcome"] == rows["000-vgg19-best"]["outcome"] == "reproduced"
    assert "1.569 (1.418 to 1.736)" in rows["weak-scaling-pays"]["numbers"]
    assert rows["strong-scaling-loses"]["outcome"] == "not run"
    text = (tmp_path / "evaluation.md").read_text()
    assert "78 claims: 4 not run, 74 reproduced, 0 not reproduced" in text
    assert "measured here (B)" in text


@pytest.mark.slow
@needs("ssh-keygen")
def test_why_an_archive_is_not_evaluated_is_named(command, archive, tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    out = ("--out", tmp_path / "evaluation.md")
    error = command("evaluate", archive, "--only", "E99", *out, status=2).err
    assert "ONLY=E99: no such experiment; allowed are E1 to E21" in error
    unsigned = command("evaluate", archive, "--sign-key", tmp_path / "key.pub", *out, status=1).err
    assert unsigned.endswith(f"not evaluated: it is not signed, and SIGN_KEY={tmp_path}/key.pub must have\n")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path)
    record = next((tmp_path / "bundle").rglob("record.json"))
    shutil.copytree(record.parent, record.parent.with_name("r0-old"))
    with tarfile.open(tmp_path / "again.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "bundle", "bundle")
    again = command("evaluate", tmp_path / "again.tar.gz", *out, status=1)
    assert f"{record.parent.parent.name}/r0-old/record.json is not in the MANIFEST" in again.out
    assert again.err.endswith("not evaluated: files: 1 extra\n")
    assert not (tmp_path / "evaluation.md").exists()


@pytest.mark.slow
def test_an_archive_that_is_exchanged_after_its_check_is_not_what_is_unpacked(archive, tmp_path, monkeypatch):
    """As its author could do whose folder it is in."""
    theirs = shutil.copy(archive, tmp_path / "theirs.tar.gz")
    check, unpacked = evaluate.bundle_check.failures, []

    def check_then_exchange(*arguments):
        problems = check(*arguments)
        (tmp_path / "member").write_text("a member that would be written outside the folder")
        with tarfile.open(theirs, "w:gz") as hostile:
            hostile.add(tmp_path / "member", f"bundle/../../../../../..{tmp_path}/outside")
        return problems

    def stop(_, kit):
        unpacked.extend(path.name for path in (kit.parent / "bundle").iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluate.bundle_check, "failures", check_then_exchange)
    monkeypatch.setattr(evaluate, "_run_steps", stop)
    with suppress(KeyboardInterrupt):
        main(["evaluate", str(theirs), "--out", str(tmp_path / "evaluation.md")])
    assert "results" in unpacked
    assert not (tmp_path / "outside").exists()
