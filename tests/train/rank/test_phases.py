import pytest

from train.rank.phases import PhaseClock


def test_phases_add_up_to_the_time_since_launch():
    times = iter([12.0, 15.0, 16.0, 20.0])
    clock = PhaseClock(started_at=10.0, rank="0", now=lambda: next(times))
    clock.enter("import", at=11.0)
    clock.enter("timed")
    clock.enter("evaluate")
    clock.enter("timed")
    assert clock.stop() == {"start": 1.0, "import": 1.0, "timed": 7.0, "evaluate": 1.0}


def test_an_unknown_phase_is_refused():
    with pytest.raises(ValueError, match="phase=nap: allowed are start, import"):
        PhaseClock(0.0, "0").enter("nap")
