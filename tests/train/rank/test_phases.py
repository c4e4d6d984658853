import time

from train.rank.phases import PhaseClock


def clock(*times, started_at=0.0, listener=None):
    """A clock that is read at these times."""
    return PhaseClock(started_at, listener, now=iter(times).__next__)


def test_phases_add_up_to_the_time_since_launch():
    phases = clock(11.5, 12.0, 15.0, 15.5, 16.0, 20.0, started_at=10.0)  # two for each entry into the timed phase
    phases.enter("import", at=11.0)
    for phase in ("timed", "evaluate", "timed"):
        phases.enter(phase)
    assert phases.stop() == {"start": 1.0, "import": 1.0, "timed": 7.0, "evaluate": 1.0}


def test_time_passes_by_the_clock_of_the_machine():
    assert 3.0 <= PhaseClock(time.time() - 3.0).elapsed_s() < 60.0


def test_a_launcher_whose_clock_is_ahead_leaves_nothing_for_the_start():
    phases = clock(13.0, started_at=100.0)
    phases.enter("import", at=10.0)
    assert phases.started_at == 10.0
    assert phases.stop() == {"start": 0.0, "import": 3.0}


def test_listeners_are_called_with_each_phase_and_the_time_before_it():
    calls, later_calls = [], []
    phases = clock(3.0, 5.0, 6.0, listener=lambda *arguments: calls.append(arguments))
    phases.enter("warm_up", at=2.0)
    phases.listen(lambda phase, seconds: later_calls.append((len(calls), phase)))
    phases.announce("timed")  # at 3.0: the warm-up has lasted one second
    assert calls[1:] == [("timed", {"start": 2.0, "warm_up": 1.0})]
    phases.enter("timed")  # at 5.0: no call now
    assert len(calls) == 2
    phases.enter("evaluate")  # at 6.0
    assert calls[2:] == [("evaluate", {"start": 2.0, "warm_up": 3.0, "timed": 1.0})]
    assert later_calls == [(2, "timed"), (3, "evaluate")]


def test_the_time_of_the_listener_is_never_part_of_the_timed_phase():
    now = [1.0]

    def slow(phase, seconds):
        now[0] += 100.0

    phases = PhaseClock(0.0, slow, now=lambda: now[0])
    phases.enter("timed")
    now[0] += 7.0
    phases.enter("evaluate")
    assert phases.seconds == {"start": 101.0, "timed": 7.0}
