"""Datasets and weights are checked once before any rank starts, in a process that loads TensorFlow."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from train.config.checks import ConfigError
from train.config.schema import RunConfig
from train.launch.plan.point import Point
from train.record.source import ROOT


def _reads(config: RunConfig) -> bool:
    return not config.allreduce_sweep and (config.dataset.files or config.weights != "none")


def to_check(points: Sequence[Point]) -> list[Point]:
    """Of the points that read the same, the one with the largest global batch: what serves it serves all."""
    found: dict[str, Point] = {}
    for point in points:
        config = point.config
        # Repr shows all values: a dataset, a model and its weights are checked once.
        key = repr((config.dataset, config.model, config.weights))
        if _reads(config) and (key not in found or (found[key].config.global_batch or 0) < (config.global_batch or 0)):
            found[key] = point
    return list(found.values())


def cannot_check(config: RunConfig, hosts_apart: bool) -> str | None:
    """Why this process cannot check what the ranks will read; None where it can."""
    if importlib.util.find_spec("tensorflow") is None:
        return "there is no TensorFlow outside the container"
    home = Path(config.dataset.data_dir or "").expanduser()
    if hosts_apart and config.dataset.files and not home.exists():
        return f"dataset.data_dir={home} is not on this machine"
    return None


def check(points: Sequence[Point], hosts_apart: bool) -> list[str]:
    """A line for each thing that was found. Raises ConfigError where the ranks of a point would fail to read it.

    hosts_apart: each node is a separate host, which may have files that this machine lacks.
    """
    found = []
    for point in to_check(points):
        if why := cannot_check(point.config, hosts_apart):
            found.append(f"{point.name}: data and weights are checked by the ranks: {why}")
            continue
        command = [sys.executable, "-m", "train.tools.prepare", *point.overrides]
        child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if child.returncode:
            lines = child.stderr.strip().splitlines() or [f"exit status {child.returncode}"]
            raise ConfigError("\n".join(lines if child.returncode == 2 else lines[-12:]))
        found += [line for line in child.stdout.splitlines() if line]
    return found
