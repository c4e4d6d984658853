"""Curves: points that one launch measures in rounds (train/loop/run_rounds.py), and the launch's arms and rank groups.

Points belong to one curve if they differ in its axis alone: the number of nodes and what follows from it, else the
ranks of a node, the batch, or the arm. Points of one process setup share the ranks of a job; each uses the first ones.
A process fixes its threads and its Horovod when it starts. Points that differ in these each have a rank group of the
job: at the same time on separate cores if the machine has enough, else in turn.

With measure.separate_launches the smaller points of a curve over nodes also have a few launches of one point, which
measure the fixed overhead of a job: start, build, first step. For the largest point the launches in rounds measure it.
Emulated nodes have none: they start and build without quotas, so their wall time is not valid.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from common.grouping import grouped
from record.recorded_config import RankGroup, RoundArm
from record.schema import WITHOUT_ALLREDUCE
from train.config import identity
from train.config.distribution_config import FUSION_THRESHOLD_BYTES, DistributionConfig
from train.config.identity import config_hash, point_name
from train.config.measure_config import LaunchPlan
from train.config.run_config import RunConfig
from train.launch.plan.planned_runs import LINK, PlannedPoint, compared, work

_ADDED_ARMS = {"control": WITHOUT_ALLREDUCE, "in-memory": "batch-in-memory"}  # role -> name of an added arm
_NODES = "nodes"
_AXES = (_NODES, "ranks_per_node", "batch_per_rank", "global_batch")  # the first swept one is the axis of a curve


@dataclass(frozen=True)
class Design:
    """The design of a measurement: points in separate launches, and curves in rounds."""

    points: tuple[PlannedPoint, ...]
    curves: tuple[PlannedPoint, ...]
    reasons: tuple[str, ...]  # why points that form a curve are measured without rounds


def design(
    points: Sequence[PlannedPoint],
    cores: int,
    hosts_apart: bool = False,
    fits: Callable[[PlannedPoint], bool] = lambda curve: True,
) -> Design:
    """Return the points with as many launches as each needs, and the curves that they form.

    cores: of this machine. hosts_apart: each node is a separate host.
    fits: whether the processes of a curve fit into memory together.
    """
    single: list[PlannedPoint] = []
    curves: list[PlannedPoint] = []
    reasons: dict[str, None] = {}
    for group in grouped(points, _key).values():
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
            config = curve.config
            if config.measure.separate_launches and _axis(group[0]) == _NODES and not config.emulated:
                smaller = [p for p in group if p.config.nodes < curve.config.nodes]
                smaller = [p for p in smaller if p.config.distribution.allreduce]
                single += [_with_measure(p, repeats=max(1, p.config.measure.repeats // 2)) for p in smaller]
    names = [point.name for point in points]
    ordered = sorted(single, key=lambda p: names.index(p.name))
    budgets_s = [curve.config.measure.budget_s for curve in curves]  # of the command, if the user gave one
    shared = [
        curve if budget_s is None else _with_measure(curve, curve_budget_s=budget_s / len(curves))
        for curve, budget_s in zip(curves, budgets_s, strict=True)
    ]
    return Design(tuple(ordered), tuple(shared), tuple(reasons))


def _with_measure(point: PlannedPoint, **changes: Any) -> PlannedPoint:
    return replace(point, config=replace(point.config, measure=replace(point.config.measure, **changes)))


def _axis(point: PlannedPoint) -> str:
    """Return the axis of the curve through this point; "" if its arms differ, or nothing varies."""
    return "" if point.arm_keys else next((key for key in _AXES if key in point.swept), "")


def _key(point: PlannedPoint) -> tuple[str, ...]:
    """Return a key that is the same for all points of one curve."""
    axis, config = _axis(point), point.config
    if point.arm_keys:
        return compared(point)
    others = [f"{key}={value}" for key, value in point.swept.items() if key not in (axis, LINK)]
    split = ("ranks_per_node", "threads_per_rank") if axis == "ranks_per_node" else ()
    return (_process(config, *split), *others)


def _process(config: RunConfig, *without: str) -> str:
    """Return a key that is equal for points whose ranks can share processes. without: more keys that may differ."""
    may_differ = ("nodes", "batch_per_rank", "global_batch", "distribution.allreduce", LINK)
    return config_hash(config, [*may_differ, *without])


def _is_curve(group: Sequence[PlannedPoint]) -> bool:
    """Return whether the points form a curve: at least two that can be compared, beside their controls."""
    if group[0].arm_keys:
        return len(group) > 1
    points = [point for point in group if point.role != "control"]
    if _axis(group[0]) == _NODES:
        return len({p.config.nodes for p in points}) > 1 and any(p.config.distribution.allreduce for p in points)
    return len(points) > 1 and bool(_axis(group[0]))


def _needs_launches(group: Sequence[PlannedPoint], hosts_apart: bool) -> str:
    """Return why points like these cannot share a launch; "" if they can."""
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
        if settings.is_strategy or settings.in_one_process:
            return f"distribution.backend={settings.backend}: its ranks work all together, not in groups"
    for point in group:
        controller = point.config.distribution.controller
        if controller != "gloo":
            return f"distribution.controller={controller}: ranks that wait take time from those that work"
        if point.config.emulated and (why := _not_in_turn(point.config.distribution)):
            return f"{why}, and each arm of emulated nodes joins again"
    if len({_process(point.config) for point in group}) > 1:
        if hosts_apart:
            return f"launcher={config.launcher.name}: processes of different setups share a launch on one machine only"
        if config.device == "gpu" or config.emulated:
            return "processes of different setups share a launch where their nodes have whole cores, and no GPU"
    return ""


def _not_in_turn(settings: DistributionConfig) -> str:
    """Return why Horovod cannot join some ranks, and then others, with these settings; "" if it can."""
    if settings.autotune:
        return "distribution.autotune=true: Horovod tunes itself again whenever it joins ranks"
    if (threshold := settings.fusion_threshold_bytes) != FUSION_THRESHOLD_BYTES:
        return f"distribution.fusion_threshold_bytes={threshold}: Horovod joins ranks a second time only with its own"
    return ""


def _curve(group: Sequence[PlannedPoint], cores: int) -> PlannedPoint:
    """Return the launch that measures all points of a group: the configuration of the largest, with its plan."""
    axis = _axis(group[0])
    # The base of the ratios is the first arm, then the arm with the least work.
    ordered = sorted(group, key=lambda arm: (arm.role != "base", *work(arm))) if group[0].arm_keys else list(group)
    setups: dict[str, list[PlannedPoint]] = {}
    for point in ordered:
        setups.setdefault(_process(point.config), []).append(point)
    largest = [_largest(in_setup) for in_setup in setups.values()]
    first = largest[0]
    arms = [_arm(p, number) for number, in_setup in enumerate(setups.values()) for p in in_setup]
    if axis == _NODES:
        arms = _over_nodes(group, arms)
    if not group[0].arm_keys:
        base = next(index for index, arm in enumerate(arms) if arm.role == "point")  # a control may be on fewer nodes
        arms[base] = msgspec.structs.replace(arms[base], role="base")
    configs = [point.config for point in largest] if len(setups) > 1 else []
    firsts = itertools.accumulate((config.ranks for config in configs), initial=0)
    sizes = [config.nodes * (config.system.cores_per_node or 1) for config in configs]
    settings = [identity.differing_settings(first.config, config) for config in configs]
    groups = zip(settings, firsts, [config.ranks for config in configs], strict=False)
    launch = LaunchPlan(
        rounds=tuple(arms),
        rank_groups=tuple(itertools.starmap(RankGroup, groups)),
        # Each has its own cores; only groups of one size can swap them.
        rank_groups_at_once=len(set(sizes)) == 1 and sum(sizes) <= cores,
        join_in_turn=first.config.emulated and first.config.ranks > 1,
    )
    config = replace(first.config, launch=launch)
    swept = {key: value for key, value in first.swept.items() if key not in (axis, LINK)}
    ranks = f"ranks{config.ranks}-" if first.arm_keys and not config.launcher.separate_networks else ""
    name = point_name(config, swept, f"{ranks}rounds")
    return replace(first, name=name, config=config, swept=swept, arm=None, role=None)


def _largest(points: Sequence[PlannedPoint]) -> PlannedPoint:
    """Return the point whose ranks include those of the others: with allreduce, on most nodes."""
    return max(points, key=lambda p: (p.config.distribution.allreduce, p.config.nodes))


def _over_nodes(group: Sequence[PlannedPoint], arms: list[RoundArm]) -> list[RoundArm]:
    """Return the arms of a curve over nodes, the smallest point first, as the base of all speedups.

    They include the controls without allreduce that measure.controls selects.
    """
    largest = _largest(group)
    control = largest.config.measure.controls
    controlled = [] if control == "none" else group if control == "all" else [largest]
    controls = [_arm(replace(point, role="control")) for point in controlled if point.config.nodes > 1]
    in_memory = [_arm(replace(point, role="in-memory")) for point in group if _reads(point.config)]
    arms = arms + [msgspec.structs.replace(arm, allreduce=False, reads=False) for arm in controls]
    arms += [msgspec.structs.replace(arm, reads=False) for arm in in_memory]
    alone = largest.config.ranks_per_node == 1  # a node of one rank has nothing to exchange
    unique = {
        (arm.nodes, arm.batch_per_rank, arm.allreduce or (alone and arm.nodes == 1), arm.reads): arm
        for arm in reversed(arms)
    }
    return sorted(
        unique.values(), key=lambda arm: (arm.nodes, arm.role != "point", not arm.allreduce, -arm.batch_per_rank)
    )


def _reads(config: RunConfig) -> bool:
    """Return whether the steps of rounds read their images; else one batch in memory is used in every step."""
    return config.measure.split and config.dataset.name != "synthetic"


def _arm(point: PlannedPoint, group: int = 0) -> RoundArm:
    config = point.config
    assert config.batch_per_rank is not None
    assert point.role is not None
    exchanges, added = config.distribution.allreduce, _ADDED_ARMS.get(point.role)
    on_nodes = f"nodes{config.nodes}-batch_per_rank{config.batch_per_rank}{f'-{added}' if added else ''}"
    return RoundArm(
        name=on_nodes if _axis(point) == _NODES else point.name,
        nodes=config.nodes,
        ranks=config.ranks,
        batch_per_rank=config.batch_per_rank,
        allreduce=exchanges,
        arm=point.arm if point.arm_keys else added,
        role=point.role,
        swept=point.swept,
        rank_group=group,
        link_mbit_per_s=config.system.link_mbit_per_s,
        reads=exchanges and _reads(config),
        backward_passes_per_step=config.distribution.backward_passes_per_step,
    )
