"""What the rank groups of a launch differ in. The ranks of a group are joined among themselves, in other processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from train.config.identity import rebuild, values
from train.config.schema import RunConfig
from train.record.config_hash import LAUNCH_PLAN

# Of the launch as a whole, or of single arms: a group has no other values for these.
_OF_LAUNCH = LAUNCH_PLAN | {"measure", "derived", "results", "tracking"}


def flat(found: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted key."""
    leaves: dict[str, Any] = {}
    for key, value in found.items():
        leaves |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return leaves


def settings(launch: RunConfig, group: RunConfig) -> dict[str, Any]:
    """Return dotted key -> value: what the configuration of a group has other than that of its launch."""
    ours, theirs = values(group), values(launch)
    return _differing({key: value for key, value in ours.items() if key not in _OF_LAUNCH}, theirs)


def _differing(ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in ours.items():
        if isinstance(value, Mapping) and isinstance(theirs[key], Mapping):
            found |= _differing(value, theirs[key], f"{prefix}{key}.")
        elif value != theirs[key]:
            found[f"{prefix}{key}"] = value
    return found


def config_of(launch: RunConfig, number: int) -> RunConfig:
    """Return the configuration of the ranks of one group of a launch; the launch's, where it has no groups."""
    if not launch.launch.groups:
        return launch
    own = values(launch)
    for key, value in launch.launch.groups[number].settings.items():
        *sections, name = key.split(".")
        section = own
        for part in sections:
            section = section[part]
        section[name] = value
    return rebuild(own)
