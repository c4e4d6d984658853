"""The W&B mirror of a record, and of a run in progress, read back from W&B's offline file: without a network."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wandb.proto.wandb_internal_pb2 import Record

from tests.helpers import wandb_log, wandb_server
from tests.helpers.kit import wait_for
from tests.helpers.wandb_runs import WANDB, history, items, only, put, rank, run_files, run_record
from train.config import compose
from train.config.identity import values
from train.record import predictions, protocol
from train.record.files import write_once
from train.record.parts import Part, PartWriter
from train.record.predictions import Predictions
from train.record.record import Epoch, Failure, RunRecord, dumps, find, load
from train.tracking import mirror, wandb_runs
from train.tracking.__main__ import main
from train.tracking.mirror import Logged, UploadError, Watchers, is_wanted, mirror_records, upload_runs


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, Path, list[Record]]:
    """A record as loaded, its path, and the messages of its mirror."""
    results = tmp_path_factory.mktemp("results")
    path = put(results, run_record())
    assert mirror_records([path], WANDB) == []
    (file,) = run_files(results)
    return load(path), path, wandb_log.read(file)


@pytest.mark.slow
def test_run_is_named_and_grouped_after_the_record(mirrored):
    record, path, messages = mirrored
    run = only(messages, "run")
    assert (run.project, run.run_group, run.job_type) == ("scaling", "weak_scaling", "resnet50-nodes2")
    assert run.display_name == "resnet50-nodes2 r1"
    assert run.run_id == record.sha256[:16] == (path.parent / "wandb-run-id").read_text()
    assert (run.host, list(run.tags), run.notes) == ("node-a", ["complete"], "first note\nsecond note")
    assert only(messages, "exit").exit_code == 0


@pytest.mark.slow
def test_configuration_is_mirrored(mirrored):
    record, _, messages = mirrored
    config = items(only(messages, "run").config.update)
    assert {key: value for key, value in config.items() if key != "_wandb"} == record.config


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_record_file_is_the_artifact(mirrored):
    record, path, messages = mirrored
    artifact = only(messages, "artifact")
    (file,) = artifact.manifest.contents
    assert (artifact.type, file.path, file.size) == ("run-record", "record.json", path.stat().st_size)
    assert Path(file.local_path) == path
    assert json.loads(artifact.metadata) == {"sha256": record.sha256}


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_long_runs_span_blocks_of_the_file(tmp_path):
    times_s = [step / 1000 for step in range(300)]  # as a clock that counts nanoseconds gives them
    path = put(tmp_path, run_record(ranks=[rank(0, times_s, 1.0)], losses=[], epochs=[]))
    mirror_records([path], WANDB)
    (file,) = run_files(tmp_path)
    assert file.stat().st_size > wandb_log.BLOCK_SIZE
    rows = history(wandb_log.read(file))
    assert [row["timed/step_time_s"] for row in rows] == times_s


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage", [lambda log: log[:-1], lambda log: log[:40] + b"\xff" + log[41:], lambda log: b"x" + log]
)
def test_the_reader_refuses_a_damaged_file(mirrored, damage):
    (file,) = run_files(mirrored[1].parents[4])
    with pytest.raises(wandb_log.LogError):
        list(wandb_log.messages(damage(file.read_bytes())))


@pytest.mark.slow
def test_tracking_none_writes_nothing_and_loads_no_wandb(tmp_path):
    path = put(tmp_path, run_record())
    program = (
        "import sys; from pathlib import Path; from train.tracking.mirror import mirror_records;"
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_sync_takes_only_what_is_mirrored_and_not_uploaded(copied):
    put(copied, run_record(repeat=2))  # never mirrored
    (file,) = run_files(copied)
    file.with_suffix(".wandb.synced").touch()  # as `wandb sync` leaves it
    assert upload_runs(copied) == 0


@pytest.mark.slow
def test_sync_of_a_folder_that_is_not_there_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["sync", str(tmp_path / "nowhere")])
    assert stop.value.code == 2
    assert "nowhere: no such folder" in capsys.readouterr().err


# Shorter than what waits for a server that does not answer, and longer than the patience of the watchers here.
NO_WAIT_S = wandb_runs.INIT_WITHIN_S / 2
EPOCHS = [Epoch(number, 22, 2.0, 1.0 / number, 0.5) for number in (1, 2, 3)]


def part(number=0, **fields):
    return Part(rank=number, cores=[number], **fields)


def sampled(until_s: int):
    return [(at + 0.5, 0.5 * at, 100, None, None) for at in range(until_s)]


def test_each_epoch_is_reported_once_when_it_has_ended():
    logged = Logged()
    assert [row["epochs/epoch"] for row in logged.new_rows([part(epochs=EPOCHS[:1])])] == [1]
    assert logged.new_rows([part(epochs=EPOCHS[:1])]) == []
    assert [row["epochs/epoch"] for row in logged.new_rows([part(epochs=EPOCHS)])] == [2, 3]
    assert logged.new_rows([part(epochs=EPOCHS[:1])]) == []  # a rank that became rank 0 has not all of them yet


def test_a_second_is_reported_when_every_rank_has_left_its_samples():
    logged = Logged()
    rows = logged.new_rows([part(samples=sampled(6)), part(1, samples=sampled(4))])
    assert [row["usage/time_s"] for row in rows] == [1, 2]  # second 3 has a sample of each, and may get more
    rows = logged.new_rows([part(samples=sampled(6)), part(1, samples=sampled(6))])
    assert [row["usage/time_s"] for row in rows] == [3, 4]
    assert logged.new_rows([part(samples=sampled(9)), part(1)]) == []


def test_the_phase_is_reported_when_it_is_another_one():
    logged = Logged()
    output = logged.new_summary([part(phase="timed", phases_s={"start": 1.0}), part(1, phases_s={"start": 2.0})])
    assert output == {"status": "running", "phase": "timed", "phases_s/start": 2.0}
    assert logged.new_summary([part(phase="timed", phases_s={"start": 1.5})]) == {}


def test_with_its_record_a_run_gets_what_is_left():
    logged = Logged()
    logged.new_rows([part(epochs=EPOCHS[:2], samples=sampled(4))])
    one = rank(0, [0.25, 0.5], 0.75)
    one.usage = part(samples=sampled(6)).usage
    left = logged.left(run_record(epochs=EPOCHS, ranks=[one]))
    assert [row["epochs/epoch"] for row in left if "epochs/epoch" in row] == [3]
    assert [row["usage/time_s"] for row in left if "usage/time_s" in row] == [3, 4, 5]
    assert sum("timed/step" in row for row in left) == 2


@pytest.mark.parametrize(
    ("name", "asked", "epochs", "wanted"),
    [("wandb", None, 8, True), ("wandb", None, 0, False), ("wandb", True, 0, True), ("wandb", False, 8, False),
     ("none", True, 8, False)],
)  # fmt: skip
def test_training_over_epochs_is_logged_live_unless_asked_otherwise(name, asked, epochs, wanted):
    tracking = compose.load([f"tracking={name}", f"tracking.live={'null' if asked is None else asked}"]).tracking
    assert is_wanted(tracking, epochs) is wanted


# What the launcher and its ranks do of a run of three epochs, the first of which is there when it is called.


def begin(results: Path, *overrides: str, name: str = "r0"):
    """The folder of a run in progress, what is asked of it, and the part of its rank."""
    config = compose.load(
        ["experiment=accuracy_digits", "nodes=1", "measure.epochs=3", f"results={results}", *overrides]
    )
    folder = results / "accuracy_digits" / "nodes1" / "01234567" / name
    folder.mkdir(parents=True)
    asked = protocol.Assignment(values(config), "0123456789abcdef", 0, {}, False, False)
    protocol.write_assignment(folder, asked)
    writer = PartWriter(protocol.part_path(folder, 0, "node-a", 7), rank=0, host="node-a", cores=[0], began_at=1.0)
    writer.add(phase="evaluate", epochs=EPOCHS[:1], samples=sampled(4), phases_s={"start": 0.5})
    return folder, asked, writer


def end(folder: Path, writer: PartWriter, **changes) -> RunRecord:
    """The record of the run, with all three epochs."""
    one = rank(0, [0.25], 0.25)
    one.usage = part(samples=sampled(6)).usage
    generation = int(folder.name.partition(".")[2] or 1)
    record = run_record(
        experiment="accuracy_digits", point="nodes1", repeat=0, generation=generation, ranks=[one], losses=[2.0],
        epochs=EPOCHS, **changes,
    )  # fmt: skip
    write_once(folder / "record.json", dumps(record))
    return record


def log_of(folder: Path) -> str:
    return (folder / "tracking.log").read_text()


def epochs_in(results: Path) -> list[int]:
    """The epochs that W&B's offline files have so far; a message that is being written does not count."""
    result = []
    for file in run_files(results):
        try:
            for message in wandb_log.messages(file.read_bytes()):
                result += [row["epochs/epoch"] for row in history([wandb_log.Record.FromString(message)])
                          if "epochs/epoch" in row]  # fmt: skip
        except wandb_log.LogError:
            pass
    return result


