"""The launchers, by name: each module here that has a `LAUNCHER` offers one. docs/adding.md says how to add one."""

import importlib
import pkgutil
from collections.abc import Iterable

from train.launch.launchers.base import Launcher


def find(folders: Iterable[str]) -> dict[str, Launcher]:
    """Return all launchers that the modules in `folders`, the path of this package, offer."""
    modules = (importlib.import_module(f"{__name__}.{file.name}") for file in pkgutil.iter_modules(folders))
    launchers = [module.LAUNCHER for module in modules if hasattr(module, "LAUNCHER")]
    return {launcher.name: launcher for launcher in launchers}


LAUNCHERS: dict[str, Launcher] = find(__path__)
