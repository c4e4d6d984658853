import pytest

from tests.helpers.configs import changed
from tests.helpers.context import make_context
from train.config.compose import load
from train.config.schema import LaunchPlan, RoundArm
from train.distribution.base import Single

pytestmark = pytest.mark.slow


@pytest.fixture
def limits(monkeypatch):
    from train.loop import limits

    monkeypatch.setattr(limits, "_BURST_S", 0.01)
    monkeypatch.setattr(limits, "_STREAM_S", 0.02)
    return limits


class AmongItself(Single):
    """A ring of two ranks, both in this process: what it sends to the next one it receives."""

    size = 2

    def gather(self, value, kind):
        return [value, value]


def test_a_rank_alone_multiplies(limits):
    context = make_context(load(["nodes=1"]))
    limits.measure(context, Single())
    [made] = context.part.part.matrix_products
    assert made.rows >= 1024
    assert made.arm is None
    assert len(made.times_s) == 3
    assert 1e9 < 2 * made.rows**3 / min(made.times_s) < 1e14
    assert context.part.part.transfers == []


def test_ranks_that_exchange_over_tcp_stream_in_a_ring(limits):
    context = make_context(load(["nodes=2"]))
    limits.measure(context, AmongItself(), arm=3)
    [moved] = context.part.part.transfers
    assert (moved.what, moved.arm) == ("tcp_ring", 3)
    assert moved.transferred_bytes > 0
    of_mpi = make_context(load(["nodes=2", "distribution.controller=mpi"]))
    limits.measure(of_mpi, AmongItself())
    assert of_mpi.part.part.transfers == []


def test_a_link_that_cannot_be_measured_leaves_a_note(limits, monkeypatch):
    context = make_context(load(["nodes=2"]))
    monkeypatch.setattr(limits.bandwidth, "ring", lambda among, seconds, key: ([], ["tcp_ring: rank 1: refused"]))
    limits.measure(context, AmongItself(), arm=0)
    limits.measure(context, AmongItself(), arm=1)
    assert context.part.part.notes == ["the limit of the link is not known: tcp_ring: rank 1: refused"]


def test_limits_are_measured_once_for_each_rank_group_ranks_and_links():
    from train.loop import limits

    def arm(ranks, group=0, link=None, allreduce=True):
        return RoundArm("", ranks, ranks, 1, allreduce, group=group, link_mbit_per_s=link)

    config = load(["nodes=4"])
    arms = (arm(1), arm(4), arm(4, allreduce=False), arm(4, link=100.0), arm(4, group=1), arm(1))
    config = changed(config, {"launch": LaunchPlan(arms)})
    assert limits.places(config) == [0, 1, 3, 4]


def test_the_work_of_a_step_is_recorded_with_the_bytes_of_its_gradients(limits):
    import tf_keras

    class Learner:
        model = tf_keras.Sequential([tf_keras.layers.Input((4,)), tf_keras.layers.Dense(3)])

    context = make_context(load(["nodes=1"]))
    limits.record_work(context, Learner)
    work = context.part.part.work
    assert (work.operations_per_image, work.gradient_bytes) == (2 * 2 * 12, 4 * (12 + 3))
    Learner.model.add(tf_keras.layers.Reshape((1, 3)))
    Learner.model.add(tf_keras.layers.LSTM(2))
    limits.record_work(context, Learner)
    assert context.part.part.work.operations_per_image is None
    assert "the operations of a LSTM are not known" in context.part.part.notes[0]
