"""Modules that are imported at their first use: importing TensorFlow would delay the collection of tests by seconds.

monkeypatch takes such a module by name: monkeypatch.setattr("train.loop.roofline.BURST_S", 1).
"""

import importlib
from typing import Any


class Lazy:
    """Stands in for the module of this name."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_mock_name":  # pytest asks each object of a test module for these
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)
