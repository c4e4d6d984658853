import subprocess
from dataclasses import fields

import pytest

from analysis.audit import run_folder
from analysis.audit.findings import RECORD_RULES
from tests.helpers.own_records import make_record
from train.record import parts, protocol, record, source
from train.record.assembly import Identity, JobEnd, assemble
from train.record.record import CoreUse


def found(name, run, path):
    return [(one.stated, one.follows) for one in RECORD_RULES[name](run, str(path))]


@pytest.fixture
def launched(tmp_path):
    """A run folder as a launch of two ranks leaves it; the path of its record."""
    planned = make_record(nodes=2)
    planned.source_digest = source.digest({"train/a.py": "12"})
    asked = {**planned.config, "measure": {**planned.config["measure"], "budget_s": 60.0}, "program": None}
    files = {"train/a.py": "12"}
    protocol.write_assignment(tmp_path, protocol.Assignment(asked, planned.config_hash, 0, files, False, False))
    for rank in (0, 1):
        writer = parts.PartWriter(protocol.part_path(tmp_path, rank, "host0", 7), rank=rank, host="host0", cores=[rank])
        writer.add(phases_s={"start": 0.5, "import": 3.0, "init": 0.5})
        writer.add(phase="timed", phases_s={"warm_up": 1.0, "timed": 1.5}, step_times_s=[0.7500000004, 0.75])
        writer.add(timed_cores=CoreUse(1.5, 1.4, 1.4, 0.0), peak_memory_bytes=2**30, finished=True)
    identity = Identity(**{one.name: getattr(planned, one.name) for one in fields(Identity)})
    made = assemble(parts.read(tmp_path), identity, JobEnd(1_764_000_000.0, 7.0, cores_shared=False))
    (tmp_path / record.RECORD_NAME).write_bytes(record.dumps(made))
    return tmp_path / record.RECORD_NAME


def test_a_record_is_what_its_ranks_wrote(launched):
    run = record.load(launched)
    assert run_folder.parts_beside(run, str(launched))
    assert not found("record_and_parts", run, launched)
    run.ranks[1].phases_s["import"] -= 1
    run.ranks[1].phases_s["init"] += 1
    run.ranks[0].peak_memory_bytes //= 3
    by = ", as its rank wrote beside it"
    assert found("record_and_parts", run, launched) == [
        ("ranks[0].peak_memory_bytes: 357913941, and 2 more values", f"1073741824{by}")
    ]


def test_without_the_files_of_all_its_ranks_nothing_is_compared(launched):
    run = record.load(launched)
    run.ranks[0].peak_memory_bytes = 1
    for change in ({"status": "failed"}, {"ranks": run.ranks[:1]}):
        before = {name: getattr(run, name) for name in change}
        vars(run).update(change)
        assert not found("record_and_parts", run, launched)
        vars(run).update(before)
    assert found("record_and_parts", run, launched)
    del run.ranks[1].phases_s["exit"]  # by hand: no launcher put it together
    assert not found("record_and_parts", run, launched)
    protocol.part_paths(launched.parent)[0].unlink()
    assert not found("record_and_parts", run, launched)


@pytest.mark.parametrize("line", ['{"windows": 5}', '{"cores": {"a": 1}}', '{"phases_s": {"timed": "x"}}'])
def test_files_that_cannot_be_read_are_named(launched, line):
    with protocol.part_paths(launched.parent)[0].open("a") as file:
        file.write(f"{line}\n")
    ((stated, follows),) = found("record_and_parts", record.load(launched), launched)
    assert (stated, follows[:14]) == ("its ranks' files", "not to be read")


def test_a_record_has_the_configuration_that_its_ranks_were_given(launched):
    run = record.load(launched)
    assert not found("record_and_assignment", run, launched)
    run.config["batch_per_rank"] = 32
    by = ", in run.json beside it"
    assert found("record_and_assignment", run, launched) == [("config.batch_per_rank: 32", f"8{by}")]
    run.config["batch_per_rank"] = 8
    run.source_digest = "5" * 64
    assert found("record_and_assignment", run, launched)[0][0] == f"source_digest: {'5' * 57}..."


def test_the_end_of_the_rounds_is_that_which_the_ranks_were_given(launched):
    run = record.load(launched)
    run.rounds_end_s = 60.0
    assert not found("record_and_assignment", run, launched)
    run.rounds_end_s = 40.0
    assert found("record_and_assignment", run, launched) == [("rounds_end_s: 40", "60, in run.json beside it")]


@pytest.mark.parametrize("text", ["", "[]", '{"config": 5}'])
def test_an_assignment_that_cannot_be_read_says_nothing(launched, text):
    protocol.assignment_path(launched.parent).write_text(text)
    assert not found("record_and_assignment", record.load(launched), launched)


@pytest.fixture
def committed(tmp_path, monkeypatch):
    """A repository with one commit; the commit and the digest of its code."""
    root = tmp_path / "kit"
    for name in ("train/a.py", "train/b/c.py", "conf/d.yaml", "conf/notes.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    monkeypatch.setattr(source, "ROOT", root)
    return commit, source.digest(source.files(root))


def test_a_clean_commit_has_the_digest_of_the_code_that_ran(committed):
    run = make_record()
    run.environment.git_commit, run.source_digest = committed
    assert not found("commit_and_digest", run, "the/record.json")
    run.source_digest = "5" * 64
    assert len(found("commit_and_digest", run, "the/record.json")) == 1
    run.environment.git_dirty = True
    assert not found("commit_and_digest", run, "the/record.json")


@pytest.mark.parametrize("commit", ["0" * 40, "HEAD", "--output=x", None])
def test_a_commit_that_is_not_in_this_repository_says_nothing(committed, commit):
    run = make_record()
    run.environment.git_commit = commit
    assert not found("commit_and_digest", run, "the/record.json")
