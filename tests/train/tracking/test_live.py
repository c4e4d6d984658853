"""A run that is logged while it is in progress, read back from W&B's offline file."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.helpers import wandb_log, wandb_server
from tests.helpers.kit import wait_for
from tests.helpers.wandb_runs import WANDB, history, items, rank, run_files, run_record
from train.config.compose import load
from train.config.identity import values
from train.record import protocol
from train.record.files import write_once
from train.record.parts import Part, PartWriter
from train.record.record import Epoch, RunRecord, dumps
from train.tracking import live, wandb_runs
from train.tracking.live import Logged, Watchers, is_wanted
from train.tracking.offline import mirror_records

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
    tracking = load([f"tracking={name}", f"tracking.live={'null' if asked is None else asked}"]).tracking
    assert is_wanted(tracking, epochs) is wanted


# What the launcher and its ranks do of a run of three epochs, the first of which is there when it is called.


def begin(results: Path, *overrides: str, name: str = "r0"):
    """The folder of a run in progress, what is asked of it, and the part of its rank."""
    config = load(["experiment=accuracy_digits", "nodes=1", "measure.epochs=3", f"results={results}", *overrides])
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
    assert mirror_records([folder / "record.json"], load(output).tracking) == []  # nothing is left to do
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
        "import pathlib, sys, time; from train.record import protocol; from train.tracking.live import Watchers\n"
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
    return live.Tracking(**asked.config["tracking"])


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
