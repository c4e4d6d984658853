import itertools
import os
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from record.parts import PartWriter, read_part
from record.schema import Epoch
from tests.helpers.context import FirstOfTwo, make_context
from tests.helpers.learners import Learner, losses
from train.config.compose import load
from train.loop import NotFinite, epochs

TWO_EPOCHS = ["dataset=digits", "measure.epochs=2"]
VALUES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)
NAN = float("nan")


@pytest.fixture(autouse=True)
def a_second_at_each_reading(monkeypatch):
    """A step takes two: it reads the clock at its begin, for its begin in the epoch, and at its end."""
    now = itertools.count(1000.0).__next__
    monkeypatch.setattr("train.loop.timed_steps.time", SimpleNamespace(time=now, perf_counter=now))
    monkeypatch.setattr("train.loop.timed_steps.synchronize_devices", lambda: None)


class TwoAlike(FirstOfTwo):
    """The first of two ranks that train alike."""

    def sum(self, values):
        return 2 * values


def train(step, context=None, progress=None, **means):
    """Train with a step; return what the rank records and the progress at each save."""
    context, saved = context or make_context(load(TWO_EPOCHS), TwoAlike()), []
    learner = Learner(step, SimpleNamespace(**means) if means else None)
    epochs.train_epochs(context, learner, progress or epochs.Progress(), saved.append)
    return context.part.part, saved


def test_training_resumes_after_an_epoch_as_if_nothing_had_happened():
    part, (after_first, after_second) = train(losses(*VALUES))
    # The clock is also read at the begin and the end of a window, which the first step is before.
    first, second = Epoch(1, 5, 2.0 + 13.0, 3.0, 0.5), Epoch(2, 5, 16.0, 8.0, 0.5)
    assert (part.epochs, part.losses) == ([first, second], [*VALUES[1:]])
    assert [(len(p.epochs), p.steps) for p in (after_first, after_second)] == [(1, 5), (2, 10)]

    resumed, _ = train(losses(*VALUES[5:]), progress=after_first)
    assert (resumed.epochs, resumed.losses) == ([first, replace(second, duration_s=15.0)], part.losses)
    assert len(resumed.step_times_s) == 4  # the first of the five is traced again
    complete, _ = train(losses(), progress=after_second)
    assert (complete.epochs, complete.losses) == (part.epochs, part.losses)


def test_the_model_answers_after_the_last_epoch():
    learner, asked = Learner(losses(*VALUES)), []
    learner.evaluate = asked.append
    answers = epochs.train_epochs(make_context(load(TWO_EPOCHS)), learner, epochs.Progress(), lambda progress: None)
    assert asked == [None, answers]
    assert answers.confusion.shape == (2, 2)


@pytest.mark.parametrize(("ordered", "error"), [(False, None), (True, 1.5)])
def test_means_over_the_validation_part_are_recorded_with_the_error_of_ordered_classes(ordered, error):
    config = load(TWO_EPOCHS)
    context = make_context(replace(config, dataset=replace(config.dataset, ordered=ordered)))
    part, _ = train(losses(*VALUES), context, loss=0.25, accuracy=0.75, mean_absolute_error=1.5)
    results = [(e.validation_loss, e.validation_accuracy, e.validation_mean_absolute_error) for e in part.epochs]
    assert results == [(0.25, 0.75, error)] * 2


def test_an_epoch_is_one_window_and_on_disk_when_the_next_one_begins(tmp_path):
    context, path = make_context(load(TWO_EPOCHS)), tmp_path / "rank-0.jsonl"
    context.part.append_to(path)
    step, on_disk = losses(*VALUES), []

    def read_and_step(images, labels):
        on_disk.append(read_part(path))
        return step(images, labels)

    part, _ = train(read_and_step, context)
    assert len(part.step_times_s) == 9
    sixth = on_disk[5]
    assert [epoch.train_loss for epoch in sixth.epochs] == [3.0]
    assert sixth.losses == [2.0, 3.0, 4.0, 5.0]
    assert len(sixth.step_times_s) == 4
    assert 0 < sixth.timed_cores.wall_s < part.timed_cores.wall_s  # of one epoch, of both
    assert [part.phase for part in on_disk] == ["first_step", *["timed"] * 9]


