"""A point of an experiment: one configuration to measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from train.config.checks import check
from train.config.schema import RunConfig
from train.record.record import Role

LINK = "system.link_mbit_per_s"  # changes between rounds, so it keeps no points apart


@dataclass(frozen=True)
class Point:
    """One configuration to measure, and what tells it from the others of its experiment."""

    name: str
    overrides: tuple[str, ...]  # that compose it again by hand
    config: RunConfig
    swept: dict[str, Any] = field(default_factory=dict)  # key that the experiment sweeps -> this point's value
    arm: str | None = None  # its name, where the experiment has arms, or the control's on emulated nodes
    role: Role | None = "point"  # None: of a curve in rounds, whose arms have one each
    arm_keys: tuple[str, ...] = ()  # dotted keys in which the arms of the experiment differ


def differing_keys(arms: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the keys that the arms do not all give the same value, in the order in which they are named.

    A key below another one that differs is left out: `distribution` covers `distribution.allreduce`.
    """
    values = [dict(line.split("=", 1) for line in extra) for extra in arms.values()]
    keys = dict.fromkeys(key for values_of in values for key in values_of)
    differ = [key for key in keys if len({values_of.get(key) for values_of in values}) > 1]
    return tuple(key for key in differ if not any(key.startswith(f"{other}.") for other in differ))


def compared(point: Point) -> tuple[str, ...]:
    """Return the same for the arms that are compared: on as many ranks; where nodes have links, also on one of them."""
    swept = [f"{key}={value}" for key, value in point.swept.items() if key != LINK]
    return ("" if point.config.launcher.separate_networks else str(point.config.ranks), *swept)


def work(point: Point) -> tuple[bool, bool, int]:
    """Orders arms from the one that does least: without Horovod, without allreduce; on all nodes."""
    config = point.config
    return config.distribution.backend != "none", config.distribution.allreduce, -config.nodes


def with_bases(points: Sequence[Point]) -> list[Point]:
    """Return the points of arms, each set that is compared with a base: as stated, else the arm that does least.

    Arms that are compared with a control need none. Raises ConfigError where two arms of one set are stated.
    """
    groups: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        groups.setdefault(compared(point), []).append(point)
    chosen = []
    for group in groups.values():
        bases = list(dict.fromkeys(point.arm for point in group if point.role == "base"))
        check(len(bases) < 2, "roles", ", ".join(map(str, bases)), "one base is needed of the arms on as many ranks")
        if not bases and len(group) > 1 and not any(point.role == "control" for point in group):
            chosen.append(min(group, key=work))
    return [replace(point, role="base") if any(point is one for one in chosen) else point for point in points]
