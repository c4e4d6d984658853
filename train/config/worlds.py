"""What the worlds of a launch differ in. A world's ranks are joined among themselves, in processes of their own."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from train.config.schema import Config

# Of the launch as a whole, or of single arms: a world has no other values for these.
_OF_LAUNCH = ("rounds", "worlds", "worlds_at_once", "sweep", "arms", "measure", "derived", "results", "tracking")


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted key."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return found


def settings(launch: Config, world: Config) -> dict[str, Any]:
    """Dotted key -> value: what the configuration of a world has other than that of its launch."""
    of_launch, of_world = (flat(_of_ranks(config)) for config in (launch, world))
    return {key: value for key, value in of_world.items() if value != of_launch[key]}


def _of_ranks(config: Config) -> dict[str, Any]:
    return {key: value for key, value in asdict(config).items() if key not in _OF_LAUNCH}


def config_of(launch: Config, number: int) -> Config:
    """The configuration of the ranks of one world of a launch; the launch's, where it has no worlds."""
    if not launch.worlds:
        return launch
    own = copy.deepcopy(launch)
    for key, value in launch.worlds[number].settings.items():
        *sections, name = key.split(".")
        place: Any = own
        for section in sections:
            place = getattr(place, section)
        setattr(place, name, value)
    return own
