import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from analysis import bundle, tables
from analysis.__main__ import main
from tests.helpers.own_records import make_record, save
from train.record import record
from train.record.record import Failure


def named_run(**more):
    """A run that tells the names of its hosts and of its user wherever a record can."""
    run = make_record(nodes=2, **more)
    run.ranks[0].host, run.ranks[1].host = "owens-ib.osc.edu", "owens-ib2"
    run.environment.hosts[0].host = "owens-ib.osc.edu"
    run.environment.variables = {
        "SLURM_JOB_USER": "jdoe42",
        "SLURM_NODELIST": "owens-ib[01-02]",
        "SLURM_NNODES": "2",
        "OMPI_MCA_orte_hnp_uri": "1;tcp://10.3.0.7:4000",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_CYCLE_TIME": "20",
        "TF_CONFIG": "owens-ib2:2222, /home/jdoe42/tf.json, 10.3.0.8",
    }
    run.environment.image = "/scratch/jdoe42/kit.sif"
    run.config["results"] = "/home/jdoe42/kit/results"
    run.config["tracking"] = {"name": "wandb", "project": "scaling", "entity": "the-lab", "sync": False}
    run.command = ["/home/jdoe42/kit/.venv/bin/python", "-m", "train", "results=/scratch/jdoe42", "hosts=owens-ib:1"]
    run.notes = ["rank 1 on owens-ib2 was slow; see /home/jdoe42/kit/rank-1.log"]
    return run


def scrub(run):
    return bundle.scrubber(bundle.hosts(run), bundle.users(run))(run)


def test_no_name_is_left_and_the_record_loads_again():
    run = named_run()
    run.failure = Failure(
        "connect to owens-ib2 failed: /home/jdoe42/x", host="owens-ib2", log="/home/jdoe42/r/rank-1.log"
    )
    text = record.dumps(scrub(run))
    for name in (b"owens", b"osc.edu", b"jdoe42", b"/home", b"/scratch", b"10.3.0", b"the-lab"):
        assert name not in text
    assert record.loads(text, "here").notes[-1] == bundle.SCRUBBED


def test_what_measures_stays_as_it_is():
    run = named_run()
    done = scrub(run)
    assert [rank.host for rank in done.ranks] == ["host0", "host1"]
    assert done.environment.hosts[0].host == "host0"  # one host, one name
    assert [rank.step_times_s for rank in done.ranks] == [rank.step_times_s for rank in run.ranks]
    assert (done.config_hash, done.job_s, done.started_at) == (run.config_hash, run.job_s, run.started_at)
    kept = done.environment.variables
    assert (kept["SLURM_NNODES"], kept["HOROVOD_CYCLE_TIME"], kept["SLURM_NODELIST"]) == ("2", "20", "scrubbed")
    assert done.command == ["/...", "-m", "train", "results=/...", "hosts=host0:1"]
    assert done.notes[0] == "rank 1 on host1 was slow; see /.../rank-1.log"
    assert done.environment.image == "/.../kit.sif"
    assert done.environment.hosts[0].cpu_model == run.environment.hosts[0].cpu_model


@pytest.mark.parametrize("text", ["3 images/s and/or 4", "https://example.org/a/b", "1/2", "a ~ b", "127.0.0.1"])
def test_what_is_no_path_and_no_name_is_not_touched(text):
    run = make_record()
    run.notes = [text]
    assert scrub(run).notes[0] == text


def test_a_name_within_another_word_is_not_touched():
    run = make_record()
    run.ranks[0].host = "node"
    run.notes = ["node: 2 nodes, nodes=2, node-local"]
    assert scrub(run).notes[0] == "host1: 2 nodes, nodes=2, node-local"  # host0 is a host of that name


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


def test_the_manifest_is_what_sha256sum_checks(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    text = bundle.manifest(tmp_path)
    assert text == f"{hashlib.sha256(b'a').hexdigest()}  a.txt\n"
    (tmp_path / bundle.MANIFEST).write_text(text)
    assert bundle.manifest(tmp_path) == text
    check = ["sha256sum", "--check", bundle.MANIFEST]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 0
    (tmp_path / "a.txt").write_text("b")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 1


@pytest.mark.slow  # draws every figure
def test_the_whole_archive(results, tmp_path, capsys):
    save(named_run(), results.folder)
    save(named_run(repeat=1, failure=Failure("killed", host="owens-ib2")), results.folder)
    broken = save(named_run(repeat=2), results.folder)
    broken.write_bytes(broken.read_bytes().replace(b'"repeat": 2', b'"repeat": 3'))
    out = tmp_path / "out" / "bundle.tar.gz"
    assert main(["bundle", "--scrub", "--results", str(results.folder), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "2 records, scrubbed" in said.out
    assert "edited after it was written" in said.err
    with tarfile.open(out) as tar:
        tar.extractall(tmp_path)
    there = tmp_path / "bundle"
    names = [line.partition("  ")[2] for line in (there / "MANIFEST").read_text().splitlines()]
    assert sorted(names) == sorted(
        str(path.relative_to(there)) for path in there.rglob("*") if path.is_file() and path.name != "MANIFEST"
    )
    assert {"README.txt", "report.html", "figures/captions.md", "figures/000-vgg19.pdf"} <= set(names)
    assert subprocess.run(["sha256sum", "--check", "--quiet", "MANIFEST"], cwd=there).returncode == 0
    own = tables.own(there / "results")
    assert (own.table["record"].nunique(), len(own.failed), own.left_out) == (1, 1, [])
    for path in there.rglob("*"):
        if path.suffix in (".html", ".md", ".json", ".svg"):
            text = path.read_text()
            assert not any(name in text for name in ("owens", "jdoe42", str(tmp_path))), path
    assert "results/weak_scaling/" in (there / "report.html").read_text()


def test_nothing_to_pack_is_an_error(tmp_path, capsys):
    assert main(["bundle", "--results", str(tmp_path), "--out", str(tmp_path / "b.tar.gz")]) == 2
    assert "no run record there to pack" in capsys.readouterr().err
    assert not Path(tmp_path / "b.tar.gz").exists()
