"""Curves: points that one launch measures in rounds, each as the first ranks of the job (train/loop/rounds.py).

Points belong to one curve where all but the number of nodes, what follows from it, and the allreduce is the same. Each
of them still has launches of its own, few: a job pays for start, build and first step once, and only they tell.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

from train.config.identity import config_hash, point_name
from train.config.schema import Config, RoundArm
from train.launch.plan.point import Point

_NODES = "nodes"


@dataclass(frozen=True)
class Plan:
    """What is measured: points in launches of their own, and curves in rounds."""

    points: tuple[Point, ...]
    curves: tuple[Point, ...]
    reasons: tuple[str, ...]  # why points of a scaling experiment are measured without rounds


def plan(points: Sequence[Point]) -> Plan:
    """The points with as many launches as each needs, and the curves that they form."""
    groups: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        groups.setdefault(_key(point), []).append(point)
    single: list[Point] = []
    curves: list[Point] = []
    reasons: dict[str, None] = {}
    for group in groups.values():
        if len({p.config.nodes for p in group}) < 2 or not any(p.config.distribution.allreduce for p in group):
            single += group
        elif why := _needs_launches(group[0].config):
            single += group
            reasons[why] = None
        else:
            curves.append(_curve(group))
            single += [_launched(p) for p in group if p.config.distribution.allreduce]
    names = [point.name for point in points]
    return Plan(tuple(sorted(single, key=lambda p: names.index(p.name))), tuple(curves), tuple(reasons))


def _key(point: Point) -> tuple[str, ...]:
    """The same for all points of one curve."""
    config = copy.deepcopy(point.config)
    config.nodes = config.batch_per_rank = config.global_batch = 0
    config.distribution.allreduce = True
    others = [f"{key}={value}" for key, value in point.swept.items() if key != _NODES]
    return (config_hash(config), *others)


def _needs_launches(config: Config) -> str:
    """Why points like this one cannot share a launch; "" where they can."""
    if config.measure.design == "launches":
        return "measure.design=launches"
    if config.allreduce_sweep:
        return "an allreduce sweep has no training steps"
    if config.measure.epochs:
        return "epochs are trained to their end"
    if config.dataset.name != "synthetic":
        return f"dataset.name={config.dataset.name}: reading ahead would cross from one window into the next"
    if config.distribution.controller != "gloo":
        return (
            f"distribution.controller={config.distribution.controller}: ranks that wait take time from those that work"
        )
    if config.launcher.separate_networks:
        return "launcher.separate_networks: each link has one rate in a launch"
    return ""


def _curve(group: Sequence[Point]) -> Point:
    """The launch that measures all points of the group: the configuration of the largest, with the arms."""
    largest = max((point for point in group if point.config.distribution.allreduce), key=lambda p: p.config.nodes)
    config = copy.deepcopy(largest.config)
    config.rounds = _arms(group, config)
    config.measure.repeats = config.measure.launches
    swept = {key: value for key, value in largest.swept.items() if key != _NODES}
    return replace(largest, name=point_name(config, "rounds", list(swept)), config=config, swept=swept, arm=None)


def _arms(group: Sequence[Point], largest: Config) -> list[RoundArm]:
    """The arms of a curve, the smallest point first: it is the base of all speedups."""
    made = [_arm(point.config, point.config.distribution.allreduce) for point in group]
    sizes = [point.config for point in group if point.config.distribution.allreduce and point.config.nodes > 1]
    if largest.measure.control != "none":
        wanted = sizes if largest.measure.control == "all" else [largest]
        made += [_arm(config, allreduce=False) for config in wanted]
    alone = largest.ranks_per_node == 1  # a node of one rank has nothing to exchange
    unique = {
        (arm.nodes, arm.batch_per_rank, arm.allreduce or (alone and arm.nodes == 1)): arm for arm in reversed(made)
    }
    return sorted(unique.values(), key=lambda arm: (arm.nodes, not arm.allreduce, -arm.batch_per_rank))


def _arm(config: Config, allreduce: bool) -> RoundArm:
    assert config.batch_per_rank is not None
    name = f"nodes{config.nodes}-batch_per_rank{config.batch_per_rank}{'' if allreduce else '-without-allreduce'}"
    return RoundArm(name, config.nodes, config.batch_per_rank, allreduce)


def _launched(point: Point) -> Point:
    """The point with as few launches of its own as tell what a job costs once."""
    config = copy.deepcopy(point.config)
    config.measure.repeats = config.measure.single_launches
    return replace(point, config=config)
