import pytest

from tests.helpers.run_records import disturb, make_rounds
from tests.helpers.wandb_runs import rank, run_record, save_record
from train.record.record import Usage, load
from train.tracking import wandb_runs


@pytest.mark.parametrize(
    ("times_s", "losses", "rows"),
    [
        # Three epochs of two steps, the first one before an interruption; the first step of a launch is not timed.
        (
            [0.25, 0.5, 0.75],
            [5.0, 4.0, 3.0, 2.0, 1.0],
            [(None, 5.0), (None, 4.0), (0.25, 3.0), (0.5, 2.0), (0.75, 1.0)],
        ),
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
    of_rounds_that_count = {name: wandb_runs.summary(record)[f"images_per_s_{name}"] for name in arms}
    assert of_rounds_that_count == pytest.approx(dict(zip(arms, (16, 20, 32), strict=True)))


def test_a_launch_without_rounds_has_no_rows_of_them():
    assert wandb_runs.round_rows(run_record()) == []


def test_use_is_the_mean_over_ranks_second_by_second():
    sampled = rank(0, [], 1.0)
    sampled.usage = Usage([3.5, 4.5], [1.0, 1.5], [100, 300], [None, None], [None, None])
    assert wandb_runs.usage_rows([sampled]) == [
        {"usage/time_s": 4, "usage/cpu_use_fraction": 0.5, "usage/memory_bytes": 300.0}
    ]


@pytest.fixture
def home(tmp_path):
    return tmp_path / "accuracy_digits" / "nodes2" / "01234567"


def run_folder(home, name):
    (home / name).mkdir(parents=True)
    return home / name


def test_a_record_has_the_id_of_the_run_that_was_begun_while_it_was_measured(tmp_path):
    path = save_record(tmp_path, run_record())
    record = load(path)
    assert wandb_runs.run_id(record, path.parent) == record.sha256[:16]
    begun = wandb_runs.begin_live(path.parent)
    assert wandb_runs.run_id(record, path.parent) == begun != record.sha256[:16]


def test_a_launch_that_has_a_record_keeps_its_id(home):
    recorded, again = run_folder(home, "r0"), run_folder(home, "r0.2")
    run_id = wandb_runs.begin_live(recorded)
    (recorded / "record.json").write_text("{}")
    assert wandb_runs.begin_live(again) != run_id
    assert (recorded / wandb_runs.LIVE_NAME).read_text() == run_id


def test_the_files_of_a_run_are_removed_and_no_others(home):
    folder = run_folder(home, "r0")
    runs = wandb_runs.home(folder)
    for name in ("offline-run-1-abc", "run-2-abc", "offline-run-3-def"):
        (runs / name).mkdir(parents=True)
    wandb_runs.remove_runs(folder, "abc")
    assert [path.name for path in runs.iterdir()] == ["offline-run-3-def"]
