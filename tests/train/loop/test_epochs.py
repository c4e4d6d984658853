import os
from dataclasses import replace

import pytest

from tests.helpers.configs import changed
from tests.helpers.context import make_context
from tests.helpers.learners import Learner, losses
from train.config.compose import load
from train.record.parts import PartWriter, read_part

pytestmark = pytest.mark.slow

TWO_EPOCHS = ["dataset=digits", "measure.epochs=2"]
VALUES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)


@pytest.fixture(scope="module")
def epochs():
    from train.loop import epochs

    return epochs


def committing(config):
    """Commit every two steps, as elastic training does."""
    return changed(config, {"distribution.elastic": True, "distribution.commit_steps": 2})


def test_training_resumes_from_any_commit_as_if_nothing_had_happened(epochs):
    commits = []
    whole = make_context(committing(load(TWO_EPOCHS)))
    epochs.train_epochs(whole, Learner(losses(*VALUES)), epochs.Progress(), commits.append)
    part = whole.part.part
    assert [(epoch.steps, epoch.train_loss, epoch.train_accuracy) for epoch in part.epochs] == [
        (5, 3, 0.5),
        (5, 8, 0.5),
    ]
    assert part.losses == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]  # the first step is not timed
    assert [(len(p.epochs), p.steps, p.samples, p.steps_before) for p in commits] == [
        (0, 2, 4, 2), (0, 4, 8, 4), (1, 0, 0, 5), (1, 2, 4, 7), (1, 4, 8, 9), (2, 0, 0, 10)
    ]  # fmt: skip

    rest = make_context(committing(load(TWO_EPOCHS)))
    epochs.train_epochs(rest, Learner(losses(*VALUES[7:])), commits[3], lambda done: None)
    resumed = rest.part.part
    assert [(epoch.steps, epoch.train_loss) for epoch in resumed.epochs] == [(5, 3), (5, 8)]
    assert resumed.losses == part.losses
    assert len(resumed.step_times_s) == 2  # the first of the three is traced again


def test_without_commits_an_epoch_is_one_window(epochs):
    commits = []
    made = make_context(load(TWO_EPOCHS))
    epochs.train_epochs(made, Learner(losses(*VALUES)), epochs.Progress(), commits.append)
    assert [len(p.epochs) for p in commits] == [1, 2]
    assert len(made.part.part.step_times_s) == 9


def test_an_epoch_is_on_disk_when_the_next_one_begins(epochs, tmp_path):
    made = make_context(load(TWO_EPOCHS))
    path = tmp_path / "rank-0.jsonl"
    made.part.append_to(path)
    step, seen = losses(*VALUES), []

    def looking(images, labels):
        seen.append(read_part(path))
        return step(images, labels)

    epochs.train_epochs(made, Learner(looking), epochs.Progress(), lambda done: None)
    sixth = seen[5]
    assert [epoch.train_loss for epoch in sixth.epochs] == [3.0]
    assert sixth.losses == [2.0, 3.0, 4.0, 5.0]
    assert len(sixth.step_times_s) == 4
    assert sixth.phase == "timed"


def test_after_a_loss_that_is_no_number_all_before_it_are_recorded(epochs):
    made = make_context(load(TWO_EPOCHS))
    values = (*VALUES[:7], float("nan"), *VALUES[8:])
    with pytest.raises(epochs.NotFinite, match="step 8"):
        epochs.train_epochs(made, Learner(losses(*values)), epochs.Progress(), lambda done: None)
    assert made.part.part.losses == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert [epoch.epoch for epoch in made.part.part.epochs] == [1]


def test_a_rank_that_becomes_rank_0_records_what_its_part_lacks(epochs):
    made = make_context(load(TWO_EPOCHS))
    commits = []
    epochs.train_epochs(made, Learner(losses(*VALUES)), epochs.Progress(), commits.append)
    late = make_context(load(TWO_EPOCHS))
    late.part.add(epochs=list(commits[0].epochs), losses=list(commits[0].losses))
    for _ in range(2):
        epochs.record_progress(late, commits[-1])
    assert late.part.part.epochs == made.part.part.epochs
    assert late.part.part.losses == made.part.part.losses

    class RankOne:
        rank = 1

    other = make_context(load(TWO_EPOCHS), RankOne())
    epochs.record_progress(other, commits[-1])
    assert other.part.part == PartWriter().part


