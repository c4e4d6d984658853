"""A point of an experiment: one configuration to measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from train.config.schema import Config


@dataclass(frozen=True)
class Point:
    """One configuration to measure, and what tells it from the others of its experiment."""

    name: str
    overrides: tuple[str, ...]  # that compose it again by hand
    config: Config
    swept: dict[str, Any] = field(default_factory=dict)  # key that the experiment sweeps -> this point's value
    arm: str | None = None  # its name, where the experiment has arms, or the control's on emulated nodes
    arm_keys: tuple[str, ...] = ()  # dotted keys in which the arms of the experiment differ


def differing_keys(arms: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The keys that the arms do not all give the same value, in the order in which they are named.

    A key below another one that differs is left out: `distribution` covers `distribution.allreduce`.
    """
    values = [dict(line.split("=", 1) for line in extra) for extra in arms.values()]
    keys = dict.fromkeys(key for of_arm in values for key in of_arm)
    differ = [key for key in keys if len({of_arm.get(key) for of_arm in values}) > 1]
    return tuple(key for key in differ if not any(key.startswith(f"{other}.") for other in differ))
