"""From an experiment to its points: pure, but for reading conf/."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig

from train.config.compose import compose_config, load, parse
from train.config.identity import config_hash, point_name
from train.config.schema import REMOTE, Config, ConfigError, DoesNotDivide
from train.launch.emulate import cgroups
from train.rank import placement


@dataclass(frozen=True)
class Point:
    """One configuration to measure, and the overrides that compose it again, on every rank."""

    name: str
    overrides: tuple[str, ...]
    config: Config


def _choices(key: str, values: str) -> list[str]:
    """The overrides that a sweep of `key` over Hydra's comma-separated `values` stands for."""
    override = parse([f"{key}={values}"])[0]
    if not override.is_sweep_override():
        return [f"{key}={values}"]
    return [f"{key}={choice}" for choice in override.sweep_string_iterator()]


def _nodes(overrides: list[str]) -> list[int]:
    """The numbers of nodes that overrides name."""
    pairs = (item.partition("=") for item in overrides)
    return [int(value) for key, _, value in pairs if key == "nodes" and value.lstrip("-").isdigit()]


def _plain(given: list[Override]) -> list[str]:
    """The overrides that give one value."""
    return [item.input_line or "" for item in given if not item.is_sweep_override()]


def _choices_of(key: str, experiment: DictConfig, asked: Mapping[str, Override]) -> list[str]:
    """The overrides that the sweep over a key stands for: the command line's, else the experiment's."""
    item = asked.get(key)
    if item is not None and item.is_sweep_override():
        return [f"{key}={choice}" for choice in item.sweep_string_iterator()]
    if item is not None and key != "nodes":
        return [item.input_line or ""]
    return _choices(key, experiment.sweep[key])


def _largest(experiment: DictConfig, asked: Mapping[str, Override]) -> int:
    """The largest number of nodes of the experiment's points."""
    item = asked.get("nodes")
    swept = "nodes" in experiment.sweep or (item is not None and item.is_sweep_override())
    named = _nodes(_choices_of("nodes", experiment, asked)) if swept else []
    of_arms = [_nodes(list(extra)) for extra in dict(experiment.arms).values()] or [[]]
    if not named and not all(of_arms):
        named = [experiment.nodes]
    largest = max([*named, *itertools.chain(*of_arms)])
    if largest < 1:
        raise ConfigError(f"nodes={largest}: must be 1 or more")
    return int(largest)


# What every experiment on emulated nodes measures beside its points: whether nodes disturb each other.
_CONTROL = "distribution.allreduce=false"


def _arms(experiment: DictConfig, emulated: bool, combination: Sequence[str]) -> dict[str | None, list[str]]:
    """The arms of each combination of swept values: the experiment's own, else, of emulated nodes, the control.

    In strong scaling the batch of a rank shrinks with the nodes, so each number of nodes has its own node alone.
    """
    if experiment.arms:
        return {str(name): list(extra) for name, extra in dict(experiment.arms).items()}
    if not emulated or not experiment.distribution.allreduce:
        return {None: []}
    arms: dict[str | None, list[str]] = {None: [], "without-allreduce": [_CONTROL]}
    nodes = next(iter(_nodes(list(combination))), experiment.nodes)
    if experiment.batch_per_rank is None and nodes > 1 and experiment.global_batch % nodes == 0:
        share = experiment.global_batch // nodes
        arms[f"alone-as-1-of-{nodes}"] = [_CONTROL, "nodes=1", f"global_batch={share}"]
    return arms


def _emulated(experiment: DictConfig, asked: Mapping[str, Override], largest: int, machine_cores: int) -> bool:
    """Whether the nodes are to be emulated: as asked for, else where the system says so and they outnumber the cores.

    Only timed training steps can be: a quota would change neither what epochs teach nor what an allreduce costs a core.
    """
    if experiment.launcher.name == "emulated" or "launcher" in asked:
        return bool(experiment.launcher.name == "emulated")
    crowded = largest > 1 and largest * experiment.ranks_per_node > machine_cores
    timed = not (experiment.measure.epochs or experiment.allreduce_sweep or experiment.arms)
    return bool(experiment.system.emulate and crowded and timed and experiment.device == "cpu")