def variables(value):
    """As of a model and an optimizer: weights, a counter, and a scalar."""
    import tensorflow as tf

    return [tf.Variable([[value, 0.1]] * 50), tf.Variable(int(value), dtype=tf.int64), tf.Variable(value / 3)]


def after(count):
    """The progress after so many epochs, of losses that have no short decimal form."""
    from train.loop.epochs import Progress
    from train.record.record import Epoch

    done = tuple(Epoch(n, 5, 0.1, 1 / (n + 2), 0.5, 1 / 3, 0.5) for n in range(1, count + 1))
    return Progress(epochs=done, losses=(0.1, 1 / 7))


def saved(epochs, folder, count):
    for epoch in range(1, count + 1):
        epochs.save_checkpoint(folder, after(epoch), variables(float(epoch)), "these samples")


def restored(epochs, folder, fingerprint="these samples"):
    fresh = variables(0.0)
    progress, notes = epochs.restore_checkpoint(folder, fresh, fingerprint)
    return progress, [variable.numpy().ravel()[0] for variable in fresh[:2]], notes


def test_the_last_two_are_kept_and_the_newest_is_what_was_saved(epochs, tmp_path):
    saved(epochs, tmp_path / "checkpoints-r0", 3)
    assert sorted(os.listdir(tmp_path / "checkpoints-r0")) == ["epoch-00002.npz", "epoch-00003.npz"]
    progress, values, (note,) = restored(epochs, tmp_path / "checkpoints-r0")
    assert progress == after(3)
    assert values == [3.0, 3]
    assert "resumed after its epoch 3" in note


def test_without_any_nothing_changes(epochs, tmp_path):
    progress, values, notes = restored(epochs, tmp_path / "none")
    assert (progress.epochs, values, notes) == ((), [0.0, 0], [])


@pytest.mark.parametrize("damage", ["truncated", "a flipped bit", "empty"])
def test_a_damaged_one_is_named_and_the_one_before_is_used(epochs, tmp_path, damage):
    saved(epochs, tmp_path, 2)
    newest = tmp_path / "epoch-00002.npz"
    whole = newest.read_bytes()
    middle = whole.index(b"\xcd\xcc\xcc\x3d")  # a 0.1 among the weights
    newest.write_bytes(
        {"truncated": whole[:-100], "empty": b"", "a flipped bit": whole[:middle] + b"\xcc" + whole[middle + 1 :]}[
            damage
        ]
    )
    progress, values, notes = restored(epochs, tmp_path)
    assert progress == after(1)
    assert values == [1.0, 1]
    assert f"{newest}: damaged" in notes[0]
    assert "resumed after its epoch 1" in notes[1]


def test_an_unfinished_file_does_not_count(epochs, tmp_path):
    saved(epochs, tmp_path, 1)
    (tmp_path / "epoch-00002.writing").write_bytes((tmp_path / "epoch-00001.npz").read_bytes()[:300])
    progress, _, notes = restored(epochs, tmp_path)
    assert (progress, len(notes)) == (after(1), 1)


def test_other_samples_or_another_model_are_not_resumed(epochs, tmp_path):
    import tensorflow as tf

    saved(epochs, tmp_path, 1)
    progress, values, (note,) = restored(epochs, tmp_path, "others")
    assert (progress.epochs, values) == ((), [0.0, 0])
    assert "other samples" in note
    other = [tf.Variable([1.0]), *variables(0.0)[1:]]
    progress, (note,) = epochs.restore_checkpoint(tmp_path, other, "these samples")
    assert progress.epochs == ()
    assert other[0].numpy() == [1.0]
    assert "another model" in note


def test_a_folder_that_cannot_be_written_is_named(epochs, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OSError, match="checkpoint was not written") as raised:
        epochs.save_checkpoint(tmp_path / "taken", replace(after(1)), variables(1.0), "")
    assert "epoch-00001.npz" in str(raised.value.filename)
