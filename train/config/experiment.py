"""An experiment as the user requests it: its file, and the overrides that change or sweep its values."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig

from train.config.checks import ConfigError
from train.config.compose import compose_config, experiment_config, parse
from train.config.schema import ExperimentConfig
from train.record.recorded_config import ASYNCHRONOUS


def nodes_in(overrides: Sequence[str]) -> list[int]:
    """Return the numbers of nodes that overrides name."""
    pairs = (item.partition("=") for item in overrides)
    return [int(value) for key, _, value in pairs if key == "nodes" and value.lstrip("-").isdigit()]


@dataclass(frozen=True)
class Experiment:
    """An experiment, composed but not yet expanded into points."""

    overrides: tuple[str, ...]  # as given; a comma-separated one is swept, as in Hydra's multirun
    asked: dict[str, Override]  # the same, by key or config group
    composed: DictConfig  # without the overrides that are swept
    config: ExperimentConfig

    @property
    def plain(self) -> list[str]:
        """Return the overrides that give one value."""
        return [item.input_line or "" for item in self.asked.values() if not item.is_sweep_override()]

    @cached_property
    def swept(self) -> list[str]:
        """Return the keys that are swept: the experiment's, then those of the command line."""
        more = [key for key, item in self.asked.items() if item.is_sweep_override()]
        return list(dict.fromkeys([*self.config.sweep, *more]))

    def choices(self, key: str) -> list[str]:
        """Return the overrides of the sweep over a key: the command line's, else the experiment's.

        A single value on the command line replaces the sweep; only `nodes=N` means up to N.
        """
        item = self.asked.get(key)
        if item is None or (key == "nodes" and not item.is_sweep_override()):
            [item] = parse([f"{key}={self.config.sweep[key]}"])
        if not item.is_sweep_override():
            return [item.input_line or ""]
        return [f"{key}={choice}" for choice in item.sweep_string_iterator()]

    @cached_property
    def max_nodes(self) -> int:
        """Return the largest number of nodes of a point, servers included. Raises ConfigError where it is below 1."""
        named = nodes_in(self.choices("nodes")) if "nodes" in self.swept else []
        arm_nodes = [nodes_in(extra) for extra in self.config.arms.values()] or [[]]
        if not named and not all(arm_nodes):
            named = [self.composed.nodes]
        largest = max([*named, *itertools.chain(*arm_nodes)])
        if largest < 1:
            raise ConfigError(f"nodes={largest}: must be 1 or more")
        return int(largest) + self._server_nodes

    @property
    def _server_nodes(self) -> int:
        """Return the most nodes that only hold parameter servers, where some point may have any."""
        settings = self.composed.distribution
        if "nodes" not in self._values("distribution.servers_on", settings.servers_on):
            return 0
        if not ASYNCHRONOUS & {*self._values("distribution", ""), settings.backend}:
            return 0
        return max(map(int, self._values("distribution.servers", settings.servers)))

    def _values(self, key: str, composed: object) -> list[str]:
        """Return the values of a key among the points: as composed, or swept, and those of arms."""
        lines = self.choices(key) if key in self.swept else [f"{key}={composed}"]
        lines = [*lines, *itertools.chain(*self.config.arms.values())]
        return [value for name, _, value in (line.partition("=") for line in lines) if name == key]


def read(overrides: Sequence[str]) -> Experiment:
    """Return the experiment that the overrides name. Raises ConfigError for an unknown name, key or type."""
    asked = {item.key_or_group: item for item in parse(overrides)}
    plain = [item.input_line or "" for item in asked.values() if not item.is_sweep_override()]
    composed = compose_config(plain)
    return Experiment(tuple(overrides), asked, composed, experiment_config(composed))


def with_launcher(experiment: Experiment, launcher: str, emulated: bool) -> Experiment:
    """Return the same experiment under another launcher. Raises ConfigError as `read`.

    emulated: its nodes get fractions of cores; the overrides that the experiment has for that are taken where the
    command line does not decide. A model that was asked for is measured as it is.
    """
    smaller = [] if not emulated or "model" in experiment.asked else experiment.config.when_emulated
    smaller = [line for line in smaller if line.partition("=")[0] not in experiment.asked]
    others = [line for line in experiment.overrides if line.partition("=")[0] != "launcher"]
    return read([f"launcher={launcher}", *smaller, *others])
