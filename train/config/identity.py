"""What makes two runs the same measurement: the values that a record keeps, the name of a point, the hash."""

from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from typing import Any

from train.config.checks import check
from train.config.schema import OF_THE_EXPERIMENT, Config
from train.record import config_hash as record_hash
from train.record.learning_rate import scaled


def resolved(config: Config) -> dict[str, Any]:
    """The configuration as a record keeps it: without the keys that span the experiment or that the run does not use.

    Elastic training does not use Horovod's tuned settings (train/distribution/__init__.py says why), and where Horovod
    tunes itself they are its own.
    """
    values = asdict(config)
    for key in OF_THE_EXPERIMENT:
        del values[key]
    if not config.dataset.files:
        for key in ("data_dir", "on_damaged", "augmentation"):
            del values["dataset"][key]
    settings = config.distribution
    unused = ["cycle_time_ms", "fusion_threshold_bytes"] if settings.elastic or settings.autotune else []
    unused += [] if settings.elastic else ["commit_steps"]
    unused += [] if settings.timeline else ["timeline"]
    unused += [] if settings.asynchronous else ["servers", "servers_on"]
    for key in unused:
        del values["distribution"][key]
    return values


def point_name(config: Config, arm: str | None = None, swept: Iterable[str] | None = None) -> str:
    """The name of a point within its experiment: the values of the swept keys, and the arm.

    swept: the keys to take, where the command line sweeps more than the experiment does. Raises ConfigError for a key
    that cannot be swept.
    """
    values = resolved(config)
    parts = []
    for key in config.sweep if swept is None else swept:
        value: Any = values
        for step in key.split("."):
            why = f"a point with distribution.backend={config.distribution.backend} does not use it; leave those out"
            check(step in value, key, "swept", why)
            value = value[step]
        why = "its files have no names to tell points by; give them as arms of an experiment (docs/adding.md)"
        check(not isinstance(value, dict) or "name" in value, key, "swept", why)
        shown = "null" if value is None else f"{value:g}" if isinstance(value, float) else value
        parts.append(value["name"] if isinstance(value, dict) else f"{key.split('.')[-1]}{shown}")
    return "-".join([*parts, *([arm] if arm else [])]) or config.model.name


def swept_values(config: Config, keys: Iterable[str], overrides: Iterable[str]) -> dict[str, Any]:
    """The value of each swept key in this configuration; of a config group the name of its file.

    overrides: that composed the configuration; the last one of a group chose its file.
    """
    chosen = dict(line.split("=", 1) for line in overrides if "=" in line)
    found: dict[str, Any] = {}
    for key in keys:
        value: Any = config
        for name in key.split("."):
            value = getattr(value, name)
        found[key] = chosen.get(key, getattr(value, "name", key)) if is_dataclass(value) else value
    return found


def learning_rate(config: Config) -> float | None:
    """The learning rate in force, scaled with the ranks and passes; None where nothing is trained."""
    settings = config.optimizer
    if config.allreduce_sweep:
        return None
    passes = config.distribution.backward_passes_per_step
    return scaled(settings.learning_rate, settings.learning_rate_scaling, config.ranks * passes)


def config_hash(config: Config) -> str:
    """Hexadecimal SHA-256 of the values that change what is measured: two runs with the same hash are repeats."""
    return record_hash.of(resolved(config))
