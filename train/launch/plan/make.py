"""The plan of an experiment on this machine: made once, for a run, a dry run, a batch job and a reproduction."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from train.config import compose
from train.config.checks import ConfigError, LeftOut, check
from train.config.compose import Experiment, load, nodes_in
from train.config.identity import config_hash, point_name, swept_values
from train.config.schema import RunConfig
from train.launch.launchers.base import Launcher, Machine, named
from train.launch.plan import checks, curves
from train.launch.plan.runs import Point, differing_keys, with_bases
from train.rank import placement
from train.record.record import WITHOUT_ALLREDUCE, Role

_NO_EXCHANGE = "distribution.allreduce=false"


@dataclass(frozen=True)
class Arm:
    """An arm of an experiment, or beside the points of one on emulated nodes a control."""

    name: str | None
    overrides: list[str]
    role: Role = "point"
    beside_nodes: int = 0  # the nodes of the points whose control it is, of one that the kit adds


@dataclass(frozen=True)
class Plan:
    """The points of an experiment that are measured on a machine: its points, and the launcher that runs them."""

    machine: Machine
    launcher: Launcher
    points: tuple[Point, ...]  # in the order of the sweep, and behind them the curves that are measured in rounds
    spanned: int = 0  # points of the sweep, before those that share a launch became a curve
    left_out: tuple[str, ...] = ()  # why a combination is no point
    too_large: tuple[str, ...] = ()  # the points that do not fit into memory, and why
    without_rounds: tuple[str, ...] = ()  # why points of a curve are measured in separate launches


def expand(overrides: Sequence[str], machine: Machine, launchers: Mapping[str, Launcher]) -> Plan:
    """Return the points of the experiment that the overrides name.

    A comma-separated override (`model=vgg16,resnet50`) is swept, as in Hydra's multirun. It replaces the sweep that
    the experiment has over the same key, as a single value does too; only `nodes=N`, where the experiment sweeps the
    nodes, means up to N. A node has the same cores at every point. Where nodes are emulated, each is limited to its
    share of the cores' time, and the points have controls. Points that cannot be are left out, as those whose ranks
    cannot share the global batch equally, and of arms that compete those that are the same as another one here.

    Raises ConfigError, also where no point is left.
    """
    experiment, launcher = _with_its_launcher(compose.read_experiment(overrides), machine, launchers)
    experiment = compose.read_experiment([*experiment.overrides, *_node_overrides(experiment, launcher, machine)])
    fixed = [line for line in experiment.plain if line.partition("=")[0] not in experiment.swept]
    points: dict[tuple[str, str], tuple[Point, Arm]] = {}  # a list with a duplicate value is not measured twice
    left_out: dict[str, None] = {}
    same: dict[str, str | None] = {}  # arms that compete: the first of each configuration
    for combination in itertools.product(*(experiment.choices(key) for key in experiment.swept)):
        for arm in _arms(experiment, launcher, combination):
            try:
                point = _point(experiment, launcher, arm, [*fixed, *combination, *arm.overrides])
            except LeftOut as error:
                left_out[str(error)] = None
                if arm.name is None:
                    break  # its controls are of no use without it
                continue
            key = (point.name, config_hash(point.config))
            if point.config.measure.compete and (first := same.setdefault(key[1], arm.name)) != arm.name:
                left_out[f"{arm.name}: the same as {first} here"] = None
            else:
                points.setdefault(key, (point, arm))
    if not points:
        raise ConfigError(next(iter(left_out)))
    largest = max(point.config.nodes for point, _ in points.values())
    if (
        "nodes" in experiment.swept
        and not experiment.config.arms
        and largest < max(nodes_in(experiment.choices("nodes")))
    ):
        # A node has its share of the machine at the largest point that there is.
        there = ",".join(map(str, sorted({point.config.nodes for point, _ in points.values()})))
        others = [line for line in overrides if line.partition("=")[0] != "nodes"]
        smaller = expand([*others, f"nodes={there}"], machine, launchers)
        return replace(smaller, left_out=(*left_out, *smaller.left_out))
    made_points = [point for point, _ in points.values()]
    if not experiment.config.arms:
        made_points = _with_controls(list(points.values()), experiment.composed.measure.control)
    made_points = with_bases(made_points) if experiment.config.arms else made_points
    return Plan(machine, launcher, tuple(made_points), left_out=tuple(left_out))


def _with_its_launcher(
    experiment: Experiment, machine: Machine, launchers: Mapping[str, Launcher]
) -> tuple[Experiment, Launcher]:
    """Return the experiment composed for the launcher that runs it here, and that launcher."""
    chosen = named(launchers, experiment.composed.launcher.name)
    launcher = named(launchers, chosen.replacement(experiment, machine))
    if launcher.quotas or launcher is not chosen:
        experiment = compose.with_launcher(experiment, launcher.name, launcher.quotas)
    return experiment, launcher


def _node_overrides(experiment: Experiment, launcher: Launcher, machine: Machine) -> list[str]:
    """Return the overrides that give each node its cores, and its quota where it has one: the same at every point."""
    composed, overrides = experiment.composed, []
    if composed.system.cpus_per_node is None:
        cpus = launcher.cpus_per_node(composed, machine, experiment.max_nodes)
        overrides += [f"system.cpus_per_node={cpus}"] if cpus is not None else []
    if composed.system.cores_per_node is None:
        cores = launcher.cores_per_node(composed, machine, experiment.max_nodes)
        overrides.append(f"system.cores_per_node={cores}")
    return overrides


def _arms(experiment: Experiment, launcher: Launcher, combination: Sequence[str]) -> list[Arm]:
    """Return the arms of a combination of swept values: the experiment's own, else, on emulated nodes, the controls.

    In strong scaling the batch of a rank shrinks with the nodes, so each number of nodes needs a separate
    control with one node.
    """
    composed = experiment.composed
    if arms_of := experiment.config.arms:
        roles = cast(dict[str, Role], experiment.config.roles)  # which it has checked
        arms = [Arm(name, extra, roles.get(name, "point")) for name, extra in arms_of.items()]
        # Of competing arms that are the same the first is measured: the base, if it is one of them.
        return sorted(arms, key=lambda arm: composed.measure.compete and arm.role != "base")
    if not launcher.quotas or not composed.distribution.allreduce or composed.distribution.timeline:
        return [Arm(None, [])]
    nodes = next(iter(nodes_in(combination)), composed.nodes)
    arms = [Arm(None, []), Arm(WITHOUT_ALLREDUCE, [_NO_EXCHANGE], "control", nodes)]
    if composed.batch_per_rank is None and nodes > 1 and composed.global_batch % nodes == 0:
        alone = [_NO_EXCHANGE, "nodes=1", f"global_batch={composed.global_batch // nodes}"]
        arms.append(Arm(f"alone-as-1-of-{nodes}", alone, "control", nodes))
    return arms


def _with_controls(points: Sequence[tuple[Point, Arm]], asked_for: str) -> list[Point]:
    """Return the points, and the controls that measure.control asks for, with the nodes alone that these need."""
    largest = max(point.config.nodes for point, _ in points)
    beside = {"none": (0,), "largest": (0, 1, largest)}.get(asked_for)
    return [point for point, arm in points if beside is None or arm.beside_nodes in beside]


def _point(experiment: Experiment, launcher: Launcher, arm: Arm, overrides: list[str]) -> Point:
    """Return the point that these overrides compose. Raises ConfigError, LeftOut where others may be possible."""
    config = load(overrides)
    why = f"all points of an experiment run under one launcher, here {launcher.name}"
    check(config.launcher.name == launcher.name, "launcher", config.launcher.name, why)
    launcher.check(config)
    if config.threads_per_rank is None:
        cores = config.system.cores_per_node or 1
        config = config.on_cores(cores, placement.share(cores, config.ranks_per_node))
        overrides = [*overrides, f"threads_per_rank={config.threads_per_rank}"]
    return Point(
        name=point_name(config, experiment.swept, arm.name),
        overrides=tuple(overrides),
        config=config,
        swept=swept_values(config, experiment.swept, overrides),
        arm=arm.name,
        role=_role(config, arm, launcher),
        arm_keys=differing_keys(experiment.config.arms),
    )


def _role(config: RunConfig, arm: Arm, launcher: Launcher) -> Role:
    """Return the role of an arm; ranks without allreduce on emulated nodes are the control of those with it."""
    exchange = config.distribution
    why = "a control needs distribution.allreduce=false"
    check(arm.role != "control" or not exchange.allreduce, f"roles.{arm.name}", arm.role, why)
    beside = launcher.quotas and exchange.backend != "none" and not exchange.allreduce
    return "control" if arm.name is None and beside else arm.role


@dataclass(frozen=True)
class Options:
    """The options of `python -m train.launch`."""

    overrides: tuple[str, ...] = ()
    dry_run: bool = False  # print what would be started
    force: bool = False  # measure again what is measured
    only: str | None = None  # these points alone, by their names, separated by commas


def make(
    overrides: Sequence[str], machine: Machine, launchers: Mapping[str, Launcher], only: str | None = None
) -> Plan:
    """Return what the overrides ask for on this machine; without points where none fits into its memory.

    only: the names of the points that are wanted, separated by commas.
    Raises ConfigError, also where a point needs a GPU or a host that is missing.
    """
    plan = _fitting(expand(overrides, machine, launchers))
    if not plan.points:
        return plan
    plan = _chosen(_in_rounds(plan), only)
    checks.check_points(plan.points, plan.launcher)
    return plan


def _fitting(plan: Plan) -> Plan:
    """Return the plan without the points that do not fit into memory."""
    large = checks.too_large(plan.points, plan.launcher)
    points = tuple(point for point in plan.points if point.name not in large)
    return replace(plan, points=points, too_large=tuple(f"{name}: {why}" for name, why in large.items()))


def _in_rounds(plan: Plan) -> Plan:
    """Return the plan with points that can share a launch measured in rounds."""
    launcher = plan.launcher
    design = curves.design(
        plan.points, plan.machine.cores, launcher.hosts_apart, lambda curve: not checks.too_large([curve], launcher)
    )
    points = (*design.points, *design.curves)
    return replace(plan, points=points, spanned=len(plan.points), without_rounds=design.reasons)


def _chosen(plan: Plan, only: str | None) -> Plan:
    """Return the plan with the points that the user wants. Raises ConfigError where one is not there."""
    there = [point.name for point in plan.points]
    wanted = there if only is None else only.split(",")
    if unknown := [name for name in wanted if name not in there]:
        raise ConfigError(f"--only {','.join(unknown)}: no such point; allowed are {', '.join(there)}")
    return replace(plan, points=tuple(point for point in plan.points if point.name in wanted))
