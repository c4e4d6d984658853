"""Ranks in which a test changes one function, to disturb them or to hold them at a place of their code.

All else is as a user starts it. Python imports `sitecustomize` in every process that finds it on PYTHONPATH; it changes
the function when its module is imported.
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
            open({came!r}, "w").close()
            while os.path.exists({file!r}):
                time.sleep(0.02)
        return result
    return held
"""
# Where rounds end, asked after each of them.
ROUNDS_END = "train.loop.rounds.end_s"
_COUNTED = """
def changed(end_s):
    calls = []
    def counted(config):
        calls.append(None)
        return 0.0 if len(calls) == {count} else float("inf")
    return counted
"""


def patch_ranks(folder: Path, changes: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of a launch in whose ranks functions are replaced.

    Args:
        folder: where the file that does it is written; ranks on all hosts must see it.
        changes: of each function, as train.loop.step.synchronize_devices, lines that define `changed(function)`, which
            returns what replaces it; os and time are imported.
    """
    parts = {
        module: (function, lines) for place, lines in changes.items() for module, _, function in [place.rpartition(".")]
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_SITE.format(changes=parts))
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


def rounds(count: int) -> dict[str, str]:
    """The change by which launches measure so many rounds: how many fit into a time depends on the machine."""
    return {ROUNDS_END: _COUNTED.format(count=count)}


class Hold:
    """Ranks wait at a place of their code for as long as the hold is on.

    What a test looks at meanwhile does not pass by, however slow the test and however fast the ranks are.
    """

    def __init__(self, folder: Path, place: str, after: int, ranks: Sequence[int]) -> None:
        """The hold is on.

        Args:
            folder: as of `patched`.
            place: the function that returns only when the hold is off.
            after: so many of its calls return at once.
            ranks: that are held; others wait for them where they exchange something.
        """
        self._file, self._came = folder / "hold", folder / "came"
        files = {"file": str(self._file), "came": str(self._came)}
        held = _HELD.format(after=after, ranks=[str(rank) for rank in ranks], **files)
        self.variables = patch_ranks(folder, {place: held})
        self.on()

    def on(self) -> None:
        """Hold the ranks that come there from now on, and forget those that came before."""
        self._came.unlink(missing_ok=True)
        self._file.touch()

    def off(self) -> None:
        """Let all ranks go on."""
        self._file.unlink(missing_ok=True)

    def holds(self) -> bool:
        """Whether a rank has come there since the hold was last put on."""
        return self._came.exists()
