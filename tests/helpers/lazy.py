"""Modules that are imported when a test first uses them: TensorFlow takes seconds, which collecting tests need not.

To replace something in such a module, give monkeypatch its name: monkeypatch.setattr("train.loop.roofline.BURST_S", 1).
"""

import importlib
from typing import Any


class Lazy:
    """Stands in for the module of this name."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)
