"""What a user sees of a training in progress: on its terminal, in another one, in W&B; then Ctrl-C, and resumed."""

import re
import sys
from pathlib import Path

import pytest

from tests.helpers import wandb_log
from tests.helpers.kit import END_S, anything, records, run, wait_for
from tests.helpers.patched import Hold
from tests.helpers.terminal import Terminal
from tests.helpers.wandb_runs import history, run_files
from train.record import paths

pytestmark = pytest.mark.end_to_end

EPOCHS = 30
TRAINING = ("experiment=accuracy_digits", "model=digits_plain", "nodes=2", "--only=nodes2", f"measure.epochs={EPOCHS}")


def epochs_of(file: Path) -> list[int]:
    return [row["epochs/epoch"] for row in history(wandb_log.read(file)) if "epochs/epoch" in row]


def test_a_training_is_seen_while_it_runs_and_leaves_one_run_a_record(tmp_path: Path):
    command = [sys.executable, "-m", "train.launch", *TRAINING, f"results={tmp_path}"]
    # Both ranks wait with three epochs recorded (the function is called once before the first).
    hold = Hold(tmp_path / "patch", "train.loop.epochs.record_progress", after=3, ranks=[0, 1])
    terminal = Terminal(*command, variables=hold.variables)
    wait_for(hold.holds)
    wait_for(lambda: re.search(rf"epoch [34] of {EPOCHS}", terminal.shown))
    wait_for(lambda: list(tmp_path.rglob("wandb-live-id")))
    status, table = run(sys.executable, "-m", "train.launch.status", str(tmp_path))
    assert status == 0, table
    assert re.search(
        rf"accuracy_digits nodes2 r0: epoch [34] of {EPOCHS}, .*(about .* left|longer than expected), "
        r".*images/s, loss [\d.]+",
        table,
    )
    terminal.press("\x03")
    assert terminal.wait(END_S) == 130, terminal.shown
    assert anything(tmp_path) == []
    live = [line for line in terminal.shown.split("\n") if "nodes2 r0: epoch" in line]
    assert len(live) <= 2, terminal.shown  # it was written over, again and again; one line is left
    shown = [line.replace("^C", "") for line in terminal.lines()]  # which the terminal shows where the cursor is
    assert [line for line in shown if len(line) > 100] == []
    assert "images/s" in terminal.shown
    (interrupted,) = records(tmp_path)
    assert interrupted.status == "failed"

    status, output = run(*command)
    assert status == 0, output
    interrupted, rest = records(tmp_path)
    assert (rest.status, rest.generation) == ("complete", 2)
    assert [epoch.steps for epoch in rest.epochs] == [22] * EPOCHS  # 1438 samples // 64
    assert rest.epochs[-1].validation_accuracy > 0.94
    assert rest.notes[-1] == "30 samples an epoch left out: less than one global batch"
    told = {file.parent.name.rpartition("-")[2]: epochs_of(file) for file in run_files(tmp_path)}
    ids = {path.parent.name: path.read_text() for path in tmp_path.rglob("wandb-run-id")}
    assert told == {
        ids[paths.run_folder(tmp_path, 0, record.generation).name]: [epoch.epoch for epoch in record.epochs]
        for record in (interrupted, rest)
    }
