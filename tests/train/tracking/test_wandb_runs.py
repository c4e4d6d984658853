"""The rows that W&B plots, by hand."""

from tests.helpers.wandb_runs import rank, run_record
from train.record.record import Epoch, Usage
from train.tracking import wandb_runs


def test_resumed_training_has_its_own_times_at_the_last_steps():
    # Three epochs of two steps, the first one before the interruption; the first step of a launch is not timed.
    record = run_record(ranks=[rank(0, [0.25, 0.5, 0.75], 1.5)], losses=[5.0, 4.0, 3.0, 2.0, 1.0])
    assert wandb_runs.step_rows(record) == [
        {"timed/step": 0, "timed/loss": 5.0},
        {"timed/step": 1, "timed/loss": 4.0},
        {"timed/step": 2, "timed/step_time_s": 0.25, "timed/loss": 3.0},
        {"timed/step": 3, "timed/step_time_s": 0.5, "timed/loss": 2.0},
        {"timed/step": 4, "timed/step_time_s": 0.75, "timed/loss": 1.0},
    ]


def test_steps_that_failed_before_their_losses_were_known_keep_their_positions():
    record = run_record(ranks=[rank(0, [0.25, 0.5], 0.75)], losses=[3.0])
    assert wandb_runs.step_rows(record) == [
        {"timed/step": 0, "timed/step_time_s": 0.25, "timed/loss": 3.0},
        {"timed/step": 1, "timed/step_time_s": 0.5},
    ]


def test_what_is_not_known_has_no_column():
    assert wandb_runs.epoch_rows([Epoch(1, 2, 4.0, 1.5, 0.5)]) == [
        {
            "epochs/epoch": 1,
            "epochs/steps": 2,
            "epochs/duration_s": 4.0,
            "epochs/train_loss": 1.5,
            "epochs/train_accuracy": 0.5,
        }
    ]


def test_use_is_the_mean_over_ranks_second_by_second():
    used = rank(0, [], 1.0)
    used.usage = Usage([3.5, 4.5], [1.0, 1.5], [100, 300], [None, None], [None, None])
    assert wandb_runs.usage_rows([used]) == [
        {"usage/time_s": 4, "usage/cpu_use_fraction": 0.5, "usage/memory_bytes": 300.0}
    ]


def test_a_phase_takes_as_long_as_on_the_slowest_rank():
    assert wandb_runs.phases([{"start": 1.0, "timed": 2.0}, {"start": 3.0}]) == {
        "phases_s/start": 3.0,
        "phases_s/timed": 2.0,
    }
