"""Ranks in which a test replaces functions, to disturb the ranks or to hold them in a function.

All else is as a user starts it. Python imports `sitecustomize` in every process that finds it on PYTHONPATH. That file
replaces each function when its module is imported.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.helpers import ROOT

_SITE = """
import importlib.abc, importlib.machinery, os, sys, time

CHANGES = {changes!r}

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in CHANGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        function, lines = CHANGES[name]
        def patched(module):
            execute(module)
            names = {{"os": os, "time": time}}
            exec(lines, names)
            setattr(module, function, names["changed"](getattr(module, function)))
        spec.loader.exec_module = patched
        return spec

sys.meta_path.insert(0, Finder())
"""
_HELD = """
def changed(function):
    calls = []
    def held(*arguments, **named):
        result = function(*arguments, **named)
        calls.append(None)
        if len(calls) > {after} and os.environ.get("HOROVOD_RANK", "0") in {ranks!r} and os.path.exists({file!r}):
            open({reached!r}, "w").close()
            while os.path.exists({file!r}):
                time.sleep(0.02)
        return result
    return held
"""
# The function that is called after each round and returns when rounds end.
ROUNDS_END = "train.loop.run_rounds.end_s"
_COUNTED = """
def changed(end_s):
    calls = []
    def counted(config):
        calls.append(None)
        return 0.0 if len(calls) == {count} else float("inf")
    return counted
"""


def patch_ranks(folder: Path, changes: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a launch whose ranks have these functions replaced.

    Args:
        folder: gets the file that replaces them; ranks on all hosts must see it.
        changes: for each function, such as train.loop.epochs.record_progress, lines that define `changed(function)`,
            which returns the replacement. os and time are imported.
    """
    parts = {}
    for path, lines in changes.items():
        module, _, function = path.rpartition(".")
        parts[module] = (function, lines)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_SITE.format(changes=parts))
    path = os.pathsep.join([str(folder), str(ROOT)])
    return {"PYTHONPATH": path, "PATCHED_RANKS": path}  # the second one for `make`, which passes no PYTHONPATH on


def rounds(count: int) -> dict[str, str]:
    """Return the change that ends a launch after `count` rounds; unchanged, the number depends on the machine."""
    return {ROUNDS_END: _COUNTED.format(count=count)}


# The change with which all rounds count, however busy the machine is: without the kernel's counts.
UNCOUNTED = {"train.rank.counters.read_counters": "def changed(read):\n    return lambda meter: None\n"}

# Ranks that sleep instead of computing: for tests of launchers, signals, disks and records.
SLEEPING = {"train.worker.start_tensorflow": "from tests.helpers.sleeping_rank import changed\n"}


class Hold:
    """Ranks wait in a function for as long as the hold is on.

    Meanwhile a test can look at the state of the ranks, however slow the test and however fast the ranks are.
    """

    def __init__(
        self, folder: Path, function: str, after: int, ranks: Sequence[int], changes: Mapping[str, str] | None = None
    ) -> None:
        """Put the hold on.

        Args:
            folder: as for `patch_ranks`.
            function: returns only when the hold is off.
            after: so many calls of the function return at once.
            ranks: these are held; the others wait for them in the next exchange.
            changes: of other functions, as for `patch_ranks`.
        """
        self._file, self._reached = folder / "hold", folder / "reached"
        files = {"file": str(self._file), "reached": str(self._reached)}
        held = _HELD.format(after=after, ranks=[str(rank) for rank in ranks], **files)
        self.variables = patch_ranks(folder, {function: held, **(changes or {})})
        self.on()

    def on(self) -> None:
        """Hold the ranks that reach the function from now on, and forget those that reached it before."""
        self._reached.unlink(missing_ok=True)
        self._file.touch()

    def off(self) -> None:
        """Let all ranks continue."""
        self._file.unlink(missing_ok=True)

    def holds(self) -> bool:
        """Return whether a rank has reached the function since the hold was last put on."""
        return self._reached.exists()
