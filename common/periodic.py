"""An action that is repeated in a thread while something else goes on."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeating(action: Callable[[], object], every_s: float) -> Iterator[None]:
    """Return a context in which an action is called every so many seconds; it has ended when the context ends."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(every_s):
            action()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
