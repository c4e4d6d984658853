"""The launchers, by name: each module here that has a `LAUNCHER` offers one. docs/adding.md says how to add one."""

import importlib
import pkgutil

from train.launch.launchers.base import Launcher

_modules = [importlib.import_module(f"{__name__}.{file.name}") for file in pkgutil.iter_modules(__path__)]
_launchers = [module.LAUNCHER for module in _modules if hasattr(module, "LAUNCHER")]
LAUNCHERS: dict[str, Launcher] = {launcher.name: launcher for launcher in _launchers}
