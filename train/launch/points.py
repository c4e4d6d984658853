"""From an experiment to its points: pure, but for reading conf/."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

from train import placement
from train.config import CONF, checked, compose_config, config_hash, parse, point_name
from train.schema import Config, ConfigError, DoesNotDivide


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


def expand(overrides: list[str], machine_cores: int, left_out: list[str] | None = None) -> list[Point]:
    """The points of the experiment that the overrides name, in the order to run them.

    Points whose ranks cannot share the global batch equally are left out: why goes into `left_out`.

    A comma-separated override (`model=vgg16,resnet50`) is swept, as in Hydra's multirun. It replaces the sweep that
    the experiment has over the same key, as a single value does too; only `nodes=N`, where the experiment sweeps the
    nodes, means up to N. A node has the same cores at every point: system.cores_per_node, or the cores of this machine
    divided by the largest number of nodes. Raises ConfigError, also where no point is left.
    """
    given = parse(overrides)
    plain = [item.input_line or "" for item in given if not item.is_sweep_override()]
    asked = {item.key_or_group: item for item in given}
    experiment = compose_config(plain)

    swept = [
        *experiment.sweep,
        *(k for k, item in asked.items() if item.is_sweep_override() and k not in experiment.sweep),
    ]

    def choices(key: str) -> list[str]:
        item = asked.get(key)
        if item is not None and item.is_sweep_override():
            return [f"{key}={choice}" for choice in item.sweep_string_iterator()]
        if item is not None and key != "nodes":
            return [item.input_line or ""]
        return _choices(key, experiment.sweep[key])

    arms = {name: list(extra) for name, extra in dict(experiment.arms).items()} or {None: []}
    named = [*(choices("nodes") if "nodes" in swept else []), *itertools.chain(*arms.values())]
    largest = max(_nodes(named) or [experiment.nodes])
    if largest < 1:
        raise ConfigError(f"nodes={largest}: must be 1 or more")
    if experiment.system.cores_per_node is None:
        experiment.system.cores_per_node = placement.cores_per_node(machine_cores, largest)
        plain.append(f"system.cores_per_node={experiment.system.cores_per_node}")
    points: dict[tuple[str, str], Point] = {}  # a list that names a value twice does not measure it twice
    kept = [line for line in plain if line.partition("=")[0] not in swept]
    uneven: dict[str, DoesNotDivide] = {}
    compose_once = functools.cache(lambda *lines: compose_config(list(lines)))
    for combination in itertools.product(*map(choices, swept)):
        for arm, extra in arms.items():
            varied = [*combination, *extra]
            # Hydra takes a fifth of a second: it is asked once for each choice of files, not for each value.
            files = [line for line in varied if (CONF / line.partition("=")[0]).is_dir()]
            values = {item.key_or_group: item.value() for item in parse([line for line in varied if line not in files])}
            lines = [*kept, *varied]
            try:
                config = checked(compose_once(*kept, *files), values)
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
