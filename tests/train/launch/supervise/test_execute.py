import signal

import pytest

from train.launch.supervise.execute import Interrupted, interrupts_noted, interrupts_raise


def test_an_interrupt_raises_where_it_may_and_is_noted_where_work_must_end():
    with interrupts_raise():
        with interrupts_noted() as came:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
        assert came == [signal.SIGTERM, signal.SIGINT]
        with pytest.raises(Interrupted, match="SIGTERM"):
            signal.raise_signal(signal.SIGTERM)
