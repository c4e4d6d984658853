"""The plan of an experiment on this machine: the same for a run, a dry run, a batch job and a reproduction."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from common.grouping import grouped
from record.schema import WITHOUT_ALLREDUCE, Role
from train.config import compose
from train.config.checks import ConfigError, LeftOut, check
from train.config.compose import Experiment, load
from train.config.identity import point_name, swept_values
from train.config.run_config import RunConfig
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import Launcher, Machine
from train.launch.plan import curve_design, point_checks
from train.launch.plan.planned_runs import PlannedPoint, differing_keys, with_bases
from train.rank import placement

_NO_EXCHANGE = "distribution.allreduce=false"
_Key = tuple[str, str]  # of a point: its name, the hash of its configuration


@dataclass(frozen=True)
class ArmSpec:
    """An arm of an experiment, or a control that is added to the points of one on emulated nodes."""

    name: str | None
    overrides: list[str]
    role: Role = "point"


@dataclass(frozen=True)
class Plan:
    """The points of an experiment that are measured on a machine: its points, and the launcher that runs them."""

    machine: Machine
    launcher: Launcher
    points: tuple[PlannedPoint, ...]  # in the order of the sweep, then the curves that are measured in rounds
    spanned: int = 0  # points of the sweep, also those that are now part of a curve
    left_out: tuple[str, ...] = ()  # combinations that are no point, and why
    too_large: tuple[str, ...] = ()  # the points that do not fit into memory, and why
    without_rounds: tuple[str, ...] = ()  # why points of a curve are measured in separate launches


def expand(overrides: Sequence[str], machine: Machine) -> Plan:
    """Return the points of the experiment that the overrides name.

    A comma-separated override (`model=vgg16,resnet50`) is swept, as in Hydra's multirun. It replaces the experiment's
    sweep over the same key, as a single value does too. Only `nodes=N`, if the experiment sweeps the nodes, means up to
    N. A node has the same cores at every point. Emulated nodes are limited to their share of the cores' time, and have
    controls. Impossible points are left out, such as those whose ranks cannot share the global batch equally; so are
    competing arms that are the same as an earlier one here.

    Raises ConfigError, also if no point remains.
    """
    experiment = compose.read_experiment(overrides)
    if experiment.composed.system.smt:
        machine = replace(machine, cores=machine.threads)
    experiment, launcher = _with_launcher(experiment, machine)
    experiment = compose.read_experiment([*experiment.overrides, *_node_overrides(experiment, launcher, machine)])
    fixed = [line for line in experiment.unswept if line.partition("=")[0] not in experiment.swept]
    points: dict[_Key, PlannedPoint] = {}  # a list with a duplicate value is not measured twice
    settings: dict[_Key, list[str]] = {}
    left_out: dict[str, None] = {}
    first_arms: dict[str, str | None] = {}  # config hash -> the first of the competing arms that have it
    for combination in itertools.product(*(experiment.choices(key) for key in experiment.swept)):
        for arm in _arms(experiment):
            lines = [*fixed, *combination, *arm.overrides]
            try:
                point = _point(experiment, launcher, arm, lines)
            except LeftOut as error:
                left_out[str(error)] = None
                continue
            key = (point.name, point.config_hash)
            if point.config.measure.compete and (first := first_arms.setdefault(key[1], arm.name)) != arm.name:
                left_out[f"{arm.name}: the same as {first} here"] = None
            else:
                points.setdefault(key, point)
                settings.setdefault(key, lines)
    if not points:
        raise ConfigError(next(iter(left_out)))
    counts = sorted({point.config.nodes for point in points.values()})
    if "nodes" in experiment.swept and not experiment.config.arms and counts[-1] < max(experiment.node_counts):
        # The largest possible point decides the share of a node. One number without choice() means all up to it.
        possible = ",".join(map(str, counts))
        smaller = expand([*overrides, f"nodes=choice({possible})"], machine)
        return replace(smaller, left_out=(*left_out, *smaller.left_out))
    all_points = [*points.values()]
    if experiment.config.arms:
        all_points = with_bases(all_points)
    elif launcher.quotas:
        all_points = _with_controls(experiment, launcher, points, settings)
    return Plan(machine, launcher, tuple(all_points), left_out=tuple(left_out))


def _with_launcher(experiment: Experiment, machine: Machine) -> tuple[Experiment, Launcher]:
    """Return the experiment composed for the launcher that runs it here, and that launcher. Raises ConfigError."""
    name = experiment.composed.launcher.name
    check(name in LAUNCHERS, "launcher.name", name, f"allowed are {', '.join(sorted(LAUNCHERS))}")
    chosen = LAUNCHERS[name]
    launcher = LAUNCHERS[chosen.replacement(experiment, machine)]
    if launcher.quotas or launcher is not chosen:
        experiment = compose.with_launcher(experiment, launcher.name, launcher.quotas)
    return experiment, launcher


def _node_overrides(experiment: Experiment, launcher: Launcher, machine: Machine) -> list[str]:
    """Return the overrides that give each node its cores, and its quota if it has one: the same at every point."""
    composed, overrides = experiment.composed, []
    if composed.system.cpu_quota_per_node is None and not experiment.names("system.cpu_quota_per_node"):
        cpus = launcher.cpu_quota_per_node(composed, machine, experiment.max_nodes)
        overrides += [f"system.cpu_quota_per_node={cpus}"] if cpus is not None else []
    if composed.system.cores_per_node is None and not experiment.names("system.cores_per_node"):
        cores = launcher.cores_per_node(composed, machine, experiment.max_nodes)
        overrides.append(f"system.cores_per_node={cores}")
    if composed.device == "gpu" and launcher.hosts_apart and not experiment.names("ranks_per_node"):
        gpus = composed.system.gpus_per_node or launcher.gpus_per_node(composed)
        overrides += [f"system.gpus_per_node={gpus}", f"ranks_per_node={gpus}"] if gpus else []  # all, as its cores
    return overrides


def _arms(experiment: Experiment) -> list[ArmSpec]:
    """Return the arms of each combination of swept values: those of the experiment, else one without a name."""
    if not (overrides_by_arm := experiment.config.arms):
        return [ArmSpec(None, [])]
    roles = cast(dict[str, Role], experiment.config.roles)  # checked by ExperimentConfig
    arms = [ArmSpec(name, extra, roles.get(name, "point")) for name, extra in overrides_by_arm.items()]
    # The first of competing arms that are the same is measured: the base, if it is one of them.
    return sorted(arms, key=lambda arm: experiment.composed.measure.compete and arm.role != "base")


def _with_controls(
    experiment: Experiment, launcher: Launcher, points: Mapping[_Key, PlannedPoint], settings: Mapping[_Key, list[str]]
) -> list[PlannedPoint]:
    """Return the points on emulated nodes, each with its controls after it. settings: the overrides of each point."""
    controls: dict[_Key, list[PlannedPoint]] = {key: [] for key in points}
    for curve in grouped(points, lambda key: repr(points[key].swept | {"nodes": None})).values():
        for key, arm in _controls({key: points[key].config for key in curve}):
            control = _point(experiment, launcher, arm, [*settings[key], *arm.overrides])
            # It belongs to the curve of its point, also if one node alone has another global batch.
            nodes = {name: control.config.nodes for name in points[key].swept if name == "nodes"}
            controls[key].append(replace(control, swept=points[key].swept | nodes))
    return [planned for key, point in points.items() for planned in (point, *controls[key])]


def _controls(curve: Mapping[_Key, RunConfig]) -> Iterator[tuple[_Key, ArmSpec]]:
    """Yield the controls of emulated points that differ in their nodes alone, each with the key of its point.

    measure.controls selects the points that have controls; the smallest and the largest need one to be compared. Each
    batch of a rank needs a control with one node: in strong scaling it shrinks with the nodes.
    """
    alone = {config.batch_per_rank for config in curve.values() if config.nodes == 1}
    largest = max(config.nodes for config in curve.values())
    for key, config in curve.items():
        nodes, exchange = config.nodes, config.distribution
        controlled = {"none": [], "largest": [1, largest]}.get(config.measure.controls, [nodes])
        if nodes not in controlled or exchange.timeline or not exchange.allreduce:
            continue
        yield key, ArmSpec(WITHOUT_ALLREDUCE, [_NO_EXCHANGE], "control")
        if config.batch_per_rank not in alone:
            alone.add(config.batch_per_rank)
            strong = "batch_per_rank" in config.derived
            share = [f"global_batch={(config.global_batch or 0) // nodes}"] if strong else []
            yield key, ArmSpec(f"alone-as-1-of-{nodes}", [_NO_EXCHANGE, "nodes=1", *share], "control")


def _point(experiment: Experiment, launcher: Launcher, arm: ArmSpec, overrides: list[str]) -> PlannedPoint:
    """Return the point that these overrides compose. Raises ConfigError, LeftOut if others may be possible."""
    config = load(overrides)
    why = f"all points of an experiment run under one launcher, here {launcher.name}"
    check(config.launcher.name == launcher.name, "launcher", config.launcher.name, why)
    launcher.check(config)
    exchange = config.distribution
    why = "a control needs distribution.allreduce=false"
    check(arm.role != "control" or not exchange.allreduce, f"roles.{arm.name}", arm.role, why)
    is_control = launcher.quotas and exchange.backend != "none" and not exchange.allreduce
    if config.threads_per_rank is None:
        cores = config.system.cores_per_node or 1
        config = config.on_cores(cores, placement.share(cores, config.ranks_per_node))
        overrides = [*overrides, f"threads_per_rank={config.threads_per_rank}"]
    return PlannedPoint(
        name=point_name(config, experiment.swept, arm.name),
        overrides=tuple(overrides),
        config=config,
        swept=swept_values(config, experiment.swept, overrides),
        arm=arm.name,
        role="control" if arm.name is None and is_control else arm.role,
        arm_keys=differing_keys(experiment.config.arms),
    )


@dataclass(frozen=True)
class Options:
    """The options of `python -m train.launch`."""

    overrides: tuple[str, ...] = ()
    dry_run: bool = False  # print the commands, start nothing
    force: bool = False  # measure again what is measured
    only: str | None = None  # these points alone, by their names, separated by commas


def make(overrides: Sequence[str], machine: Machine, only: str | None = None) -> Plan:
    """Return the plan of the overrides on this machine; without points if none fits into its memory.

    only: the names of the points to measure, separated by commas.
    Raises ConfigError, also if a point needs a GPU or a host that is missing.
    """
    plan = expand(overrides, machine)
    launcher, large = plan.launcher, point_checks.too_large(plan.points, plan.launcher)
    fitting = tuple(point for point in plan.points if point.name not in large)
    too_large = tuple(f"{name}: {why}" for name, why in large.items())
    plan = replace(plan, points=fitting, spanned=len(fitting), too_large=too_large)
    if not fitting:
        return plan
    # Points that can share a launch are measured in rounds.
    design = curve_design.design(
        fitting, plan.machine.cores, launcher.hosts_apart, lambda curve: not point_checks.too_large([curve], launcher)
    )
    points = (*design.points, *design.curves)
    names = [point.name for point in points]
    chosen = names if only is None else only.split(",")
    if unknown := [name for name in chosen if name not in names]:
        raise ConfigError(f"--only {','.join(unknown)}: no such point; allowed are {', '.join(names)}")
    measured = tuple(point for point in points if point.name in chosen)
    point_checks.check_points(measured, launcher)
    return replace(plan, points=measured, without_rounds=design.reasons)
