"""The W&B mirror, read back from its offline file; nothing here needs a network or an account."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wandb.proto.wandb_internal_pb2 import Record

from tests.helpers import wandb_log
from tests.helpers.wandb_runs import WANDB, history, items, only, put, rank, run_files, run_record
from train.record import predictions
from train.record.predictions import Predictions
from train.record.record import Failure, RunRecord, find, load
from train.tracking import wandb_runs
from train.tracking.__main__ import main
from train.tracking.offline import UploadError, mirror_records, upload_runs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, Path, list[Record]]:
    """A record as loaded, its path, and the messages of its mirror."""
    results = tmp_path_factory.mktemp("results")
    path = put(results, run_record())
    assert mirror_records([path], WANDB) == []
    (file,) = run_files(results)
    return load(path), path, wandb_log.read(file)


def test_run_is_named_and_grouped_after_the_record(mirrored):
    record, path, messages = mirrored
    run = only(messages, "run")
    assert (run.project, run.run_group, run.job_type) == ("scaling", "weak_scaling", "resnet50-nodes2")
    assert run.display_name == "resnet50-nodes2 r1"
    assert run.run_id == record.sha256[:16] == (path.parent / "wandb-run-id").read_text()
    assert (run.host, list(run.tags), run.notes) == ("node-a", ["complete"], "first note\nsecond note")
    assert only(messages, "exit").exit_code == 0


def test_configuration_is_mirrored(mirrored):
    record, _, messages = mirrored
    config = items(only(messages, "run").config.update)
    assert {key: value for key, value in config.items() if key != "_wandb"} == record.config


def test_history_holds_every_timed_step_of_the_slowest_rank_and_every_epoch(mirrored):
    assert history(mirrored[2]) == [
        {"timed/step": 0, "timed/step_time_s": 0.375, "timed/loss": 2.0},
        {"timed/step": 1, "timed/step_time_s": 0.5, "timed/loss": 1.5},
        {
            "epochs/epoch": 1,
            "epochs/steps": 2,
            "epochs/duration_s": 4.0,
            "epochs/train_loss": 1.75,
            "epochs/train_accuracy": 0.25,
        },
        {
            "epochs/epoch": 2,
            "epochs/steps": 2,
            "epochs/duration_s": 3.5,
            "epochs/train_loss": 1.25,
            "epochs/train_accuracy": 0.5,
            "epochs/validation_loss": 1.0,
            "epochs/validation_accuracy": 0.625,
        },
    ]


def test_summary_holds_status_phases_and_the_summary_of_the_record(mirrored):
    final: dict[str, Any] = {}
    for message in mirrored[2]:
        final |= items(message.summary.update)
    expected = {
        "images_per_s": 42.5,
        "status": "complete",
        "started_at": "2026-11-20T10:00:00+00:00",
        "job_s": 12.5,
        "phases_s/start": 0.5,
        "phases_s/timed": 0.75,
    }
    assert {key: final[key] for key in expected} == expected
    assert "phases_s/import" not in final


def test_record_file_is_the_artifact(mirrored):
    record, path, messages = mirrored
    artifact = only(messages, "artifact")
    (file,) = artifact.manifest.contents
    assert (artifact.type, file.path, file.size) == ("run-record", "record.json", path.stat().st_size)
    assert Path(file.local_path) == path
    assert json.loads(artifact.metadata) == {"sha256": record.sha256}


def test_what_the_model_answered_is_a_chart_and_images(tmp_path):
    seen = Predictions.empty(2, ("cat", "dog"))
    labels, answers = np.array([0, 0, 1]), np.array([0, 1, 1])
    seen.add(np.zeros((3, 4, 4, 1), np.float32), labels, np.ones(3, np.float32), answers, np.full(3, 0.75, np.float32))
    record = run_record()
    folder = tmp_path / record.experiment / record.point / record.config_hash[:8] / f"r{record.repeat}"
    folder.mkdir(parents=True)
    record.attachments = predictions.write(folder, seen)
    folder.rename(tmp_path / "written")
    path = put(tmp_path, record)
    for name in record.attachments:
        (tmp_path / "written" / name).rename(path.with_name(name))
    assert mirror_records([path], WANDB) == []
    (file,) = run_files(tmp_path)
    messages = wandb_log.read(file)
    (captions,) = [
        row["validation/examples/captions"] for row in history(messages) if "validation/examples/captions" in row
    ]
    assert captions == ["cat: predicted cat (0.75)"]
    (table,) = file.parent.rglob("*.table.json")
    assert json.loads(table.read_text())["data"] == [["cat", "cat", 1], ["cat", "dog", 1], ["dog", "dog", 1]]
    # The record's own artifact holds what it names.
    (artifact,) = [
        message.artifact
        for message in messages
        if message.WhichOneof("record_type") == "artifact" and message.artifact.type == "run-record"
    ]
    assert sorted(entry.path for entry in artifact.manifest.contents) == sorted(["record.json", *record.attachments])


def test_failed_run_is_mirrored_as_failed_with_what_it_has(tmp_path):
    failed = run_record(
        status="failed", failure=Failure("rank 1 was killed"), ranks=[], losses=[2.0], epochs=[], cores_shared=True
    )
    assert mirror_records([put(tmp_path, failed)], WANDB) == []
    messages = wandb_log.read(run_files(tmp_path)[0])
    assert only(messages, "exit").exit_code == 1
    assert list(only(messages, "run").tags) == ["failed", "cores_shared"]
    assert history(messages) == [{"timed/step": 0, "timed/loss": 2.0}]
    assert wandb_runs.summary(failed)["failure"] == "rank 1 was killed"


def test_an_interrupted_mirror_is_made_good_by_the_next_call(tmp_path, monkeypatch):
    path = put(tmp_path, run_record())

    def interrupt(record: RunRecord) -> list[dict[str, float]]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(wandb_runs, "summary", interrupt)
        with pytest.raises(KeyboardInterrupt):
            mirror_records([path], WANDB)
    assert not (path.parent / "wandb-run-id").exists()
    assert mirror_records([path], WANDB) == []
    (file,) = run_files(tmp_path)
    messages = wandb_log.read(file)
    assert only(messages, "run").run_id == wandb_runs.run_id(load(path), path.parent)
    assert len(history(messages)) == 4


def test_a_record_that_cannot_be_read_is_named_and_the_others_are_mirrored(tmp_path):
    broken = put(tmp_path, run_record(repeat=1))
    broken.write_bytes(broken.read_bytes()[:-10])
    whole = put(tmp_path, run_record(repeat=2))
    (failure,) = mirror_records([broken, whole], WANDB)
    assert str(broken) in failure
    assert "not a whole run record" in failure
    assert not (broken.parent / "wandb-run-id").exists()
    assert (whole.parent / "wandb-run-id").exists()
    assert len(run_files(tmp_path)) == 1


def test_a_record_is_mirrored_once_and_it_and_the_process_stay_as_they_were(tmp_path):
    path = put(tmp_path, run_record())
    text, environment = path.read_bytes(), dict(os.environ)
    mirror_records([path], WANDB)
    before = run_files(tmp_path)
    mirror_records([path], WANDB)
    assert run_files(tmp_path) == before
    assert len(before) == 1
    assert path.read_bytes() == text
    assert find(tmp_path) == [path]
    assert dict(os.environ) == environment
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    commands = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
    assert not [command for command in commands if b"wandb-core" in command]


def test_mirror_connects_nowhere_whatever_the_environment_says(tmp_path, monkeypatch):
    path = put(tmp_path, run_record())
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        monkeypatch.setenv("WANDB_MODE", "online")
        monkeypatch.setenv("WANDB_RUN_ID", "another")
        monkeypatch.setenv("WANDB_SWEEP_ID", "a1b2c3d4")
        assert mirror_records([path], WANDB) == []
        with pytest.raises(BlockingIOError):  # nobody waits at the door
            server.accept()
    assert only(wandb_log.read(run_files(tmp_path)[0]), "run").run_id == wandb_runs.run_id(load(path), path.parent)
    assert os.environ["WANDB_SWEEP_ID"] == "a1b2c3d4"


def test_long_runs_span_blocks_of_the_file(tmp_path):
    times_s = [step / 1000 for step in range(300)]  # as a clock that counts nanoseconds gives them
    path = put(tmp_path, run_record(ranks=[rank(0, times_s, 1.0)], losses=[], epochs=[]))
    mirror_records([path], WANDB)
    (file,) = run_files(tmp_path)
    assert file.stat().st_size > wandb_log.BLOCK_SIZE
    rows = history(wandb_log.read(file))
    assert [row["timed/step_time_s"] for row in rows] == times_s


@pytest.mark.parametrize(
    "damage", [lambda log: log[:-1], lambda log: log[:40] + b"\xff" + log[41:], lambda log: b"x" + log]
)
def test_the_reader_refuses_a_damaged_file(mirrored, damage):
    (file,) = run_files(mirrored[1].parents[4])
    with pytest.raises(wandb_log.LogError):
        list(wandb_log.messages(damage(file.read_bytes())))


def test_tracking_none_writes_nothing_and_loads_no_wandb(tmp_path):
    path = put(tmp_path, run_record())
    program = (
        "import sys; from pathlib import Path; from train.tracking.offline import mirror_records;"
        "from train.config.schema import Tracking;"
        f"print(mirror_records([Path({str(path)!r})], Tracking('none', 'p', None, False)), 'wandb' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [path]


@pytest.fixture
def copied(mirrored, tmp_path) -> Path:
    """A results folder with a record that is mirrored."""
    return shutil.copytree(mirrored[1].parents[4], tmp_path / "results")


def test_sync_without_a_key_says_what_to_do_and_loses_nothing(copied, tmp_path, monkeypatch, capfd):
    (file,) = run_files(copied)
    text = file.read_bytes()
    monkeypatch.setenv("HOME", str(tmp_path))  # no ~/.netrc
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with pytest.raises(SystemExit) as stop:
        main(["sync", str(copied)])
    output = capfd.readouterr().err
    assert stop.value.code == 1
    assert "1 of 1 W&B runs were not uploaded" in output
    assert "WANDB_API_KEY" in output
    assert "No API key configured" in output
    assert file.read_bytes() == text


def test_sync_without_a_network_is_an_error(copied, tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{port}")  # nobody listens there any more
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_X_GRAPHQL_RETRY_MAX", "1")
    monkeypatch.setenv("WANDB_X_GRAPHQL_RETRY_WAIT_MIN_SECONDS", "0.1")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    with pytest.raises(UploadError, match=f"reaches http://127.0.0.1:{port}"):
        upload_runs(copied)
    assert list(elsewhere.iterdir()) == []  # its log is with the results
    assert list(copied.glob("wandb/logs/*.log"))


def test_sync_takes_only_what_is_mirrored_and_not_uploaded(copied):
    put(copied, run_record(repeat=2))  # never mirrored
    (file,) = run_files(copied)
    file.with_suffix(".wandb.synced").touch()  # as `wandb sync` leaves it
    assert upload_runs(copied) == 0


def test_sync_of_a_folder_that_is_not_there_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["sync", str(tmp_path / "nowhere")])
    assert stop.value.code == 2
    assert "nowhere: no such folder" in capsys.readouterr().err
