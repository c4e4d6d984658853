"""Compose conf/ into a checked configuration of a run, or into an experiment as the user requests it.

Hydra composes, the schema checks, errors name the file and the key.
"""

import difflib
import functools
import importlib.util
import itertools
import mmap
import os
import pickle
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString, ValueType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from record.recorded_config import ASYNCHRONOUS
from train.config import quoted
from train.config.checks import ConfigError
from train.config.identity import rebuild
from train.config.run_config import ExperimentConfig, RunConfig, is_free_text

_EXPERIMENT_KEYS = tuple(item.name for item in fields(ExperimentConfig))
_RUN_KEYS = tuple(item.name for item in fields(RunConfig) if item.name != "launch")
CONF = Path(__file__).resolve().parents[2] / "conf"


class _Open:
    """The sections of the schema as classes that are not frozen: OmegaConf cannot fill a frozen one key by key."""


def _open(*sections: Any) -> type:
    """Return a class with the fields of these sections, whose types OmegaConf checks; pickle finds it in `_Open`."""
    members = []
    for section in sections:
        hints = get_type_hints(section)
        for item in fields(section):
            if item.name != "launch":  # no file has it
                default: Any = field(default=item.default, default_factory=item.default_factory)  # type: ignore[call-overload]
                members.append((item.name, _opened(hints[item.name]), default))
    opened = make_dataclass(sections[0].__name__, members)
    opened.__module__, opened.__qualname__ = __name__, f"_Open.{opened.__name__}"
    setattr(_Open, opened.__name__, opened)
    return opened


def _opened(kind: Any) -> Any:
    inner = get_args(kind)
    if is_dataclass(kind):
        return _open(kind)
    if len(inner) == 2 and inner[1] is NoneType:
        return _opened(inner[0]) | None
    if inner and is_dataclass(inner[0]):
        return list[_open(inner[0])]  # type: ignore[misc]
    return kind


ConfigStore.instance().store(name="schema", node=_open(RunConfig, ExperimentConfig))


def _up_to(largest: int, smallest: int = 1) -> str:
    """Return the powers of two from the smallest to below the largest, and the largest: 6 -> "1,2,4,6"."""
    powers = [2**k for k in range(max(largest, 0).bit_length()) if smallest <= 2**k < largest]
    return ",".join(str(n) for n in [*powers, largest])


def _divisors(cores: int | None) -> str:
    """Return the numbers of ranks that divide the cores equally: 6 -> "1,2,3,6"; "1" while the cores are not known."""
    return ",".join(str(n) for n in range(1, (cores or 1) + 1) if (cores or 1) % n == 0)


