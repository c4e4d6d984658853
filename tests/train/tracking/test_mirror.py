"""The W&B mirror of a record, and of a run in progress, read from W&B's offline file, without a network."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from record import protocol
from record.parts import PartWriter, RankPart
from record.run_files import write_file
from record.schema import Environment, Epoch, Failure, RunRecord, dumps, find, load
from tests.helpers import wandb_log, wandb_server
from tests.helpers.kit import wait_for
from tests.helpers.mirrored_records import WANDB, history, items, only, rank, run_files, run_record, save_record
from train import predictions
from train.config import compose
from train.config.identity import values
from train.config.tracking_config import TrackingConfig
from train.predictions import Predictions
from train.tracking import wandb_runs
from train.tracking.__main__ import main
from train.tracking.mirror import Logged, Watchers, is_live, mirror_records, upload_runs

# They take from six seconds to half a minute, most of it in W&B.
ON_CHANGE = pytest.mark.on_change_of("train/tracking/", "record/parts.py", "record/progress.py")


def column(messages: list[Any], name: str) -> list[Any]:
    """The values of the history under this name."""
    return [row[name] for row in history(messages) if name in row]


def summary_in(messages: list[Any]) -> dict[str, Any]:
    return {name: value for message in messages for name, value in items(message.summary.update).items()}


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, Path, list[Any]]:
    """A record as loaded, its path, and the messages of its mirror."""
    results = tmp_path_factory.mktemp("results")
    environment = Environment([], {}, [], None, None, None, None, git_commit="0123abc", git_dirty=False, variables={})
    path = save_record(results, run_record(environment=environment))
    assert mirror_records([path], WANDB) == []
    (file,) = run_files(results)
    return load(path), path, wandb_log.read(file)


@pytest.mark.slow
def test_a_run_has_the_names_the_configuration_the_summary_and_the_file_of_its_record(mirrored):
    record, path, messages = mirrored
    run = only(messages, "run")
    assert (run.project, run.run_group, run.job_type) == ("scaling", "weak_scaling", "resnet50-nodes2")
    assert run.display_name == "resnet50-nodes2 r1"
    assert run.run_id == record.sha256[:16] == (path.parent / "wandb-run-id").read_text()
    assert (run.host, list(run.tags), run.notes) == ("node-a", ["complete"], "first note\nsecond note")
    assert run.git.commit == "0123abc"
    assert only(messages, "exit").exit_code == 0
    config = items(run.config.update)
    assert {key: value for key, value in config.items() if key != "_wandb"} == record.config
    final = summary_in(messages)
    expected = {"images_per_s": 42.5, "status": "complete", "started_at": "2026-11-20T10:00:00+00:00", "job_s": 12.5}
    expected |= columns("phases_s", start=0.5, timed=0.75)
    assert {key: final[key] for key in expected} == expected
    assert "phases_s/import" not in final
    artifact = only(messages, "artifact")
    (file,) = artifact.manifest.contents
    assert (artifact.type, json.loads(artifact.metadata)) == ("run-record", {"sha256": record.sha256})
    assert (file.path, file.size, Path(file.local_path)) == ("record.json", path.stat().st_size, path)


def columns(section: str, **values: float) -> dict[str, float]:
    return {f"{section}/{name}": value for name, value in values.items()}


@pytest.mark.slow
def test_history_holds_every_timed_step_of_the_slowest_rank_and_every_epoch_over_its_axis(mirrored):
    validated = columns("epochs", validation_loss=1.0, validation_accuracy=0.625)
    assert history(mirrored[2]) == [
        columns("timed", step=0, step_time_s=0.375, loss=2.0),
        columns("timed", step=1, step_time_s=0.5, loss=1.5),
        columns("epochs", epoch=1, steps=2, duration_s=4.0, train_loss=1.75, train_accuracy=0.25),
        columns("epochs", epoch=2, steps=2, duration_s=3.5, train_loss=1.25, train_accuracy=0.5) | validated,
    ]
    metrics = {message.metric.name or message.metric.glob_name: message.metric
               for message in mirrored[2] if message.WhichOneof("record_type") == "metric"}  # fmt: skip
    for axis in ("rounds/round", "timed/step", "epochs/epoch", "usage/time_s"):
        assert metrics[f"{axis.partition('/')[0]}/*"].step_metric == axis
        assert metrics[axis].options.hidden


@pytest.mark.slow
def test_predictions_are_a_chart_and_images(tmp_path):
    result = Predictions.empty(2, ("cat", "dog"))
    labels, answers, weights = np.array([0, 0, 1]), np.array([0, 1, 1]), np.ones(3, np.float32)
    result.add(np.zeros((3, 4, 4, 1), np.float32), labels, weights, answers, 0.75 * weights)
    (written := tmp_path / "written").mkdir()
    record = run_record(attachments=predictions.write_predictions(written, result))
    path = save_record(tmp_path, record)
    for name in record.attachments:
        (written / name).rename(path.with_name(name))
    assert mirror_records([path], WANDB) == []
    (file,) = run_files(tmp_path)
    messages = wandb_log.read(file)
    assert column(messages, "validation/examples/captions") == [["cat: predicted cat (0.75)"]]
    (table,) = file.parent.rglob("*.table.json")
    assert json.loads(table.read_text())["data"] == [["cat", "cat", 1], ["cat", "dog", 1], ["dog", "dog", 1]]
    # The artifact of the record has the files that the record names.
    artifacts = [message.artifact for message in messages if message.WhichOneof("record_type") == "artifact"]
    (artifact,) = [artifact for artifact in artifacts if artifact.type == "run-record"]
    assert sorted(entry.path for entry in artifact.manifest.contents) == sorted(["record.json", *record.attachments])


@pytest.mark.slow
def test_failed_run_is_mirrored_as_failed_with_its_measurements(tmp_path):
    measured = {"ranks": [], "losses": [2.0], "epochs": [], "cores_shared": True}
    failed = run_record(status="failed", failure=Failure("rank 1 was killed"), **measured)
    assert mirror_records([save_record(tmp_path, failed)], WANDB) == []
    messages = wandb_log.read(run_files(tmp_path)[0])
    assert only(messages, "exit").exit_code == 1
    assert list(only(messages, "run").tags) == ["failed", "cores_shared"]
    assert history(messages) == [{"timed/step": 0, "timed/loss": 2.0}]
    assert wandb_runs.summary(failed)["failure"] == "rank 1 was killed"


@pytest.mark.slow
def test_a_record_is_mirrored_once_after_an_interruption_and_beside_one_that_cannot_be_read(tmp_path, monkeypatch):
    broken, path = (save_record(tmp_path, run_record(repeat=repeat)) for repeat in (1, 2))
    broken.write_bytes(broken.read_bytes()[:-10])
    text, environment, files = path.read_bytes(), dict(os.environ), []
    with monkeypatch.context() as patched:
        patched.setattr(wandb_runs, "summary", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            mirror_records([path], WANDB)
    assert not wandb_runs.is_complete(path.parent)
    for _ in range(2):
        (failure,) = mirror_records([broken, path], WANDB)
        assert failure.startswith(f"{broken}: ")
        assert "not a whole run record" in failure
        files += run_files(tmp_path)
    assert files == files[:1] * 2
    assert len(history(wandb_log.read(files[0]))) == 4
    assert [(each.parent / "wandb-run-id").exists() for each in (broken, path)] == [False, True]
    assert path.read_bytes() == text
    assert find(tmp_path) == [broken, path]
    assert dict(os.environ) == environment
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    commands = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
    assert not [command for command in commands if b"wandb-core" in command]


@pytest.mark.slow
def test_mirror_connects_nowhere_whatever_the_environment_says(tmp_path, monkeypatch):
    path = save_record(tmp_path, run_record())
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        online = {"BASE_URL": f"http://127.0.0.1:{server.getsockname()[1]}", "API_KEY": "0" * 40, "MODE": "online"}
        for name, value in (online | {"RUN_ID": "another", "SWEEP_ID": "a1b2c3d4"}).items():
            monkeypatch.setenv(f"WANDB_{name}", value)
        assert mirror_records([path], WANDB) == []
        with pytest.raises(BlockingIOError):  # no connection waits
            server.accept()
    assert only(wandb_log.read(run_files(tmp_path)[0]), "run").run_id == wandb_runs.run_id(load(path), path.parent)
    assert os.environ["WANDB_SWEEP_ID"] == "a1b2c3d4"


def test_tracking_none_writes_nothing_and_loads_no_wandb(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # to import it is an error
    path = save_record(tmp_path, run_record())
    assert mirror_records([path], TrackingConfig("none", "p", None, False)) == []
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [path]


@pytest.fixture
def copied(mirrored, tmp_path) -> Path:
    """A results folder with a record that is mirrored."""
    return shutil.copytree(mirrored[1].parents[4], tmp_path / "results")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "problem"), [("", "No API key configured"), pytest.param("0" * 40, "reaches http://", marks=ON_CHANGE)]
)
def test_an_upload_without_a_key_or_a_network_says_what_to_do_and_loses_nothing(
    copied, tmp_path, monkeypatch, capfd, key, problem
):
    (file,) = run_files(copied)
    text = file.read_bytes()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # nobody listens there any more
    retries = {"X_GRAPHQL_RETRY_MAX": "1", "X_GRAPHQL_RETRY_WAIT_MIN_SECONDS": "0.1"}
    for name, value in ({"BASE_URL": f"http://127.0.0.1:{port}", "API_KEY": key} | retries).items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    monkeypatch.setenv("HOME", str(tmp_path))  # no ~/.netrc
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    with pytest.raises(SystemExit, match="1"):
        main(["sync", str(copied)])
    output = capfd.readouterr().err
    assert "1 of 1 W&B runs were not uploaded" in output
    assert problem in output
    assert file.read_bytes() == text
    assert list(elsewhere.iterdir()) == []  # its log is with the results
    assert bool(list(copied.glob("wandb/logs/*.log"))) == bool(key)


@pytest.mark.slow
def test_sync_uploads_only_mirrors_that_were_not_uploaded(copied, capsys):
    save_record(copied, run_record(repeat=2))  # never mirrored
    (file,) = run_files(copied)
    file.with_suffix(".wandb.synced").touch()  # as `wandb sync` leaves it
    assert upload_runs(copied) == 0
    with pytest.raises(SystemExit, match="2"):
        main(["sync", str(copied / "nowhere")])
    assert "nowhere: no such folder" in capsys.readouterr().err


# Shorter than the wait for a server that does not answer, and longer than the timeouts of the watchers here.
NO_WAIT_S = wandb_runs.INIT_WITHIN_S / 2
EPOCHS = [Epoch(number, 22, 2.0, 1.0 / number, 0.5) for number in (1, 2, 3)]


def part(number=0, epochs=0, seconds=0, **fields):
    """A rank with so many epochs, and a sample in each of so many seconds."""
    samples = [(at + 0.5, 0.5 * at, 100, None, None) for at in range(seconds)]
    return RankPart(rank=number, cores=[number], epochs=EPOCHS[:epochs], samples=samples, **fields)


def test_each_epoch_is_reported_once_when_it_has_ended():
    logged = Logged()
    # A rank that becomes rank 0 does not have all of them yet.
    for ended, new in ((1, [1]), (1, []), (3, [2, 3]), (1, [])):
        assert [row["epochs/epoch"] for row in logged.new_rows([part(epochs=ended)])] == new


def test_a_second_is_reported_when_every_rank_has_left_its_samples():
    logged = Logged()
    # Second 3 has a sample of each rank, and may get more.
    for seconds, new in (((6, 4), [1, 2]), ((6, 6), [3, 4]), ((9, 0), [])):
        parts = [part(number, seconds=count) for number, count in enumerate(seconds)]
        assert [row["usage/time_s"] for row in logged.new_rows(parts)] == new


def test_the_phase_is_reported_when_it_is_another_one():
    logged = Logged()
    output = logged.new_summary([part(phase="timed", phases_s={"start": 1.0}), part(1, phases_s={"start": 2.0})])
    assert output == {"status": "running", "phase": "timed", "phases_s/start": 2.0}
    assert logged.new_summary([part(phase="timed", phases_s={"start": 1.5})]) == {}


def test_with_its_record_a_run_gets_the_remaining_rows():
    logged = Logged()
    logged.new_rows([part(epochs=2, seconds=4)])
    only_rank = rank(0, [0.25, 0.5], 0.75)
    only_rank.usage = part(seconds=6).usage
    rows = logged.missing_rows(run_record(epochs=EPOCHS, ranks=[only_rank]))
    assert [row["epochs/epoch"] for row in rows if "epochs/epoch" in row] == [3]
    assert [row["usage/time_s"] for row in rows if "usage/time_s" in row] == [3, 4, 5]
    assert sum("timed/step" in row for row in rows) == 2


@pytest.mark.parametrize(
    ("name", "live", "epochs", "expected"),
    [
        ("wandb", None, 8, True),
        ("wandb", None, 0, False),
        ("wandb", True, 0, True),
        ("wandb", False, 8, False),
        ("none", True, 8, False),
    ],
)
def test_training_over_epochs_is_logged_live_unless_asked_otherwise(name, live, epochs, expected):
    assert is_live(TrackingConfig(name, "p", None, False, live=live), epochs) is expected


def begin(results: Path, *overrides: str, name: str = "r0"):
    """Begin a run of three epochs, of which one has ended; return its folder, assignment and the part of its rank."""
    experiment = ["experiment=accuracy_digits", "nodes=1", "measure.epochs=3", f"results={results}"]
    config = compose.load([*experiment, *overrides])
    folder = results / "accuracy_digits/nodes1/01234567" / name
    folder.mkdir(parents=True)
    assignment = protocol.Assignment(values(config), "0123456789abcdef", 0, {}, False, False)
    protocol.write_assignment(folder, assignment)
    writer = PartWriter(protocol.part_path(folder, 0, "node-a", 7), rank=0, host="node-a", cores=[0], began_at=1.0)
    writer.add(phase="evaluate", epochs=EPOCHS[:1], samples=part(seconds=4).samples, phases_s={"start": 0.5})
    return folder, assignment, writer


def end(folder: Path) -> RunRecord:
    """Write the record of the run, with all three epochs."""
    only_rank = rank(0, [0.25], 0.25)
    only_rank.usage = part(seconds=6).usage
    run = {"repeat": 0, "generation": int(folder.name.partition(".")[2] or 1)}
    measured = {"ranks": [only_rank], "losses": [2.0], "epochs": EPOCHS}
    record = run_record(experiment="accuracy_digits", point="nodes1", **run, **measured)
    write_file(folder / "record.json", dumps(record))
    return record


def epochs_in(results: Path) -> list[int]:
    """The epochs in W&B's offline files so far, without a message that is being written."""
    result = []
    for file in run_files(results):
        with suppress(wandb_log.LogError):
            for message in wandb_log.messages(file.read_bytes()):
                result += column([wandb_log.decoded(message)], "epochs/epoch")
    return result


