"""Training over epochs, as a user starts and sees it, on a terminal, in another one, in W&B.

What it evaluates does not depend on the ranks, nor on interruptions.
"""

import re
import sys
from pathlib import Path

import pytest

from tests.helpers import wandb_log
from tests.helpers.kit import END_S, anything, make_command, needs_setup, records, run, wait_for
from tests.helpers.patched import Hold
from tests.helpers.terminal import Terminal
from tests.helpers.wandb_runs import history, run_files
from train.record import paths

pytestmark = pytest.mark.end_to_end

# Relative. Summed in another order, a float32 differs by 6e-8, and later steps hand that on: no more than that.
TOLERANCE = 1e-5
EPOCHS = 8


def training(results: Path, nodes: int, *overrides: str) -> list[str]:
    """One point of `make accuracy-digits`, of a network without dropout: its random numbers are in no checkpoint."""
    options = ("model=digits_plain", "tracking=none", f"results={results}", f"nodes={nodes}", f"--only=nodes{nodes}")
    return [sys.executable, "-m", "train.launch", "experiment=accuracy_digits", *options, *overrides]


def mirrored_epochs(file: Path) -> list[int]:
    """The epochs of a W&B run."""
    return [row["epochs/epoch"] for row in history(wandb_log.read(file)) if "epochs/epoch" in row]


@needs_setup
def test_a_training_is_seen_while_it_runs_and_resumes_past_a_damaged_checkpoint_with_the_same_history(tmp_path: Path):
    temporary, parted = tmp_path / "temporary", tmp_path / "parted"
    temporary.mkdir()
    variables = {"TMPDIR": str(temporary)}
    status, output = run(*training(tmp_path / "whole", 2, f"measure.epochs={EPOCHS}"), variables=variables)
    assert status == 0, output
    (whole,) = records(tmp_path / "whole")
    assert list(tmp_path.rglob("epoch-*")) == []  # a complete run needs none

    given = (f"RESULTS={parted}", "MODELS=digits_plain", "NODES=2", "ONLY=nodes2", f"ARGS=measure.epochs={EPOCHS}")
    command = make_command(tmp_path / "kit", "accuracy-digits", *given)
    # Both ranks wait with three epochs recorded (the function is called once before the first).
    hold = Hold(tmp_path / "patch", "train.loop.epochs.record_progress", after=3, ranks=[0, 1])
    terminal = Terminal(*command, variables=hold.variables | variables)
    wait_for(hold.holds)
    wait_for(lambda: re.search(rf"epoch [34] of {EPOCHS}", terminal.shown))
    wait_for(lambda: list(parted.rglob("wandb-live-id")))
    status, table = run(sys.executable, "-m", "train.launch.status", str(parted))
    assert status == 0, table
    assert re.search(
        rf"accuracy_digits nodes2 r0: epoch [34] of {EPOCHS}, .*(about .* left|longer than expected), "
        r".*images/s, loss [\d.]+",
        table,
    )
    terminal.press("\x03")
    assert terminal.wait(END_S) != 0, terminal.shown
    assert "the same command resumes from here" in terminal.shown
    assert anything(parted) == []
    assert [path for path in temporary.iterdir() if "wandb" not in path.name] == []  # an interrupted W&B leaves its own
    live = [line for line in terminal.shown.split("\n") if "nodes2 r0: epoch" in line]
    assert len(live) <= 2, terminal.shown  # it was written over, again and again; one line is left
    shown = [line.replace("^C", "") for line in terminal.lines()]  # which the terminal shows where the cursor is
    assert [line for line in shown if "r0: epoch" in line and len(line) > 100] == []
    assert "images/s" in terminal.shown

    *_, older, newest = sorted(parted.rglob("epoch-*.npz"))
    done = int(older.stem.removeprefix("epoch-"))
    newest.write_bytes(newest.read_bytes()[:5000])
    status, output = run(*command)
    assert status == 0, output
    interrupted, rest = records(parted)
    assert (interrupted.status, rest.status, rest.generation) == ("failed", "complete", 2)
    assert f"{newest}: damaged" in rest.notes[0]
    assert f"resumed after its epoch {done};" in rest.notes[1]
    assert rest.notes[-1] == "30 samples an epoch left out: less than one global batch"
    steps = 22 * (EPOCHS - done)  # 1438 samples // 64 in each epoch
    assert len(rest.ranks[0].step_times_s) == steps - 1  # the first step of a launch is not timed
    assert len(rest.losses) == len(whole.losses) == 22 * EPOCHS - 1
    assert rest.losses == pytest.approx(whole.losses, rel=TOLERANCE)
    assert [(e.epoch, e.steps, e.train_accuracy, e.validation_accuracy) for e in rest.epochs] == [
        (e.epoch, 22, e.train_accuracy, e.validation_accuracy) for e in whole.epochs
    ]
    assert [e.validation_loss for e in rest.epochs] == pytest.approx(
        [e.validation_loss for e in whole.epochs], rel=TOLERANCE
    )
    assert list(tmp_path.rglob("epoch-*")) == []
    mirrored = {file.parent.name.rpartition("-")[2]: mirrored_epochs(file) for file in run_files(parted)}
    ids = {path.parent.name: path.read_text() for path in parted.rglob("wandb-run-id")}
    assert mirrored == {
        ids[paths.run_folder(parted, 0, record.generation).name]: [epoch.epoch for epoch in record.epochs]
        for record in (interrupted, rest)
    }


def test_a_validation_part_that_does_not_divide_is_evaluated_to_the_sample(tmp_path: Path):
    samples = 101  # a prime
    found = {}
    for ranks in (1, 2):
        results = tmp_path / str(ranks)
        # At a higher rate rounding grows (docs/accuracy.md), and the ranks would not evaluate the same model.
        small = (f"dataset.validation_samples={samples}", "global_batch=48", "optimizer.learning_rate=0.01")
        status, output = run(*training(results, ranks, "measure.epochs=2", *small))
        assert status == 0, output
        (record,) = records(results)
        (answers,) = results.rglob("confusion.csv")
        found[ranks] = (record.epochs[-1].validation_accuracy, answers.read_text())
        correct = record.epochs[-1].validation_accuracy * samples
        assert correct == pytest.approx(round(correct), abs=1e-9)
        assert 0.5 * samples < correct < samples  # it tells samples apart, and answers are not all the same
    assert found[1] == found[2]
