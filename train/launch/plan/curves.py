"""Curves: points that one launch measures in rounds (train/loop/rounds.py), and the arms and worlds of that launch.

Points belong to one curve where all but what varies along it is the same: the number of nodes and what follows from it,
else the ranks of a node, the batch, or the arm. Points of one process setup share the ranks of a job, each as its first
ones. Points that cannot share a process, because that fixes its threads or its Horovod when it starts, each have a
world of the job: at the same time on cores of their own where the machine has enough, else in turn.

The points of a curve over nodes still have launches of their own, few: a job pays for start, build and first step once,
and only they tell. Emulated nodes have none: they start and build without quotas, so their wall time is not valid.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from train.config import worlds
from train.config.backends import FUSION_THRESHOLD_BYTES
from train.config.identity import config_hash, point_name
from train.config.schema import Config, Distribution, RoundArm, World
from train.launch.plan.point import LINK, Point, compared, work
from train.record.record import WITHOUT_ALLREDUCE

_BESIDE = {"control": WITHOUT_ALLREDUCE, "in-memory": "batch-in-memory"}  # names of the arms beside points
_NODES = "nodes"
_AXES = (_NODES, "ranks_per_node", "batch_per_rank", "global_batch")  # the first that is swept varies along a curve


@dataclass(frozen=True)
class Plan:
    """What is measured: points in launches of their own, and curves in rounds."""

    points: tuple[Point, ...]
    curves: tuple[Point, ...]
    reasons: tuple[str, ...]  # why points that form a curve are measured without rounds


def plan(
    points: Sequence[Point], cores: int, hosts_apart: bool = False, fits: Callable[[Point], bool] = lambda curve: True
) -> Plan:
    """The points with as many launches as each needs, and the curves that they form.

    Args:
        points: of one experiment.
        cores: of this machine.
        hosts_apart: the nodes are hosts of their own.
        fits: whether the processes of a curve fit into memory together.
    """
    groups: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        groups.setdefault(_key(point), []).append(point)
    single: list[Point] = []
    curves: list[Point] = []
    reasons: dict[str, None] = {}
    for group in groups.values():
        if not _is_curve(group):
            single += group
        elif why := _needs_launches(group, hosts_apart):
            single += group
            reasons[why] = None
        elif not fits(curve := _curve(group, cores)):
            single += group
            reasons[f"{curve.name}: its {curve.config.ranks_of_job} processes do not fit into memory together"] = None
        else:
            curves.append(curve)
            if _axis(group[0]) == _NODES and group[0].config.system.cpus_per_node is None:
                single += [_launched(p) for p in group if p.config.distribution.allreduce]
    names = [point.name for point in points]
    return Plan(tuple(sorted(single, key=lambda p: names.index(p.name))), tuple(curves), tuple(reasons))


def _axis(point: Point) -> str:
    """The key that varies along a curve through this point; "" where its arms differ, or nothing varies."""
    return "" if point.arm_keys else next((key for key in _AXES if key in point.swept), "")


def _key(point: Point) -> tuple[str, ...]:
    """The same for all points of one curve."""
    axis, config = _axis(point), point.config
    if point.arm_keys:
        return compared(point)
    others = [f"{key}={value}" for key, value in point.swept.items() if key not in (axis, LINK)]
    same = copy.deepcopy(config)
    if axis == "ranks_per_node":
        same.ranks_per_node, same.threads_per_rank = 0, None
    return (_process(same), str(config.nodes if axis != _NODES else 0), *others)


def _process(config: Config) -> str:
    """The same for all points whose ranks can be processes of one job."""
    same = copy.deepcopy(config)
    same.nodes = same.batch_per_rank = same.global_batch = 0
    same.distribution.allreduce = True
    same.system.link_mbit_per_s = None
    return config_hash(same)


def _is_curve(group: Sequence[Point]) -> bool:
    """Whether there is something to compare."""
    if _axis(group[0]) == _NODES:
        return len({p.config.nodes for p in group}) > 1 and any(p.config.distribution.allreduce for p in group)
    return len(group) > 1 and bool(group[0].arm_keys or _axis(group[0]))


def _needs_launches(group: Sequence[Point], hosts_apart: bool) -> str:
    """Why points like these cannot share a launch; "" where they can."""
    config = group[0].config
    if config.measure.design == "launches":
        return "measure.design=launches"
    if config.allreduce_sweep:
        return "an allreduce sweep has no training steps"
    if config.measure.epochs:
        return "epochs are trained to their end"
    if config.dataset.name != "synthetic" and not config.measure.split:
        return f"dataset.name={config.dataset.name}: reading ahead would cross from one window into the next"
    for settings in (point.config.distribution for point in group):
        if not settings.kind.rounds:
            return f"distribution.backend={settings.backend}: its ranks work all together, not in groups"
    for point in group:
        controller = point.config.distribution.controller
        if controller != "gloo":
            return f"distribution.controller={controller}: ranks that wait take time from those that work"
        if point.config.system.cpus_per_node is not None and (why := _not_in_turn(point.config.distribution)):
            return f"{why}, and each arm of emulated nodes is joined anew"
    if len({_process(point.config) for point in group}) > 1:
        if hosts_apart:
            return f"launcher={config.launcher.name}: processes of different setups share a launch on one machine only"
        if config.device == "gpu" or config.system.cpus_per_node is not None:
            return "processes of different setups share a launch where their nodes have whole cores, and no GPU"
    return ""


def _not_in_turn(settings: Distribution) -> str:
    """Why Horovod cannot join some ranks, and then others, with these settings; "" where it can."""
    if settings.autotune:
        return "distribution.autotune=true: Horovod tunes itself again whenever it joins ranks"
    if (given := settings.fusion_threshold_bytes) != FUSION_THRESHOLD_BYTES:
        return f"distribution.fusion_threshold_bytes={given}: Horovod joins ranks a second time only with its own"
    return ""


def _curve(group: Sequence[Point], cores: int) -> Point:
    """The launch that measures all points of a group: the configuration of the largest, with arms and worlds."""
    axis = _axis(group[0])
    ordered = _base_first(group) if group[0].arm_keys else list(group)
    setups = list(dict.fromkeys(_process(point.config) for point in ordered))
    members = [[point for point in ordered if _process(point.config) == setup] for setup in setups]
    largest = [_largest(of_world) for of_world in members]
    first = largest[0] if len(setups) > 1 else _largest(ordered)
    config = copy.deepcopy(first.config)
    if len(setups) > 1:
        config.worlds = _worlds(config, [point.config for point in largest])
        config.worlds_at_once = _fit_at_once([point.config for point in largest], cores)
    config.join_in_turn = config.system.cpus_per_node is not None and config.ranks > 1
    arms = [_arm(p, world) for world, of_world in enumerate(members) for p in of_world]
    config.rounds = _over_nodes(group, arms) if axis == _NODES else arms
    if not group[0].arm_keys:
        config.rounds[0] = replace(config.rounds[0], role="base")
    config.measure.repeats = config.measure.launches
    swept = {key: value for key, value in first.swept.items() if key not in (axis, LINK)}
    name = point_name(config, _arms_name(first) if first.arm_keys else "rounds", list(swept))
    return replace(first, name=name, config=config, swept=swept, arm=None, role=None)


def _arms_name(point: Point) -> str:
    return "rounds" if point.config.launcher.separate_networks else f"ranks{point.config.ranks}-rounds"


def _largest(points: Sequence[Point]) -> Point:
    """The point whose job holds the others: with allreduce, of most nodes."""
    return max(points, key=lambda p: (p.config.distribution.allreduce, p.config.nodes))


def _base_first(arms: Sequence[Point]) -> list[Point]:
    """Arms from the base of the ratios on, then from the one that does least."""
    return sorted(arms, key=lambda arm: (arm.role != "base", *work(arm)))


def _worlds(launch: Config, configs: Sequence[Config]) -> list[World]:
    firsts = [sum(config.ranks for config in configs[:number]) for number in range(len(configs))]
    return [World(worlds.settings(launch, c), first, c.ranks) for c, first in zip(configs, firsts, strict=True)]


def _fit_at_once(configs: Sequence[Config], cores: int) -> bool:
    """Whether each world can have cores of its own. Only worlds of one size can swap them."""
    sizes = [config.nodes * (config.system.cores_per_node or 1) for config in configs]
    return len(set(sizes)) == 1 and sum(sizes) <= cores


def _over_nodes(group: Sequence[Point], arms: list[RoundArm]) -> list[RoundArm]:
    """The arms of a curve over nodes, the smallest point first, as the base of all speedups.

    Beside the points it has those without allreduce that measure.control asks for.
    """
    of_points = [p for p in group if p.role != "control"]
    largest = _largest(group)
    control = largest.config.measure.control
    wanted = [] if control == "none" else of_points if control == "all" else [largest]
    arms = arms + [
        replace(_arm(replace(point, role="control"), 0), allreduce=False, reads=False)
        for point in wanted
        if point.config.nodes > 1
    ]
    arms += [
        replace(_arm(replace(point, role="in-memory"), 0), reads=False) for point in of_points if _reads(point.config)
    ]
    alone = largest.config.ranks_per_node == 1  # a node of one rank has nothing to exchange
    unique = {
        (arm.nodes, arm.batch_per_rank, arm.allreduce or (alone and arm.nodes == 1), arm.reads): arm
        for arm in reversed(arms)
    }
    return sorted(
        unique.values(), key=lambda arm: (arm.nodes, arm.role != "point", not arm.allreduce, -arm.batch_per_rank)
    )


def _reads(config: Config) -> bool:
    """Whether the steps of rounds read their images: else the batch is in memory, the same in every step."""
    return config.measure.split and config.dataset.name != "synthetic"


def _arm(point: Point, world: int) -> RoundArm:
    config = point.config
    assert config.batch_per_rank is not None
    assert point.role is not None
    exchanges, beside = config.distribution.allreduce, _BESIDE.get(point.role)
    return RoundArm(
        name=point.name if _axis(point) != _NODES else "-".join(filter(None, (_name(config), beside))),
        nodes=config.nodes,
        ranks=config.ranks,
        batch_per_rank=config.batch_per_rank,
        allreduce=exchanges,
        arm=point.arm if point.arm_keys else beside,
        role=point.role,
        swept=point.swept,
        world=world,
        link_mbit_per_s=config.system.link_mbit_per_s,
        reads=exchanges and _reads(config),
        backward_passes_per_step=config.distribution.backward_passes_per_step,
    )


def _name(config: Config) -> str:
    return f"nodes{config.nodes}-batch_per_rank{config.batch_per_rank}"


def _launched(point: Point) -> Point:
    """The point with as few launches of its own as tell what a job costs once."""
    config = copy.deepcopy(point.config)
    config.measure.repeats = config.measure.single_launches
    return replace(point, config=config)