def _threads_with_a_core_free(cores: int | None, ranks: int) -> int:
    """Return the threads of each of a node's ranks if one core is left free, at least 1."""
    return max(1, ((cores or 1) - 1) // ranks)


def _choose(name: str, values: dict[str, Any], otherwise: Any) -> Any:
    """Return the value for this name of another choice, else the last argument: choose:quick,{quick:2},10 -> 2."""
    return values.get(name, otherwise)


@functools.cache
def _controllers_built_in(container: str) -> str:
    """Return the controllers of Horovod: "gloo,mpi" or "gloo"; both in a container, whose image has both.

    Asking Horovod would load TensorFlow, so this searches its library for the name of the MPI library. Before the
    set-up there is none: those that it will be compiled with.
    """
    if container != "none":
        return "gloo,mpi"
    package = importlib.util.find_spec("horovod")
    folders = (package.submodule_search_locations or []) if package else []
    for library in [path for folder in folders for path in Path(folder, "tensorflow").glob("mpi_lib*.so")]:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return "gloo" if text.find(b"libmpi.so") < 0 else "gloo,mpi"
    return "gloo,mpi" if shutil.which("mpicc") and os.environ.get("HOROVOD_WITHOUT_MPI") != "1" else "gloo"


for _resolver in (_choose, _up_to, _divisors, _threads_with_a_core_free, _controllers_built_in):
    OmegaConf.register_new_resolver(_resolver.__name__.removeprefix("_"), _resolver, replace=True)


def choices(group: str) -> list[str]:
    """Return the names of the YAML files of a group of conf/."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def _is_group(key: str) -> bool:
    return (CONF / key).is_dir()


def parse(overrides: Sequence[str]) -> list[Override]:
    """Return the overrides as Hydra parses them. Raises ConfigError, also for a key that users must not set."""
    for override in overrides:
        if override.encode(errors="replace").decode() != override:  # the command line had bytes that are not UTF-8
            raise ConfigError(f"{override!a}: not UTF-8, as records are; give another value, or rename the folder")
        if re.search(r"(?<!\\)\$\{\s*oc\.", override):
            raise ConfigError(f"{override}: a value is not read from the environment or other keys; give it as it is")
        if "=" not in override and not override.startswith("~"):
            raise ConfigError(f"{override}: no value; give key=value")
    try:
        parsed = [_as_text(_parsed(override)) for override in overrides]
    except HydraException as error:
        raise ConfigError(f"{' '.join(str(error).splitlines()[:2])}; allowed are overrides as key=value") from error
    for item in parsed:
        if allowed := _not_allowed(item):
            raise ConfigError(f"{item.input_line}: {allowed}")
    return parsed


@functools.cache
def _parsed(override: str) -> Override:
    """Return an override, parsed once: Hydra takes some ms, and the points of an experiment have most in common."""
    [parsed] = OverridesParser.create().parse_overrides([override])
    return parsed


def _as_text(item: Override) -> Override:
    """Return an override; in a free text, which changes no measurement, a comma is text and not a sweep."""
    is_sweep = item.value_type in (ValueType.CHOICE_SWEEP, ValueType.SIMPLE_CHOICE_SWEEP)
    if not is_sweep or not is_free_text(item.key_or_group):
        return item
    key, _, text = str(item.input_line).partition("=")
    return _parsed(f"{key}={quoted(text)}")


def _not_allowed(item: Override) -> str | None:
    """Return what is allowed instead of this override; None if it is allowed."""
    key = item.key_or_group
    if item.is_delete():
        return "nothing can be deleted from the configuration; give another value: key=value"
    if key.split(".")[0] in _EXPERIMENT_KEYS:
        return "an experiment's file sets this; to sweep a key, give key=1,2"
    if key == "launcher.hosts" and not item.is_sweep_override():
        hosts = item.value()
        if isinstance(hosts, list) and not all(isinstance(host, str | QuotedString) for host in hosts):
            return "a name that looks like a number needs quotes: launcher.hosts=['1e3']"
    if key == "derived":
        return "the kit fills this in; give the values themselves"
    if item.value_type in (ValueType.INTERVAL_SWEEP, ValueType.GLOB_CHOICE_SWEEP):
        return "a sweep lists its values: key=1,2 or key=range(1,4)"
    if _is_group(key):
        names = [*item.sweep_string_iterator()] if item.is_sweep_override() else [str(item.value() or "")]
        if not all(re.fullmatch(r"\w[\w.-]*", name) for name in names):  # a path is no name
            return f"allowed are {', '.join(choices(key))}"
    return None


@functools.cache
def composed_files(conf: Path, *chosen: str) -> bytes:
    """Return the configuration that Hydra composes from a folder with these choices; takes an eighth of a second.

    A pickled DictConfig: unpickled, it is a copy in a quarter of the time that copy.deepcopy takes.
    """
    with initialize_config_dir(str(conf), version_base="1.3"):
        return pickle.dumps(compose("config", overrides=list(chosen)))


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """Return conf/ with the overrides, unresolved. Raises ConfigError for an unknown name, key or type.

    Hydra composes each choice of files once, in whatever order: the points of an experiment differ in few files.
    Single values are set on a copy, as Hydra itself sets them.
    """
    items = parse(overrides)
    chosen = [item for item in items if _is_group(item.key_or_group) or item.is_sweep_override()]
    lines = dict((item.input_line or "").split("=", 1) for item in chosen)  # the last one of a group counts
    try:
        composed: DictConfig = pickle.loads(composed_files(CONF, *sorted(map("=".join, lines.items()))))
        for item in items:
            if item not in chosen:
                OmegaConf.update(composed, item.key_or_group, item.value())
    except (HydraException, OmegaConfBaseException) as error:
        raise _explained(error) from error
    return composed


def run_config(composed: DictConfig) -> RunConfig:
    """Return the checked configuration of one run, from the result of `compose_config`. Raises ConfigError."""
    return rebuild(_resolved(composed, _RUN_KEYS)).completed()


def experiment_config(composed: DictConfig) -> ExperimentConfig:
    """Return what the experiment varies, from the result of `compose_config`. Raises ConfigError."""
    return msgspec.convert(_resolved(composed, _EXPERIMENT_KEYS), ExperimentConfig)


def load(overrides: Sequence[str]) -> RunConfig:
    """Return the checked configuration of one run. Raises ConfigError."""
    return run_config(compose_config(overrides))


def _resolved(composed: DictConfig, keys: Sequence[str]) -> dict[str, Any]:
    """Return the values of these keys in Python's types."""
    try:
        nodes = {key: composed[key] for key in keys}
        return {
            key: OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
            if OmegaConf.is_config(node)
            else node
            for key, node in nodes.items()
        }
    except OmegaConfBaseException as error:
        raise _explained(error) from error


def _explained(error: BaseException) -> ConfigError:
    """Return Hydra's or OmegaConf's error as a ConfigError: the file, the key, the value given, what is allowed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConfigError):
            return cause
        cause = cause.__cause__
    text = str(error)
    if isinstance(error.__cause__, HydraException | OmegaConfBaseException) and "Could not find" not in text:
        text = f"{text}\n{error.__cause__}"
    return ConfigError(_explanation(text))


def _explanation(text: str) -> str:
    """Return what Hydra's or OmegaConf's message means."""
    if missing := re.search(r"Could not find '(\w+)/(\S+)'", text):
        group, name = missing.groups()
        close = difflib.get_close_matches(name, choices(group), n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        return f"{group}={name}: there is no conf/{group}/{name}.yaml; {hint}allowed are {', '.join(choices(group))}"
    file, full_key = re.search(r"In '([\w/]+)'", text), re.search(r"full_key: (\S+)", text)
    prefix = f"conf/{file[1]}.yaml: " if file and file[1] != "config" else ""
    key = full_key[1] if full_key else ""
    if unknown := re.search(r"Key '(\S+)' not in '(\w+)'", text):
        allowed = ", ".join(sorted(item.name for item in fields(getattr(_Open, unknown[2]))))
        return f"{prefix}{key or unknown[1]}: no such key; allowed here are {allowed}"
    if mistyped := re.search(r"Value '(.*)' of type '\w+' could not be converted to (\w+)", text):
        return f"{prefix}{key}={mistyped[1]}: must be of type {mistyped[2].lower()}"
    return prefix + "; ".join(line.strip() for line in text.splitlines() if line.strip())


def nodes_in(overrides: Sequence[str]) -> list[int]:
    """Return the numbers of nodes that overrides name."""
    pairs = (item.partition("=") for item in overrides)
    return [int(value) for key, _, value in pairs if key == "nodes" and value.lstrip("-").isdigit()]


@dataclass(frozen=True)
class Experiment:
    """An experiment, composed but not yet expanded into points."""

    overrides: tuple[str, ...]  # a comma-separated one is swept, as in Hydra's multirun
    by_key: dict[str, Override]  # the same, by key or config group
    unswept: list[str]  # those with a single value
    composed: DictConfig  # from the unswept ones
    config: ExperimentConfig

    @functools.cached_property
    def swept(self) -> list[str]:
        """Return the keys that are swept: the experiment's, then those of the command line."""
        more = [key for key, item in self.by_key.items() if item.is_sweep_override()]
        return list(dict.fromkeys([*self.config.sweep, *more]))

    def names(self, key: str) -> bool:
        """Return whether the command line, or the sweep or an arm of the experiment, gives this key a value."""
        lines = itertools.chain(*self.config.arms.values())
        return key in self.swept or key in self.by_key or any(line.partition("=")[0] == key for line in lines)

    def choices(self, key: str) -> list[str]:
        """Return the overrides of the sweep over a key: the command line's, else the experiment's.

        A single value on the command line replaces the sweep; only `nodes=N` means up to N.
        """
        item = self.by_key.get(key)
        if item is None or (key == "nodes" and not item.is_sweep_override()):
            [item] = parse([f"{key}={self.config.sweep[key]}"])
        if not item.is_sweep_override():
            return [item.input_line or ""]
        return [f"{key}={choice}" for choice in item.sweep_string_iterator()]

    @functools.cached_property
    def node_counts(self) -> list[int]:
        """Return the numbers of nodes of its points, without those of arms and of servers: swept, else one."""
        return (nodes_in(self.choices("nodes")) if "nodes" in self.swept else []) or [self.composed.nodes]

    @functools.cached_property
    def max_nodes(self) -> int:
        """Return the largest number of nodes of a point, servers included. Raises ConfigError if it is below 1."""
        arm_nodes = [nodes_in(extra) for extra in self.config.arms.values()] or [[]]
        counts = self.node_counts if "nodes" in self.swept or not all(arm_nodes) else []
        largest = max([*counts, *itertools.chain(*arm_nodes)])
        if largest < 1:
            raise ConfigError(f"nodes={largest}: must be 1 or more")
        return int(largest) + self._server_nodes

    @property
    def _server_nodes(self) -> int:
        """Return the most nodes that hold nothing but a parameter server at any point."""
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


def read_experiment(overrides: Sequence[str]) -> Experiment:
    """Return the experiment that the overrides name. Raises ConfigError for an unknown name, key or type."""
    by_key = {item.key_or_group: item for item in parse(overrides)}
    unswept = [item.input_line or "" for item in by_key.values() if not item.is_sweep_override()]
    composed = compose_config(unswept)
    return Experiment(tuple(overrides), by_key, unswept, composed, experiment_config(composed))


def with_launcher(experiment: Experiment, launcher: str, emulated: bool) -> Experiment:
    """Return the same experiment under another launcher. Raises ConfigError as `read_experiment`.

    emulated: its nodes get fractions of cores. The experiment's overrides for that do not apply to keys that the
    command line sets; none applies if the command line sets the model.
    """
    when_emulated = [] if not emulated or "model" in experiment.by_key else experiment.config.when_emulated
    when_emulated = [line for line in when_emulated if line.partition("=")[0] not in experiment.by_key]
    others = [line for line in experiment.overrides if line.partition("=")[0] != "launcher"]
    return read_experiment([f"launcher={launcher}", *when_emulated, *others])
