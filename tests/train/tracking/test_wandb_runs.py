"""The rows of W&B runs. Their IDs and folders: test_mirror.py."""

import os

import pytest

from tests.helpers.mirrored_records import rank, run_record
from tests.helpers.run_records import disturb, make_rounds
from train.tracking import wandb_runs


@pytest.mark.parametrize(
    ("times_s", "losses", "rows"),
    [
        # After an interruption, as the first step of a launch is not timed.
        ([0.25, 0.5], [4.0, 3.0, 2.0, 1.0], [(None, 4.0), (None, 3.0), (0.25, 2.0), (0.5, 1.0)]),
        ([0.25, 0.5], [3.0], [(0.25, 3.0), (0.5, None)]),  # failed before its losses were known
    ],
)
def test_times_are_those_of_the_last_steps_and_unknown_values_have_no_column(times_s, losses, rows):
    record = run_record(ranks=[rank(0, times_s, 1.5)], losses=losses)
    result = wandb_runs.step_rows(record)
    assert [row["timed/step"] for row in result] == list(range(len(rows)))
    assert [(row.get("timed/step_time_s"), row.get("timed/loss")) for row in result] == rows
    assert not any(None in row.values() for row in result)


def test_a_launch_in_rounds_has_images_per_s_of_each_arm_in_each_round():
    """8 images a rank: 8 / 0.5 s on one node; 16 / 0.8 s, then 16 / 1 s on two, and 16 / 0.5 s without allreduce."""
    record = disturb(make_rounds([(0.5, 0.8, 0.5), (0.5, 1.0, 0.5)]), {1: 0.4})
    arms = ("1_node", "2_nodes", "2_nodes_without_allreduce")
    rows = [[row[f"rounds/images_per_s_{arm}"] for arm in arms] for row in wandb_runs.round_rows(record)]
    assert rows == [pytest.approx([16, 20, 32]), pytest.approx([16, 16, 32])]
    assert [(row["rounds/round"], row["rounds/counts"]) for row in wandb_runs.round_rows(record)] == [(0, 1), (1, 0)]
    counted_rates = {name: wandb_runs.summary(record)[f"images_per_s_{name}"] for name in arms}
    assert counted_rates == pytest.approx(dict(zip(arms, (16, 20, 32), strict=True)))


@pytest.mark.parametrize("content", ["*", "", "x/../../../*", "0123456789abcdef\n", "0" * 5000, "\udcff", None])
def test_a_file_of_an_id_that_holds_none_selects_no_run(tmp_path, content):
    """What begins a run removes those with its ID: with the ID "*" it would remove all."""
    run_folder = tmp_path / "experiment/point/01234567/r0"
    run_folder.mkdir(parents=True)
    for name in (wandb_runs.LIVE_NAME, wandb_runs.MARKER_NAME):
        if content is None:
            os.mkfifo(run_folder / name)
        else:
            (run_folder / name).write_bytes(content.encode(errors="surrogateescape"))
    record = run_record(ranks=[rank(0, [0.5], 1.5)], losses=[1.0])
    assert wandb_runs.run_id(record, run_folder) == record.sha256[:16]
    assert not wandb_runs.is_complete(run_folder)
    assert wandb_runs.run_file(run_folder / "record.json") is None
    for name in (wandb_runs.LIVE_NAME, wandb_runs.MARKER_NAME):
        (run_folder / name).unlink()
    assert wandb_runs.run_id(record, run_folder) == record.sha256[:16]
    name = wandb_runs.begin_live(run_folder)
    assert wandb_runs.run_id(record, run_folder) == name
