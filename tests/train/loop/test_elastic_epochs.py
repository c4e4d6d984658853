from types import SimpleNamespace

import pytest

from record.protocol import HostsChange
from record.schema import Epoch, GroupChange
from tests.helpers.context import make_context
from tests.helpers.lazy import Lazy
from tests.helpers.learners import Learner, losses
from train.config.compose import load
from train.distribution import Single
from train.transport import PeerLost, connections

pytestmark = pytest.mark.slow

elastic, tf = Lazy("train.loop.elastic_epochs"), Lazy("tensorflow")
exceptions = Lazy("horovod.common.exceptions")


class Ranks(Single):
    """Rank 0 of two whose peer is lost at a given barrier; afterwards it is alone. Joining takes no time."""

    size = 2
    change = ()

    def __init__(self, lost_at=None):
        self._barriers, self._lost_at = 0, lost_at

    def barrier(self):
        self._barriers += 1
        if self._barriers == self._lost_at:
            raise PeerLost("an exchange with the other ranks failed")

    def from_rank_0(self, value, kind):
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
        """Train as Horovod's elastic mode does."""
        state.sync()
        while True:
            try:
                return train(state)
            except PeerLost:
                state.restore()
            rejoin()
            state.on_reset()
            state.sync()


@pytest.fixture
def committed():
    """The state of a rank with one weight, and the weight, which is 1."""
    weight = tf.Variable(1.0)
    return elastic.Committed(Ranks(), lambda: [weight]), weight


def test_training_returns_to_the_beginning_or_to_the_last_commit(committed):
    state, weight = committed
    weight.assign(2.0)
    state.restore()
    assert (float(weight), state.progress, state.resizes) == (1.0, elastic.Progress(), ())
    weight.assign(2.0)
    state.progress = elastic.Progress(steps=5)
    state.save()
    for _ in range(2):
        weight.assign(3.0)
        state.progress = elastic.Progress(steps=9)
        state.restore()
        assert (float(weight), state.progress.steps) == (2.0, 5)


def test_after_a_sync_a_rank_returns_to_the_state_of_rank_0(committed):
    (state, weight), progress = committed, elastic.Progress(steps=7)
    state._ranks.broadcast = lambda variables: variables[0].assign(8.0)
    state._bcast_object = lambda values: {**values, "progress": progress}
    state.sync()
    weight.assign(0.0)
    state.restore()
    assert (float(weight), state.progress) == (8.0, progress)


def test_a_resize_has_its_epoch_and_step():
    epoch = Epoch(1, 5, 1.0, 0.5, 0.5)
    before = SimpleNamespace(hosts=("n1", "n2"), resizes=(), progress=elastic.Progress(epochs=(epoch,), steps=3))
    assert elastic.resized(before, ("n1", "n2"), 9.0) == ()
    # The second epoch, after 5 + 3 steps.
    lost = GroupChange(at_s=9.0, epoch=2, step=8, ranks_before=2, ranks_after=1, cause="lost n2")
    assert elastic.resized(before, ("n1",), 9.0) == (lost,)
    before.hosts = ("n1", "n1", "n2")  # one of two ranks on n1 is lost
    assert elastic.resized(before, ("n1", "n3", "n3"), 9.0)[0].cause == "lost n1, lost n2, n3 came"
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


def test_training_continues_alone_from_the_last_commit_when_a_peer_is_lost():
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


def test_a_change_of_hosts_that_the_launcher_announces_interrupts_training_once(committed):
    state, _ = committed
    state.check_host_updates()
    # As Horovod announces it: first hosts were removed, then others removed and added.
    for change, without_sync in (((1_700_000_000, 1), True), ((1_700_000_009, 3), False)):
        state._ranks.change = change
        with pytest.raises(exceptions.HostsUpdatedInterrupt) as interrupt:
            state.check_host_updates()
        assert interrupt.value.skip_sync is without_sync
        state.check_host_updates()
    elastic.Committed(state._ranks, list).check_host_updates()  # a rank that is started after the change
