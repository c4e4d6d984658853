from types import SimpleNamespace

import pytest

from tests.helpers.context import make_context
from tests.helpers.learners import Learner, losses
from train.config.compose import load
from train.record.protocol import HostsChange
from train.record.record import Epoch, Resize
from train.transport import connections

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def elastic():
    from train.loop import elastic_epochs

    return elastic_epochs


class Ranks:
    """Rank 0 of two whose peer is lost at a given exchange; afterwards it is alone. Meeting takes no time."""

    rank, local_rank, size = 0, 0, 2
    change = ()

    def __init__(self, lost_at=None):
        self._exchanges, self._lost_at = 0, lost_at

    def _exchange(self):
        from train.transport import PeerLost

        self._exchanges += 1
        if self._exchanges == self._lost_at:
            raise PeerLost("an exchange with the other ranks failed")

    def exchanges(self):
        from contextlib import nullcontext

        return nullcontext()

    def broadcast(self, variables):
        pass

    def average(self, variables):
        pass

    def barrier(self):
        self._exchange()

    def from_first(self, value, kind):
        return connections.decode(connections.encode(value), kind, "rank 0")

    def hosts_change(self):
        return HostsChange(*self.change)

    def gather(self, value, kind):
        return [value] * self.size

    def sum(self, values):
        return values * self.size

    def rejoin(self):
        self.size = 1

    def run(self, train, state, rejoin):
        """As Horovod does it."""
        from train.transport import PeerLost

        state.sync()
        while True:
            try:
                return train(state)
            except PeerLost:
                state.restore()
            rejoin()
            state.on_reset()
            state.sync()


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (("n1", "n2"), ("n1",), "lost n2"),
        (("n1",), ("n1", "n2"), "n2 came"),
        (("n1", "n1", "n2"), ("n1", "n3", "n3"), "lost n1, lost n2, n3 came"),  # one of two ranks on n1 is lost
        (("n1", "n2"), ("n2", "n1"), ""),
    ],
)
def test_a_change_of_hosts_in_words(elastic, before, after, words):
    assert elastic.change(before, after) == words


def state(elastic, variable):
    return elastic.Committed(Ranks(), lambda: [variable])


def test_what_was_not_committed_is_undone(elastic):
    import tensorflow as tf

    weight = tf.Variable(1.0)
    kept = state(elastic, weight)
    weight.assign(2.0)
    kept.progress = elastic.Progress(steps=5)
    kept.save()
    weight.assign(3.0)
    kept.progress = elastic.Progress(steps=9)
    kept.restore()
    assert float(weight) == 2.0
    assert kept.progress.steps == 5
    kept.restore()
    assert float(weight) == 2.0


def test_before_any_commit_training_returns_to_the_beginning(elastic):
    import tensorflow as tf

    weight = tf.Variable(1.0)
    kept = state(elastic, weight)
    weight.assign(2.0)
    kept.restore()
    assert (float(weight), kept.progress, kept.resizes) == (1.0, elastic.Progress(), ())


def test_after_a_sync_a_rank_returns_to_what_rank_0_had(elastic):
    import tensorflow as tf

    weight, of_rank_0 = tf.Variable(1.0), elastic.Progress(steps=7)
    kept = state(elastic, weight)
    kept._ranks.broadcast = lambda variables: variables[0].assign(8.0)
    kept._bcast_object = lambda values: {**values, "progress": of_rank_0}
    kept.sync()
    weight.assign(0.0)
    kept.restore()
    assert (float(weight), kept.progress) == (8.0, of_rank_0)


def test_a_resize_says_where_in_training_it_was(elastic):
    done = Epoch(1, 5, 1.0, 0.5, 0.5)
    before = SimpleNamespace(hosts=("n1", "n2"), resizes=(), progress=elastic.Progress(epochs=(done,), steps=3))
    assert elastic.resized(before, ("n1", "n2"), 9.0) == ()
    (resize,) = elastic.resized(before, ("n1",), 9.0)
    # the second epoch, after 5 + 3 steps
    assert resize == Resize(at_s=9.0, epoch=2, step=8, ranks_before=2, ranks_after=1, cause="lost n2")
    first = SimpleNamespace(hosts=(), resizes=(), progress=elastic.Progress())
    assert elastic.resized(first, ("n1",), 1.0) == ()


class Adapting(Learner):
    """Shares the data out among as many ranks as there are, as train.loop.learner.Learner does."""

    def __init__(self, train_step, ranks):
        super().__init__(train_step)
        self.ranks = ranks
        self.adapt()

    def adapt(self):
        self.data.share_out(0, self.ranks.size)

    def variables(self):
        return []


def test_training_continues_alone_from_the_last_commit_when_a_peer_is_lost(elastic):
    # Two ranks share ten samples of two each: 2 steps an epoch, two samples left over. Commits after each step. The
    # barriers of the first step are 1 and 2; at 3, before the second step, the peer is lost. 4 of 10 samples are used:
    # alone the rank makes 3 more steps, then 5 in the second epoch.
    config = load(["dataset=digits", "measure.epochs=2", "distribution.elastic=true", "distribution.commit_steps=1"])
    ranks, checked = Ranks(lost_at=3), []
    context = make_context(config, ranks)
    learner = Adapting(losses(*[float(number) for number in range(1, 10)]), ranks)
    elastic.train_elastically(context, ranks, learner, lambda: checked.append(ranks.size))
    part = context.part.part
    assert [(r.ranks_before, r.ranks_after, r.epoch, r.step) for r in part.resizes] == [(2, 1, 1, 1)]
    assert [epoch.steps for epoch in part.epochs] == [4, 5]
    assert part.epochs[0].train_loss == pytest.approx((1 + 2 + 3 + 4) / 4)
    assert checked == [2, 1]
    assert {"checkpoint", "init", "broadcast"} <= set(part.phases_s)


def test_a_change_of_hosts_that_the_launcher_tells_interrupts_training_once(elastic):
    import tensorflow as tf
    from horovod.common.exceptions import HostsUpdatedInterrupt

    kept = state(elastic, tf.Variable(1.0))
    kept.check_host_updates()
    kept._ranks.change = (1_700_000_000, 1)  # as Horovod has it: hosts were removed
    with pytest.raises(HostsUpdatedInterrupt) as interrupt:
        kept.check_host_updates()
    assert interrupt.value.skip_sync
    kept.check_host_updates()
    kept._ranks.change = (1_700_000_009, 3)  # removed and added
    with pytest.raises(HostsUpdatedInterrupt) as interrupt:
        kept.check_host_updates()
    assert not interrupt.value.skip_sync


def test_a_rank_that_is_started_after_a_change_of_hosts_is_not_interrupted_by_it(elastic, monkeypatch):
    import tensorflow as tf

    monkeypatch.setattr(Ranks, "change", (1_700_000_000, 2))
    state(elastic, tf.Variable(1.0)).check_host_updates()