@pytest.mark.end_to_end
def test_a_run_is_logged_while_it_trains_and_ends_as_one_whole_run(tmp_path):
    output = ["tracking.tags=[mine]", "tracking.notes=why", "tracking.group=study"]
    folder, asked, writer = begin(tmp_path, *output)
    watchers = Watchers(timeout_s=300)
    watchers.watch(folder, asked)()
    wait_for(lambda: epochs_in(tmp_path) == [1])  # on disk, before there is a record
    writer.add(epochs=EPOCHS[1:2])
    record = end(folder, writer)
    assert watchers.finish() == []
    assert mirror_records([folder / "record.json"], compose.load(output).tracking) == []  # nothing is left to do
    (file,) = run_files(tmp_path)
    messages = wandb_log.read(file)
    rows = history(messages)
    assert [row["epochs/epoch"] for row in rows if "epochs/epoch" in row] == [1, 2, 3]
    assert [row["usage/time_s"] for row in rows if "usage/time_s" in row] == [1, 2, 3, 4, 5]
    assert [row["timed/loss"] for row in rows if "timed/loss" in row] == [2.0]
    run = [message.run for message in messages if message.WhichOneof("record_type") == "run"][-1]
    assert run.run_id == (folder / "wandb-run-id").read_text()
    assert (run.run_group, run.job_type, run.display_name) == ("study", "nodes1", "nodes1 r0")
    assert sorted(run.tags) == ["complete", "mine"]
    assert run.notes == "why\nfirst note\nsecond note"
    summary = {}
    for message in messages:
        summary |= items(message.summary.update)
    assert (summary["status"], summary["phase"], summary["job_s"]) == ("complete", "exit", record.job_s)
    assert [message.exit.exit_code for message in messages if message.HasField("exit")] == [0]
    assert sum(message.WhichOneof("record_type") == "artifact" for message in messages) == 1


