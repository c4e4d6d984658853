"""A configuration from the values that a launcher composed. Without Hydra, which takes long to load."""

from __future__ import annotations

from typing import Any

import msgspec

from train.config.checks import ConfigError
from train.config.schema import Config


def rebuild(values: dict[str, Any]) -> Config:
    """The configuration whose `dataclasses.asdict` these values are, checked again. Raises ConfigError."""
    try:
        return msgspec.convert(values, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the configuration does not fit train/config/schema.py here: {error}") from error