@pytest.mark.end_to_end
def test_a_run_is_logged_while_it_trains_and_ends_as_one_whole_run(tmp_path):
    output = ["tracking.tags=[mine]", "tracking.notes=why", "tracking.group=study"]
    folder, assignment, writer = begin(tmp_path, *output)
    watchers = Watchers(timeout_s=300)
    watchers.watch(folder, assignment)()
    wait_for(lambda: epochs_in(tmp_path) == [1])  # on disk, before there is a record
    writer.add(epochs=EPOCHS[1:2])
    record = end(folder)
    assert watchers.finish() == []
    assert mirror_records([folder / "record.json"], compose.load(output).tracking) == []  # nothing is left to do
    (file,) = run_files(tmp_path)
    messages = wandb_log.read(file)
    assert column(messages, "epochs/epoch") == [1, 2, 3]
    assert column(messages, "usage/time_s") == [1, 2, 3, 4, 5]
    assert column(messages, "timed/loss") == [2.0]
    run = [message.run for message in messages if message.WhichOneof("record_type") == "run"][-1]
    assert run.run_id == (folder / "wandb-run-id").read_text()
    assert (run.run_group, run.job_type, run.display_name) == ("study", "nodes1", "nodes1 r0")
    assert sorted(run.tags) == ["complete", "mine"]
    assert run.notes == "why\nfirst note\nsecond note"
    summary = summary_in(messages)
    assert (summary["status"], summary["phase"], summary["job_s"]) == ("complete", "exit", record.job_s)
    assert [message.exit.exit_code for message in messages if message.HasField("exit")] == [0]
    assert sum(message.WhichOneof("record_type") == "artifact" for message in messages) == 1