@pytest.mark.end_to_end
def test_after_an_interruption_and_a_kill_there_is_one_whole_run_a_record(tmp_path):
    folder, asked, writer = begin(tmp_path)
    # A launcher that is killed: the process that logs ends by itself, and leaves a run without a record.
    program = (
        "import pathlib, sys, time; from train.record import protocol; from train.tracking.mirror import Watchers\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "watchers = Watchers(); watchers.watch(folder, protocol.read_assignment(folder))\n"
        "print([process.pid for process in watchers.running.values()][0], flush=True); time.sleep(600)"
    )
    launcher = subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True)
    logger = int(launcher.stdout.readline())
    wait_for(lambda: epochs_in(tmp_path) == [1])
    launcher.kill()
    launcher.wait()
    wait_for(lambda: not Path(f"/proc/{logger}").exists())
    assert len(run_files(tmp_path)) == 1

    # The next launch of the same repeat; its logger is killed, so that its run is written from the record.
    again, asked, writer = begin(tmp_path, name="r0.2")
    watchers = Watchers(timeout_s=5)
    watchers.watch(again, asked)
    wait_for(lambda: (again / "wandb-live-id").exists() and epochs_in(tmp_path) == [1])
    os.kill(watchers.running[again].pid, signal.SIGKILL)
    end(again, writer)
    (problem,) = watchers.finish()
    assert f"{again}: not logged while it trained" in problem
    assert mirror_records([again / "record.json"], WANDB) == []
    (file,) = run_files(tmp_path)
    messages = wandb_log.read(file)
    assert [row["epochs/epoch"] for row in history(messages) if "epochs/epoch" in row] == [1, 2, 3]
    assert file.parent.name.endswith((again / "wandb-live-id").read_text())


