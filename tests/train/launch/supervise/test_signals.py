import signal

import pytest

from train.launch.supervise.signals import Interrupted, interrupts_deferred, interrupts_raised


def test_an_interrupt_raises_where_it_may_and_is_kept_where_work_must_end():
    with interrupts_raised():
        with interrupts_deferred() as came:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
        assert came == [signal.SIGTERM, signal.SIGINT]
        with pytest.raises(Interrupted, match="SIGTERM"):
            signal.raise_signal(signal.SIGTERM)


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT)
    with interrupts_raised(), interrupts_deferred():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