def expand(
    overrides: list[str],
    machine_cores: int,
    left_out: list[str] | None = None,
    no_quotas: str | None = "not asked",
    host_cores: Callable[[DictConfig], int] | None = None,
) -> list[Point]:
    """The points of the experiment that the overrides name, in the order to run them.

    Points whose ranks cannot share the global batch equally are left out: why goes into `left_out`.

    A comma-separated override (`model=vgg16,resnet50`) is swept, as in Hydra's multirun. It replaces the sweep that
    the experiment has over the same key, as a single value does too; only `nodes=N`, where the experiment sweeps the
    nodes, means up to N. A node has the same cores at every point: system.cores_per_node, or the cores of this machine
    divided by the largest number of nodes. Where nodes are emulated, each is held to its share of the cores' time, and
    every point has its control; no_quotas: why this machine cannot do that, None where it can: else cores are shared.
    Where nodes are hosts of their own, `host_cores` gives the cores of each.
    Raises ConfigError, also where no point is left.
    """
    given = parse(overrides)
    asked = {item.key_or_group: item for item in given}
    experiment = compose_config(_plain(given))
    largest = _largest(experiment, asked)
    emulated = _emulated(experiment, asked, largest, machine_cores)
    if emulated and no_quotas is not None and experiment.launcher.separate_networks:
        raise ConfigError(f"launcher=emulated: nodes with networks of their own need CPU quotas: {no_quotas}")
    if emulated:
        others = [line for line in overrides if line.partition("=")[0] != "launcher"]
        emulated = no_quotas is None
        smaller = [] if "model" in asked else [o for o in experiment.when_emulated if o.partition("=")[0] not in asked]
        given = parse(["launcher=emulated", *smaller, *others] if emulated else ["launcher=local", *others])
        asked = {item.key_or_group: item for item in given}
        experiment = compose_config(_plain(given))
    plain = _plain(given)

    swept = [
        *experiment.sweep,
        *(k for k, item in asked.items() if item.is_sweep_override() and k not in experiment.sweep),
    ]

    if emulated and experiment.system.cpus_per_node is None:
        cpus = cgroups.per_node(machine_cores, largest, experiment.launcher.cores_fraction)
        plain.append(f"system.cpus_per_node={cpus}")
    if experiment.system.cores_per_node is None:
        if host_cores and experiment.launcher.name in REMOTE:
            experiment.system.cores_per_node = host_cores(experiment)
        else:
            experiment.system.cores_per_node = placement.cores_per_node(machine_cores, largest)
        plain.append(f"system.cores_per_node={experiment.system.cores_per_node}")
    points: dict[tuple[str, str], Point] = {}  # a list that names a value twice does not measure it twice
    kept = [line for line in plain if line.partition("=")[0] not in swept]
    uneven: dict[str, DoesNotDivide] = {}
    for combination in itertools.product(*(_choices_of(key, experiment, asked) for key in swept)):
        for arm, extra in _arms(experiment, emulated, combination).items():
            lines = [*kept, *combination, *extra]
            try:
                config = load(lines)
            except DoesNotDivide as error:
                uneven[str(error)] = error
                continue
            if config.threads_per_rank is None:
                cores = config.system.cores_per_node or 1
                config.threads_per_rank = placement.threads_per_rank(cores, config.ranks_per_node)
                lines.append(f"threads_per_rank={config.threads_per_rank}")
            name = point_name(config, arm, swept)
            points.setdefault((name, config_hash(config)), Point(name, tuple(lines), config))
    if not points:
        raise next(iter(uneven.values()))
    if left_out is not None:
        left_out += uneven
    return list(points.values())
