import threading

from common.periodic import repeating


def test_an_action_is_repeated_within_the_context_alone():
    threads, calls, twice = threading.active_count(), [], threading.Event()

    def act() -> None:
        calls.append(None)
        if len(calls) == 2:
            twice.set()

    with repeating(act, 0.001):
        assert twice.wait(60)
    assert threading.active_count() == threads
    with repeating(calls.clear, 600):
        pass
    assert len(calls) >= 2  # none before the first period is over