def asked_tracking(asked: protocol.Assignment):
    return mirror.Tracking(**asked.config["tracking"])


def is_written_offline(folder: Path, asked: protocol.Assignment, problem: str) -> None:
    """Whether the problem names the run, and the run is written from its record, with every epoch once."""
    assert str(folder) in problem
    assert mirror_records([folder / "record.json"], asked_tracking(asked)) == []
    (file,) = run_files(Path(asked.config["results"]))
    assert [row["epochs/epoch"] for row in history(wandb_log.read(file)) if "epochs/epoch" in row] == [1, 2, 3]


@pytest.mark.end_to_end
def test_a_server_that_never_answers_costs_nothing_but_the_wait_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        held = []
        threading.Thread(target=lambda: held.append(server.accept()), daemon=True).start()  # and no answer
        folder, asked, writer = begin(tmp_path, "tracking.mode=online")
        watchers = Watchers(timeout_s=4)
        began = time.monotonic()
        look = watchers.watch(folder, asked)
        look()
        assert time.monotonic() - began < NO_WAIT_S  # it does not wait for the answer
        wait_for(lambda: held)
        end(folder, writer)
        began = time.monotonic()
        (problem,) = watchers.finish()
    assert time.monotonic() - began < NO_WAIT_S  # nor here, beyond its patience
    is_written_offline(folder, asked, problem)


@pytest.mark.end_to_end
def test_a_link_that_is_cut_in_the_middle_costs_nothing_but_the_wait_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    with wandb_server.running() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        folder, asked, writer = begin(tmp_path, "tracking.mode=online")
        watchers = Watchers(timeout_s=4)
        look = watchers.watch(folder, asked)
        wait_for(lambda: any(line.get("epochs/epoch") == 1 for line in server.lines.values()))
        server.cut()
        writer.add(epochs=EPOCHS[1:2])
        began = time.monotonic()
        look()
        assert time.monotonic() - began < NO_WAIT_S
        wait_for(server.asked_in_vain.is_set)
        end(folder, writer)
        began = time.monotonic()
        (problem,) = watchers.finish()
        assert time.monotonic() - began < NO_WAIT_S
    is_written_offline(folder, asked, problem)
    assert not list(tmp_path.rglob("*.synced"))  # `make wandb-sync` sends it again, under the same ID


@pytest.mark.end_to_end
def test_online_the_server_has_every_epoch_when_the_run_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    with wandb_server.running() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        folder, asked, writer = begin(tmp_path, "tracking.mode=online")
        watchers = Watchers(timeout_s=300)
        watchers.watch(folder, asked)
        wait_for(lambda: any(line.get("epochs/epoch") == 1 for line in server.lines.values()))
        end(folder, writer)
        assert watchers.finish() == []
    assert [line["epochs/epoch"] for _, line in sorted(server.lines.items()) if "epochs/epoch" in line] == [1, 2, 3]
    assert mirror_records([folder / "record.json"], asked_tracking(asked)) == []
    assert run_files(tmp_path) == []  # none is offline
    assert len(list(tmp_path.rglob("*.wandb.synced"))) == 1
