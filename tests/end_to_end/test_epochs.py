"""Training over epochs, as a user starts it: what it evaluates does not depend on the ranks, nor on interruptions."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.helpers.kit import END_S, anything, make_command, needs_setup, records, run, start, wait_for
from tests.helpers.patched import Hold

pytestmark = pytest.mark.end_to_end

# Relative. Summed in another order, a float32 differs by 6e-8, and later steps hand that on: no more than that.
TOLERANCE = 1e-5


def training(results: Path, nodes: int, *overrides: str) -> list[str]:
    """One point of `make accuracy-digits`, of a network without dropout: its random numbers are in no checkpoint."""
    options = ("model=digits_plain", "tracking=none", f"results={results}", f"nodes={nodes}", f"--only=nodes{nodes}")
    return [sys.executable, "-m", "train.launch", "experiment=accuracy_digits", *options, *overrides]


@needs_setup
def test_after_ctrl_c_make_resumes_past_a_damaged_checkpoint_and_ends_with_the_same_history(tmp_path: Path):
    epochs, temporary = "measure.epochs=8", tmp_path / "temporary"
    temporary.mkdir()
    variables = {"TMPDIR": str(temporary)}
    status, output = run(*training(tmp_path / "whole", 2, epochs), variables=variables)
    assert status == 0, output
    (whole,) = records(tmp_path / "whole")
    assert list(tmp_path.rglob("epoch-*")) == []  # a complete run needs none

    parted = tmp_path / "parted"
    given = (f"RESULTS={parted}", "MODELS=digits_plain", "NODES=2", "ONLY=nodes2", f"ARGS=tracking=none {epochs}")
    command = make_command(tmp_path / "kit", "accuracy-digits", *given)
    hold = Hold(tmp_path / "patch", "train.loop.checkpoint.save", after=3, ranks=[0])
    make = start(*command, terminal=True, variables=hold.variables | variables)
    wait_for(hold.holds)
    os.killpg(make.pid, signal.SIGINT)
    output, _ = make.communicate(timeout=END_S)
    assert make.returncode != 0, output
    assert "the same command resumes from here" in output
    assert anything(parted) == []
    assert not list(temporary.iterdir())
    *_, older, newest = sorted(parted.rglob("epoch-*.npz"))
    done = int(older.stem.removeprefix("epoch-"))
    newest.write_bytes(newest.read_bytes()[:5000])

    status, output = run(*command)
    assert status == 0, output
    interrupted, rest = records(parted)
    assert (interrupted.status, rest.status, rest.generation) == ("failed", "complete", 2)
    assert f"{newest}: damaged" in rest.notes[0]
    assert f"resumed after its epoch {done};" in rest.notes[1]
    steps = 22 * (8 - done)  # 1438 samples // 64 in each epoch
    assert len(rest.ranks[0].step_times_s) == steps - 1  # the first step of a launch is not timed
    assert len(rest.losses) == len(whole.losses) == 22 * 8 - 1
    assert rest.losses == pytest.approx(whole.losses, rel=TOLERANCE)
    assert [(e.epoch, e.steps, e.train_accuracy, e.validation_accuracy) for e in rest.epochs] == [
        (e.epoch, e.steps, e.train_accuracy, e.validation_accuracy) for e in whole.epochs
    ]
    assert [e.validation_loss for e in rest.epochs] == pytest.approx(
        [e.validation_loss for e in whole.epochs], rel=TOLERANCE
    )
    assert list(tmp_path.rglob("epoch-*")) == []


def test_a_validation_part_that_does_not_divide_is_evaluated_to_the_sample(tmp_path: Path):
    samples = 101  # a prime
    found = {}
    for ranks in (1, 3):
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
    assert found[1] == found[3]
