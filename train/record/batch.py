"""How many images a step takes, from the configuration in a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PASSES = "backward_passes_per_step"  # records from before this key have one


def passes(config: Mapping[str, Any]) -> int:
    """Backward passes of a step: so many batches of a rank make one step."""
    return int(config["distribution"].get(_PASSES, 1))


def of_step(config: Mapping[str, Any]) -> int:
    """Images that a rank takes in a step."""
    return int(config["batch_per_rank"] * passes(config))


def of_arm(arm: Mapping[str, Any]) -> int:
    """Images that a rank takes in a step of an arm of a launch in rounds."""
    return int(arm["batch_per_rank"] * arm.get(_PASSES, 1))
