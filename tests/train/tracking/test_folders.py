"""The IDs of W&B's runs: one a record, whatever was interrupted."""

import pytest

from tests.helpers.wandb_runs import put, run_record
from train.record.record import load
from train.tracking import wandb_runs


@pytest.fixture
def home(tmp_path):
    return tmp_path / "accuracy_digits" / "nodes2" / "01234567"


def run_folder(home, name):
    (home / name).mkdir(parents=True)
    return home / name


def test_a_record_has_the_id_of_the_run_that_was_begun_while_it_was_measured(tmp_path):
    path = put(tmp_path, run_record())
    record = load(path)
    assert wandb_runs.run_id(record, path.parent) == record.sha256[:16]
    begun = wandb_runs.begin_live(path.parent)
    assert wandb_runs.run_id(record, path.parent) == begun != record.sha256[:16]


def test_a_launch_that_was_cut_off_leaves_its_id_to_the_next_one_of_its_repeat(home):
    cut_off, other, again = (run_folder(home, name) for name in ("r0", "r1", "r0.2"))
    left = wandb_runs.begin_live(cut_off)
    assert wandb_runs.begin_live(other) != left
    assert wandb_runs.begin_live(again) == left
    assert not (cut_off / wandb_runs.LIVE_NAME).exists()


def test_a_launch_that_has_a_record_keeps_its_id(home):
    recorded, again = run_folder(home, "r0"), run_folder(home, "r0.2")
    kept = wandb_runs.begin_live(recorded)
    (recorded / "record.json").write_text("{}")
    assert wandb_runs.begin_live(again) != kept
    assert (recorded / wandb_runs.LIVE_NAME).read_text() == kept


def test_what_there_is_of_a_run_is_removed_and_nothing_else(home):
    folder = run_folder(home, "r0")
    runs = wandb_runs.home(folder)
    for name in ("offline-run-1-abc", "run-2-abc", "offline-run-3-def"):
        (runs / name).mkdir(parents=True)
    wandb_runs.remove_runs(folder, "abc")
    assert [path.name for path in runs.iterdir()] == ["offline-run-3-def"]
