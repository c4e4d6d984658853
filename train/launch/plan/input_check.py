"""Before any rank starts: what all of them read is looked for once, in a process that loads TensorFlow."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from train.config.schema import REMOTE, Config, ConfigError
from train.launch.plan.job import ROOT
from train.launch.plan.points import Point


def _reads(config: Config) -> bool:
    return not config.allreduce_sweep and (config.dataset.files or config.weights != "none")


def to_look_at(points: Sequence[Point]) -> list[Point]:
    """Of the points that read the same, the one with the largest global batch: what serves it serves all."""
    found: dict[str, Point] = {}
    for point in points:
        config = point.config
        # Repr tells all values: a dataset, a model and its weights are looked at once.
        key = repr((config.dataset, config.model, config.weights))
        if _reads(config) and (key not in found or (found[key].config.global_batch or 0) < (config.global_batch or 0)):
            found[key] = point
    return list(found.values())


def cannot_look(config: Config) -> str | None:
    """Why this process cannot look at what the ranks will read; None where it can."""
    if importlib.util.find_spec("tensorflow") is None:
        return "there is no TensorFlow outside the container"
    home = Path(config.dataset.data_dir or "").expanduser()
    if config.launcher.name in REMOTE and config.dataset.files and not home.exists():
        return f"dataset.data_dir={home} is not on this machine"
    return None


def look(points: Sequence[Point]) -> list[str]:
    """What the ranks of these points will read, in words. Raises ConfigError where they would fail."""
    found = []
    for point in to_look_at(points):
        if why := cannot_look(point.config):
            found.append(f"{point.name}: data and weights are looked for by the ranks: {why}")
            continue
        command = [sys.executable, "-m", "train.tools.prepare", *point.overrides]
        child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if child.returncode:
            lines = child.stderr.strip().splitlines() or [f"exit status {child.returncode}"]
            raise ConfigError("\n".join(lines if child.returncode == 2 else lines[-12:]))
        found += [line for line in child.stdout.splitlines() if line]
    return found
