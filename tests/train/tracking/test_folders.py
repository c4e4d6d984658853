"""The IDs of W&B's runs: one a record, whatever was interrupted."""

import pytest

from tests.helpers.wandb_runs import put, run_record
from train.record.record import load
from train.tracking import folders


@pytest.fixture
def home(tmp_path):
    return tmp_path / "accuracy_digits" / "nodes2" / "01234567"


def run_folder(home, name):
    (home / name).mkdir(parents=True)
    return home / name


def test_a_record_has_the_id_of_the_run_that_was_begun_while_it_was_measured(tmp_path):
    path = put(tmp_path, run_record())
    record = load(path)
    assert folders.run_id(record, path.parent) == record.sha256[:16]
    begun = folders.begin_live(path.parent)
    assert folders.run_id(record, path.parent) == begun != record.sha256[:16]


def test_a_launch_that_was_cut_off_leaves_its_id_to_the_next_one_of_its_repeat(home):
    cut_off, other, again = (run_folder(home, name) for name in ("r0", "r1", "r0.2"))
    left = folders.begin_live(cut_off)
    assert folders.begin_live(other) != left
    assert folders.begin_live(again) == left
    assert not (cut_off / folders.LIVE_NAME).exists()


def test_a_launch_that_has_a_record_keeps_its_id(home):
    recorded, again = run_folder(home, "r0"), run_folder(home, "r0.2")
    kept = folders.begin_live(recorded)
    (recorded / "record.json").write_text("{}")
    assert folders.begin_live(again) != kept
    assert (recorded / folders.LIVE_NAME).read_text() == kept


def test_what_there_is_of_a_run_is_removed_and_nothing_else(home):
    folder = run_folder(home, "r0")
    runs = folders.home(folder)
    for name in ("offline-run-1-abc", "run-2-abc", "offline-run-3-def"):
        (runs / name).mkdir(parents=True)
    folders.remove_runs(folder, "abc")
    assert [path.name for path in runs.iterdir()] == ["offline-run-3-def"]