@pytest.mark.end_to_end
@ON_CHANGE
def test_after_an_interruption_and_a_kill_each_record_has_one_whole_run(tmp_path):
    folder, _, _ = begin(tmp_path)
    # A launcher that is killed: the process that logs ends by itself. The next start writes the record.
    program = (
        "import pathlib, sys, time; from record import protocol; from train.tracking.mirror import Watchers\n"
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
    again, assignment, _ = begin(tmp_path, name="r0.2")
    watchers = Watchers(timeout_s=5)
    watchers.watch(again, assignment)
    wait_for(lambda: (again / "wandb-live-id").exists() and epochs_in(tmp_path) == [1, 1])
    os.kill(watchers.running[again].pid, signal.SIGKILL)
    end(again)
    (problem,) = watchers.finish()
    assert f"{again}: not logged while it trained" in problem
    assert mirror_records([again / "record.json"], WANDB) == []
    [file] = [file for file in run_files(tmp_path) if file.stem.endswith((again / "wandb-live-id").read_text())]
    assert column(wandb_log.read(file), "epochs/epoch") == [1, 2, 3]


@pytest.fixture
def begin_online(tmp_path, monkeypatch):
    """Begin a run whose server is at this address; return what `begin` returns."""

    def begin_with(url: str):
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        monkeypatch.setenv("WANDB_BASE_URL", url)
        return begin(tmp_path, "tracking.mode=online")

    return begin_with


def at_once(call: Callable[[], Any]) -> Any:
    """Return what `call` returns, and check that it does not wait for a server."""
    began = time.monotonic()
    result = call()
    assert time.monotonic() - began < NO_WAIT_S
    return result


def mirror_again(folder: Path, assignment: protocol.Assignment) -> list[Path]:
    """Mirror the record of the run, as the launcher does in the end; return the offline files of its experiment."""
    assert mirror_records([folder / "record.json"], TrackingConfig(**assignment.config["tracking"])) == []
    return run_files(Path(assignment.config["results"]))


@pytest.mark.end_to_end
@pytest.mark.parametrize("answers", [False, pytest.param(True, marks=ON_CHANGE)], ids=["at first", "later"])
def test_a_server_that_stops_answering_costs_nothing_but_the_wait_at_the_end(begin_online, tmp_path, answers):
    with wandb_server.running() as server:
        if not answers:
            server.stop_answering()
        folder, assignment, writer = begin_online(server.url)
        watchers = Watchers(timeout_s=1)
        check = at_once(lambda: watchers.watch(folder, assignment))
        if answers:
            wait_for(lambda: server.column("epochs/epoch") == [1])
            server.stop_answering()
            writer.add(epochs=EPOCHS[1:2])
        at_once(check)
        wait_for(server.request_unanswered.is_set)
        end(folder)
        (problem,) = at_once(watchers.finish)
    assert str(folder) in problem
    (file,) = mirror_again(folder, assignment)
    assert column(wandb_log.read(file), "epochs/epoch") == [1, 2, 3]
    assert not list(tmp_path.rglob("*.synced"))  # `make wandb-sync` sends it again, under the same ID


@pytest.mark.end_to_end
@ON_CHANGE
def test_online_the_server_has_every_epoch_when_the_run_ends(begin_online, tmp_path):
    with wandb_server.running() as server:
        folder, assignment, _ = begin_online(server.url)
        watchers = Watchers(timeout_s=300)
        watchers.watch(folder, assignment)
        wait_for(lambda: server.column("epochs/epoch") == [1])
        end(folder)
        assert watchers.finish() == []
    assert server.column("epochs/epoch") == [1, 2, 3]
    assert mirror_again(folder, assignment) == []  # none is offline
    assert len(list(tmp_path.rglob("*.wandb.synced"))) == 1
