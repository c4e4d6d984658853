"""Training over epochs, as a user starts it and watches it: on a terminal, by the status command, in W&B.

Neither the number of ranks nor interruptions change the evaluation.
"""

import re
import sys
from pathlib import Path

import pytest

from record.schema import RunRecord
from tests.helpers import kit
from tests.helpers.kit import LAUNCH, command_lines, make_command, needs_setup, records, run, succeed, wait_for
from tests.helpers.mirrored_records import run_files
from tests.helpers.patched_ranks import Hold
from tests.helpers.pseudo_terminal import ESCAPE, Terminal

pytestmark = pytest.mark.end_to_end

EPOCHS = 5
STEPS = 10  # of an epoch: 500 samples // 48
SAMPLES = 101  # for validation: a prime, which no number of ranks divides
# Rounding grows with the steps and the rate (docs/accuracy.md); with more the ranks would evaluate different models.
SETTINGS = (
    *("dataset.training_samples=500", f"dataset.validation_samples={SAMPLES}"),
    *("global_batch=48", "optimizer.learning_rate=0.01"),
)
# Relative. Another order of summation changes a float32 by 6e-8, and 50 steps propagate that.
TOLERANCE = 1e-3


def training(results: Path, nodes: int, *overrides: str) -> list[str]:
    """Return the command of one point of `make accuracy-digits`, without dropout, whose random state is not saved."""
    options = ("model=digits_plain", f"results={results}", f"nodes={nodes}", f"--only=nodes{nodes}")
    return [*LAUNCH, "experiment=accuracy_digits", *options, *SETTINGS, *overrides]


@pytest.fixture
def on_one_rank(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, str]:
    """The record of an uninterrupted training on one rank, and its confusion matrix."""
    results = tmp_path_factory.mktemp("one")
    alone = ("distribution=none", f"measure.epochs={EPOCHS}", "tracking=none")
    succeed(*training(results, 1, *alone))
    [record], [confusion] = records(results), results.rglob("confusion.csv")
    return record, confusion.read_text()


@needs_setup
def test_a_training_is_seen_while_it_runs_and_resumes_past_a_damaged_checkpoint_as_if_nothing_had_been(
    tmp_path: Path, on_one_rank: tuple[RunRecord, str]
):
    temporary, results = tmp_path / "temporary", tmp_path / "results"
    temporary.mkdir()
    settings = f"ARGS=measure.epochs={EPOCHS} {' '.join(SETTINGS)}"
    variables = (f"RESULTS={results}", "MODELS=digits_plain", "NODES=2", "ONLY=nodes2", settings)
    # Both ranks wait when three epochs are recorded (the function is also called before the first epoch).
    hold = Hold(tmp_path / "patch", "train.loop.epochs.record_progress", after=3, ranks=[0, 1])
    command = make_command(tmp_path / "kit", "accuracy-digits", *variables)
    terminal = Terminal(*command, variables=hold.variables | {"TMPDIR": str(temporary)})
    wait_for(hold.holds)
    for columns in (60, 160):
        terminal.resize(columns)
        wait_for(lambda: re.search(rf"nodes2 r0: epoch [34] of {EPOCHS}", "\n".join(terminal.lines())))
    wait_for(lambda: list(results.rglob("wandb-live-id")))
    status, table = run(sys.executable, "-m", "train.launch.status", str(results))
    assert status == 0, table
    assert re.search(
        rf"accuracy_digits nodes2 r0: epoch [34] of {EPOCHS}, .*(about .* left|longer than expected), "
        r".*images/s, loss [\d.]+",
        table,
    )
    terminal.press("\x03")
    assert terminal.wait(kit.TIMEOUT_S) != 0, terminal.output
    assert command_lines(results) == []
    assert [path for path in temporary.iterdir() if "wandb" not in path.name] == []  # an interrupted W&B leaves files
    screen = " ".join(terminal.lines())
    # Each update overwrites the line; each of the two changes of size may leave an old one.
    assert screen.count("nodes2 r0: epoch") <= 3, screen
    assert "interrupted by SIGINT" in screen
    assert "the same command resumes from here" in screen
    assert not ESCAPE.search(screen), screen
    assert "\x1b[?25h" in terminal.output  # the cursor is shown again
    assert "images/s" in terminal.output

    *_, older, newest = sorted(results.rglob("epoch-*.npz"))
    last_epoch = int(older.stem.removeprefix("epoch-"))
    newest.write_bytes(newest.read_bytes()[:5000])
    status, output = run(*training(results, 2, f"measure.epochs={EPOCHS}"))  # the launch of make, without the figures
    assert status == 0, output
    interrupted, rest = records(results)
    assert (interrupted.status, rest.status, rest.generation) == ("failed", "complete", 2)
    assert f"{newest}: damaged" in rest.notes[0]
    assert f"resumed after its epoch {last_epoch};" in rest.notes[1]
    assert "20 samples an epoch left out: less than one global batch" in rest.notes
    assert list(results.rglob("epoch-*")) == []  # a complete run needs no checkpoint
    # The first step of a launch is not timed.
    assert len(rest.ranks[0].step_times_s) == STEPS * (EPOCHS - last_epoch) - 1

    whole, confusion = on_one_rank
    assert len(rest.losses) == len(whole.losses) == STEPS * EPOCHS - 1
    assert rest.losses == pytest.approx(whole.losses, rel=TOLERANCE)
    assert [(e.epoch, e.steps, e.train_accuracy, e.validation_accuracy) for e in rest.epochs] == [
        (e.epoch, STEPS, e.train_accuracy, e.validation_accuracy) for e in whole.epochs
    ]
    assert [e.validation_loss for e in rest.epochs] == pytest.approx(
        [e.validation_loss for e in whole.epochs], rel=TOLERANCE
    )
    correct = rest.epochs[-1].validation_accuracy * SAMPLES
    assert correct == pytest.approx(round(correct), abs=1e-9)
    assert 0.5 * SAMPLES < correct < SAMPLES  # it separates classes, but not perfectly
    [path] = results.rglob("confusion.csv")
    assert path.read_text() == confusion

    assert len(run_files(results)) == 2  # each record is mirrored to W&B
