import pytest

from train.rank.phases import PhaseClock


def test_phases_add_up_to_the_time_since_launch():
    times = iter([11.5, 12.0, 15.0, 15.5, 16.0, 20.0])  # two for each entry into the timed phase
    clock = PhaseClock(started_at=10.0, now=lambda: next(times))
    clock.enter("import", at=11.0)
    clock.enter("timed")
    clock.enter("evaluate")
    clock.enter("timed")
    assert clock.stop() == {"start": 1.0, "import": 1.0, "timed": 7.0, "evaluate": 1.0}


def test_a_launcher_whose_clock_is_ahead_leaves_nothing_for_the_start():
    clock = PhaseClock(started_at=100.0, now=iter([13.0]).__next__)
    clock.enter("import", at=10.0)
    assert clock.started_at == 10.0
    assert clock.stop() == {"start": 0.0, "import": 3.0}


def test_an_unknown_phase_is_refused():
    with pytest.raises(ValueError, match="phase=nap: allowed are start, import"):
        PhaseClock(0.0).enter("nap")


def test_the_listener_hears_of_each_phase_and_of_the_time_before_it():
    heard, times = [], iter([3.0, 5.0, 6.0, 10.0])
    clock = PhaseClock(0.0, lambda *told: heard.append(told), now=lambda: next(times))
    clock.enter("warm_up", at=2.0)
    clock.announce("timed")  # at 3.0: the warm-up has lasted one second
    assert heard[1:] == [("timed", {"start": 2.0, "warm_up": 1.0})]
    clock.enter("timed")  # at 5.0: nothing is told now
    assert len(heard) == 2
    clock.enter("evaluate")  # at 6.0
    assert heard[2:] == [("evaluate", {"start": 2.0, "warm_up": 3.0, "timed": 1.0})]


def test_what_the_listener_takes_is_never_booked_on_the_timed_phase():
    now = [1.0]

    def slow(phase, seconds):
        now[0] += 100.0

    clock = PhaseClock(0.0, slow, now=lambda: now[0])
    clock.enter("timed")
    now[0] += 7.0
    clock.enter("evaluate")
    assert clock.seconds == {"start": 101.0, "timed": 7.0}


def test_every_listener_hears():
    heard = []
    clock = PhaseClock(0.0, lambda phase, _: heard.append(("first", phase)), now=lambda: 2.0)
    clock.listen(lambda phase, _: heard.append(("second", phase)))
    clock.enter("data", at=1.0)
    assert heard == [("first", "data"), ("second", "data")]
