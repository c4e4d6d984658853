import os
from dataclasses import replace

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def kit():
    from train.loop import checkpoint

    return checkpoint


def variables(value):
    """As of a model and an optimizer: weights, a counter, and a scalar."""
    import tensorflow as tf

    return [tf.Variable([[value, 0.1]] * 50), tf.Variable(int(value), dtype=tf.int64), tf.Variable(value / 3)]


def after(epochs):
    """The progress after so many epochs, of losses that have no short decimal form."""
    from train.loop.epochs import Progress
    from train.record.record import Epoch

    done = tuple(Epoch(n, 5, 0.1, 1 / (n + 2), 0.5, 1 / 3, 0.5) for n in range(1, epochs + 1))
    return Progress(epochs=done, losses=(0.1, 1 / 7))


def saved(kit, folder, epochs):
    for epoch in range(1, epochs + 1):
        kit.save(folder, after(epoch), variables(float(epoch)), "these samples")


def restored(kit, folder, fingerprint="these samples"):
    fresh = variables(0.0)
    progress, notes = kit.restore(folder, fresh, fingerprint)
    return progress, [variable.numpy().ravel()[0] for variable in fresh[:2]], notes


def test_the_last_two_are_kept_and_the_newest_is_what_was_saved(kit, tmp_path):
    saved(kit, tmp_path / "checkpoints-r0", 3)
    assert sorted(os.listdir(tmp_path / "checkpoints-r0")) == ["epoch-00002.npz", "epoch-00003.npz"]
    progress, values, (note,) = restored(kit, tmp_path / "checkpoints-r0")
    assert progress == after(3)
    assert values == [3.0, 3]
    assert "resumed after its epoch 3" in note


def test_without_any_nothing_changes(kit, tmp_path):
    progress, values, notes = restored(kit, tmp_path / "none")
    assert (progress.epochs, values, notes) == ((), [0.0, 0], [])


@pytest.mark.parametrize("damage", ["truncated", "a flipped bit", "empty"])
def test_a_damaged_one_is_named_and_the_one_before_is_used(kit, tmp_path, damage):
    saved(kit, tmp_path, 2)
    newest = tmp_path / "epoch-00002.npz"
    whole = newest.read_bytes()
    middle = whole.index(b"\xcd\xcc\xcc\x3d")  # a 0.1 among the weights
    newest.write_bytes(
        {"truncated": whole[:-100], "empty": b"", "a flipped bit": whole[:middle] + b"\xcc" + whole[middle + 1 :]}[
            damage
        ]
    )
    progress, values, notes = restored(kit, tmp_path)
    assert progress == after(1)
    assert values == [1.0, 1]
    assert f"{newest}: damaged" in notes[0]
    assert "resumed after its epoch 1" in notes[1]


def test_an_unfinished_file_does_not_count(kit, tmp_path):
    saved(kit, tmp_path, 1)
    (tmp_path / "epoch-00002.writing").write_bytes((tmp_path / "epoch-00001.npz").read_bytes()[:300])
    progress, _, notes = restored(kit, tmp_path)
    assert (progress, len(notes)) == (after(1), 1)


def test_other_samples_or_another_model_are_not_resumed(kit, tmp_path):
    import tensorflow as tf

    saved(kit, tmp_path, 1)
    progress, values, (note,) = restored(kit, tmp_path, "others")
    assert (progress.epochs, values) == ((), [0.0, 0])
    assert "other samples" in note
    other = [tf.Variable([1.0]), *variables(0.0)[1:]]
    progress, (note,) = kit.restore(tmp_path, other, "these samples")
    assert progress.epochs == ()
    assert other[0].numpy() == [1.0]
    assert "another model" in note


def test_a_folder_that_cannot_be_written_is_named(kit, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OSError, match="checkpoint was not written") as raised:
        kit.save(tmp_path / "taken", replace(after(1)), variables(1.0), "")
    assert "epoch-00001.npz" in str(raised.value.filename)
