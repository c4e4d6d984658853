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