@pytest.mark.parametrize(
    ("values", "means", "step", "recorded"),
    [
        ((*VALUES[:7], NAN, *VALUES[8:]), {}, 8, [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
        (VALUES, {"loss": NAN}, 5, []),  # the last update spoilt the weights
    ],
)
def test_after_a_loss_that_is_no_number_all_before_it_are_recorded(values, means, step, recorded):
    context = make_context(load(TWO_EPOCHS))
    with pytest.raises(NotFinite, match=f"step {step}:"):
        train(losses(*values), context, **means)
    assert context.part.part.losses == recorded
    assert [epoch.epoch for epoch in context.part.part.epochs] == [1] * (step > 5)


def test_only_rank_0_records_the_progress():
    second_rank = make_context(load(TWO_EPOCHS), SimpleNamespace(rank=1))
    epochs.record_progress(second_rank, progress_after(1))
    assert second_rank.part.part == PartWriter().part


class Variable:
    """A variable with the members of TensorFlow's that checkpoints use. test_training.py saves and restores its own."""

    def __init__(self, value):
        self.assign(np.asarray(value))

    def assign(self, value):
        self._value, self.shape = value, value.shape

    def numpy(self):
        return self._value


def variables(value):
    """Variables like those of a model and an optimizer: weights, a counter and a scalar."""
    return [Variable(np.float32([[value, 0.1]] * 50)), Variable(np.int64(value)), Variable(np.float32(value / 3))]


def progress_after(count):
    """The progress after so many epochs; its losses have no short decimal form."""
    finished = tuple(Epoch(n, 5, 0.1, 1 / (n + 2), 0.5, 1 / 3, 0.5) for n in range(1, count + 1))
    return epochs.Progress(epochs=finished, losses=(0.1, 1 / 7))


@pytest.fixture
def save_checkpoints(tmp_path):
    """Save a checkpoint after each of so many epochs; return the folder."""

    def save(count):
        for epoch in range(1, count + 1):
            epochs.save_checkpoint(tmp_path / "r0", progress_after(epoch), variables(float(epoch)), "these samples")
        return tmp_path / "r0"

    return save


def restore(folder, fingerprint="these samples", fresh=None):
    fresh = fresh or variables(0.0)
    progress, notes = epochs.restore_checkpoint(folder, fresh, fingerprint)
    return progress, [variable.numpy().ravel()[0] for variable in fresh[:2]], notes


def test_the_last_two_checkpoints_are_kept_and_the_newest_is_restored(save_checkpoints):
    assert restore(save_checkpoints(0)) == (epochs.Progress(), [0.0, 0], [])
    folder = save_checkpoints(3)
    assert sorted(os.listdir(folder)) == ["epoch-00002.npz", "epoch-00003.npz"]
    (folder / ".epoch-00004.npz.0.writing").write_bytes((folder / "epoch-00003.npz").read_bytes()[:300])
    progress, values, (note,) = restore(folder)
    assert (progress, values) == (progress_after(3), [3.0, 3])
    assert "resumed after its epoch 3" in note
    (folder / "epoch-00001.npz").mkdir()
    with pytest.raises(OSError, match="it was not written") as raised:
        save_checkpoints(1)
    assert raised.value.filename == str(folder / "epoch-00001.npz")


@pytest.mark.parametrize("damage", ["truncated", "a flipped bit", "empty", "a pickle"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(save_checkpoints, damage):
    folder = save_checkpoints(2)
    newest = folder / "epoch-00002.npz"
    whole = newest.read_bytes()
    middle = whole.index(b"\xcd\xcc\xcc\x3d")  # a 0.1 among the weights
    flipped = whole[:middle] + b"\xcc" + whole[middle + 1 :]
    damaged = {"truncated": whole[:-100], "empty": b"", "a flipped bit": flipped, "a pickle": pickle.dumps([])}
    newest.write_bytes(damaged[damage])
    progress, values, notes = restore(folder)
    assert (progress, values) == (progress_after(1), [1.0, 1])
    assert f"{newest}: damaged" in notes[0]
    assert "resumed after its epoch 1" in notes[1]
    assert restore(save_checkpoints(2))[0] == progress_after(2)  # it takes the place of the damaged one


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        ("fingerprint", "of a run on other samples, not used"),
        ("shape", "of another model or optimizer, not used"),
        ("source_files", "of other code of the kit or other versions of packages, not used"),
        ("versions", "of other code of the kit or other versions of packages, not used"),
    ],
)
def test_other_samples_models_and_code_are_not_resumed(save_checkpoints, monkeypatch, changed, note):
    folder, fresh = save_checkpoints(2), variables(0.0)
    if module := {"source_files": epochs.files, "versions": epochs.environment}.get(changed):
        same = getattr(module, changed)()
        monkeypatch.setattr(module, changed, lambda: {**same, "another": "1"})
    elif changed == "shape":
        fresh[2] = Variable(np.zeros(1))
    progress, values, notes = restore(folder, "others" if changed == "fingerprint" else "these samples", fresh)
    assert (progress, values) == (epochs.Progress(), [0.0, 0])
    assert notes == [f"{folder}/epoch-0000{number}.npz: {note}" for number in (2, 1)]
