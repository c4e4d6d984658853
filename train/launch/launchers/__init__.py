"""The launchers, by name. Every module here offers one as `LAUNCHER`: docs/adding.md says how to add one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from train.launch.plan.launcher import Launcher


def find(folders: Iterable[str]) -> dict[str, Launcher]:
    """All launchers that the modules in `folders`, the path of this package, offer."""
    found = (importlib.import_module(f"{__name__}.{file.name}").LAUNCHER for file in pkgutil.iter_modules(folders))
    return {launcher.name: launcher for launcher in found}


LAUNCHERS: dict[str, Launcher] = find(__path__)
