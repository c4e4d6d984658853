"""The identity of a measurement: the values that a record keeps, the name of a point, the hash.

Also the settings in which the rank groups of a launch differ: ranks in separate processes, joined among themselves.
"""

from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from functools import reduce
from operator import attrgetter, getitem
from typing import Any

import msgspec

from record import recorded_config
from record.recorded_config import LAUNCH_PLAN, scaled_learning_rate
from train.config.checks import ConfigError, check
from train.config.run_config import RunConfig


def values(config: RunConfig) -> dict[str, Any]:
    """Return all values, in JSON's types, as run.json has them: with those of the launch's plan among the others."""
    as_json: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(config))
    return as_json | as_json.pop("launch")


def rebuild(recorded: Mapping[str, Any]) -> RunConfig:
    """Return the configuration whose `values` these are, checked again, without Hydra. Raises ConfigError."""
    try:
        return msgspec.convert({**recorded, "launch": recorded}, RunConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the configuration does not fit train/config/run_config.py here: {error}") from error


def resolved(config: RunConfig) -> dict[str, Any]:
    """Return the configuration as a record keeps it: without the keys that the run does not use."""
    return recorded_config.recorded(values(config))


def point_name(config: RunConfig, swept: Iterable[str], arm: str | None = None) -> str:
    """Return the name of a point within its experiment: the values of the swept keys, and the arm.

    Raises ConfigError for a key that cannot be swept.
    """
    recorded = resolved(config)
    parts = []
    for key in swept:
        value: Any = recorded
        for step in key.split("."):
            why = f"a point with distribution.backend={config.distribution.backend} does not use it; leave those out"
            check(step in value, key, "swept", why)
            value = value[step]
        why = "its files have no names to tell points by; give them as arms of an experiment (docs/adding.md)"
        check(not isinstance(value, dict) or "name" in value, key, "swept", why)
        text = "null" if value is None else f"{value:g}" if isinstance(value, float) else value
        parts.append(value["name"] if isinstance(value, dict) else f"{key.split('.')[-1]}{text}")
    return "-".join([*parts, *([arm] if arm else [])]) or config.model.name


def swept_values(config: RunConfig, keys: Iterable[str], overrides: Iterable[str]) -> dict[str, Any]:
    """Return the value of each swept key in this configuration; of a config group the name of its file.

    overrides: those that composed the configuration; the last one of a group chose its file.
    """
    chosen = dict(line.split("=", 1) for line in overrides)
    by_key = {key: attrgetter(key)(config) for key in keys}
    return {
        key: chosen.get(key, getattr(value, "name", key)) if is_dataclass(value) else value
        for key, value in by_key.items()
    }


def learning_rate(config: RunConfig) -> float | None:
    """Return the effective learning rate, scaled with the ranks and passes; None if nothing is trained."""
    settings = config.optimizer
    if config.allreduce_sweep or config.program:
        return None
    passes = config.distribution.backward_passes_per_step
    return scaled_learning_rate(settings.learning_rate, settings.learning_rate_scaling, config.ranks * passes)


def config_hash(config: RunConfig, without: Iterable[str] = ()) -> str:
    """Return the hexadecimal SHA-256 of the values that change what is measured: runs with the same one are repeats.

    without: further dotted keys to leave out.
    """
    return recorded_config.values_hash(resolved(config), without)


# Keys of the launch as a whole, or of single arms: no group has other values for these.
_LAUNCH_KEYS = LAUNCH_PLAN | {"measure", "derived", "results", "tracking"}


def differing_settings(launch: RunConfig, group: RunConfig) -> dict[str, Any]:
    """Return dotted key -> value of a group, for each key in which it differs from its launch."""
    group_values = {key: value for key, value in values(group).items() if key not in _LAUNCH_KEYS}
    return _differing(group_values, values(launch))


def _differing(group: Mapping[str, Any], launch: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    differing: dict[str, Any] = {}
    for key, value in group.items():
        if isinstance(value, Mapping) and isinstance(launch[key], Mapping):
            differing |= _differing(value, launch[key], f"{prefix}{key}.")
        elif value != launch[key]:
            differing[f"{prefix}{key}"] = value
    return differing


def config_of(launch: RunConfig, number: int) -> RunConfig:
    """Return the configuration of one rank group of a launch; the launch's own if it has no groups."""
    if not launch.launch.rank_groups:
        return launch
    recorded = values(launch)
    for key, value in launch.launch.rank_groups[number].settings.items():
        *sections, name = key.split(".")
        reduce(getitem, sections, recorded)[name] = value
    return rebuild(recorded)
