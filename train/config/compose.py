"""From conf/ to a checked configuration: Hydra composes, the schema checks, errors name the file and the key."""

import copy
import functools
import hashlib
import importlib.util
import json
import mmap
import re
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from train.config import schema
from train.config.schema import Config, ConfigError

CONF = Path(__file__).resolve().parents[2] / "conf"

# What may differ between two runs that measured the same thing: names, paths, estimates, where a default came from.
_NOT_MEASURED = ("experiment", "tracking", "results", "assumed")
_NOT_MEASURED_OF = {
    "model": ("parameters", "activation_bytes_per_image"),
    "dataset": ("data_dir", "ordered"),
    "measure": ("name", "repeats", "batch_per_rank", "global_batch", "total_steps", "usage_period_s"),
    "launcher": (
        *("timeout_s", "cores_fraction", "flat_within_fraction"),
        *("hosts", "order", "split", "assumed_run_s", "time_limit_s"),
    ),
    "container": ("image", "mpi_home"),
    "system": ("name", "emulate", "account", "longest_s", "remark"),
}
# What most runs do not have: where it is not set, it is not counted, and what was measured before it came still counts.
_MEASURED_WHERE_SET = {"launcher": ("separate_networks",), "system": ("cpus_per_node", "link_mbit_per_s")}
# What a run that only sweeps allreduces does not use.
_NOT_USED_BY_SWEEP = (
    "model",
    "dataset",
    "optimizer",
    "precision",
    "batch_per_rank",
    "global_batch",
    "seed",
    "measure",
    "weights",
)

ConfigStore.instance().store(name="schema", node=Config)


def _up_to(largest: int, smallest: int = 1) -> str:
    """The powers of two from the smallest to below the largest, and the largest: 6 -> "1,2,4,6"."""
    powers = [2**k for k in range(max(largest, 0).bit_length()) if smallest <= 2**k < largest]
    return ",".join(str(n) for n in [*powers, largest])


def _divisors(cores: int) -> str:
    """The numbers of ranks that fill the cores with whole threads: 6 -> "1,2,3,6"."""
    return ",".join(str(n) for n in range(1, cores + 1) if cores % n == 0)


def _choose(name: str, values: dict[str, Any], otherwise: Any) -> Any:
    """What an experiment takes where another choice has this name: choose:quick,{quick:2},10 -> 2."""
    return values.get(name, otherwise)


@functools.cache
def _controllers_built_in() -> str:
    """The controllers of this environment's Horovod, "gloo,mpi" or "gloo"; both where it has none: a container has it.

    Asking Horovod itself would load TensorFlow, so this looks whether its library names that of MPI.
    """
    found = importlib.util.find_spec("horovod")
    folders = (found.submodule_search_locations or []) if found else []
    for library in [path for folder in folders for path in Path(folder, "tensorflow").glob("mpi_lib*.so")]:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            if text.find(b"libmpi.so") < 0:
                return "gloo"
    return "gloo,mpi"


OmegaConf.register_new_resolver("choose", _choose, replace=True)
OmegaConf.register_new_resolver("up_to", _up_to, replace=True)
OmegaConf.register_new_resolver("divisors", _divisors, replace=True)
OmegaConf.register_new_resolver("controllers_built_in", _controllers_built_in, replace=True)


def choices(group: str) -> list[str]:
    """The names of the YAML files of a group of conf/."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def _explained(error: BaseException) -> ConfigError:
    """Hydra's or OmegaConf's error in the words of this kit: the file, the key, what was given, what is allowed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConfigError):
            return cause
        cause = cause.__cause__
    text = str(error)
    if isinstance(error.__cause__, HydraException | OmegaConfBaseException) and "Could not find" not in text:
        text = f"{text}\n{error.__cause__}"
    where = re.search(r"In '([\w/]+)'", text)
    place = f"conf/{where[1]}.yaml: " if where and where[1] != "config" else ""
    key = re.search(r"full_key: (\S+)", text)
    if missing := re.search(r"Could not find '(\w+)/(\S+)'", text):
        group, name = missing.groups()
        return ConfigError(
            f"{group}={name}: there is no conf/{group}/{name}.yaml; allowed are {', '.join(choices(group))}"
        )
    if unknown := re.search(r"Key '(\S+)' not in '(\w+)'", text):
        allowed = ", ".join(sorted(item.name for item in fields(getattr(schema, unknown[2]))))
        return ConfigError(f"{place}{key[1] if key else unknown[1]}: no such key; allowed here are {allowed}")
    if mistyped := re.search(r"Value '(.*)' of type '\w+' could not be converted to (\w+)", text):
        return ConfigError(f"{place}{key[1] if key else ''}={mistyped[1]}: must be of type {mistyped[2].lower()}")
    return ConfigError(place + "; ".join(line.strip() for line in text.splitlines() if line.strip()))


def parse(overrides: list[str]) -> list[Override]:
    """The overrides, as Hydra reads them. Raises ConfigError for what is none, or would reach into a sweep's rules."""
    try:
        parsed = OverridesParser.create().parse_overrides(overrides)
    except HydraException as error:
        raise ConfigError(f"{' '.join(str(error).splitlines()[:2])}; allowed are overrides as key=value") from error
    for item in parsed:
        key = item.key_or_group
        _refuse(item.is_delete(), item, "nothing can be deleted from the configuration; give another value: key=value")
        _refuse(
            key.split(".")[0] in ("sweep", "arms", "when_emulated"),
            item,
            "an experiment's file says this; to sweep a key, give key=1,2",
        )
        _refuse((CONF / key).is_dir() and not item.value(), item, f"allowed are {', '.join(choices(key))}")
    return parsed


def _refuse(condition: bool, item: Override, allowed: str) -> None:
    if condition:
        raise ConfigError(f"{item.input_line}: {allowed}")


@functools.cache
def _composed(conf: Path, *choices: str) -> DictConfig:
    """What the files of a folder give that these overrides choose; Hydra takes an eighth of a second to read them."""
    with initialize_config_dir(str(conf), version_base="1.3"):
        return compose("config", overrides=list(choices))


def compose_config(overrides: list[str]) -> DictConfig:
    """What conf/ and the overrides give, unresolved. Raises ConfigError for an unknown name, key or type."""
    given = parse(overrides)
    files = [item for item in given if (CONF / item.key_or_group).is_dir() or item.is_sweep_override()]
    try:
        composed = copy.deepcopy(_composed(CONF, *(item.input_line or "" for item in files)))
        for item in given:
            if item not in files:
                OmegaConf.update(composed, item.key_or_group, item.value())
    except (HydraException, OmegaConfBaseException) as error:
        raise _explained(error) from error
    return composed


def load(overrides: list[str]) -> Config:
    """The checked configuration of one run. Raises ConfigError."""
    composed = compose_config(overrides)
    try:
        config = OmegaConf.to_object(composed)
    except OmegaConfBaseException as error:
        raise _explained(error) from error
    assert isinstance(config, Config)
    return config


def resolved(config: Config) -> dict[str, Any]:
    """What a record keeps: all values of the run, without what only spans the experiment."""
    values = asdict(config)
    for key in ("sweep", "arms", "when_emulated"):
        del values[key]
    if config.allreduce_sweep is None:
        del values["allreduce_sweep"]
    if config.weights == "none":
        del values["weights"]
    if config.model.train_layers == "all":
        del values["model"]["train_layers"]
    if not config.dataset.files:
        for key in ("files", "data_dir", "on_damaged", "augmentation"):
            del values["dataset"][key]
    # Elastic training runs with Horovod's own settings: train/distribution/backends.py says why.
    elastic = config.distribution.elastic
    for key in ("cycle_time_ms", "fusion_threshold_bytes") if elastic else ("elastic", "commit_steps"):
        del values["distribution"][key]
    return values


def point_name(config: Config, arm: str | None = None, swept: Iterable[str] | None = None) -> str:
    """What tells a point from the others of its experiment: the values of the swept keys, and the arm.

    swept: these keys where the command line sweeps more than the experiment does.
    """
    values = resolved(config)
    parts = []
    for key in config.sweep if swept is None else swept:
        value: Any = values
        for step in key.split("."):
            value = value[step]
        shown = "null" if value is None else f"{value:g}" if isinstance(value, float) else value
        parts.append(value["name"] if isinstance(value, dict) else f"{key.split('.')[-1]}{shown}")
    return "-".join([*parts, *([arm] if arm else [])]) or config.model.name


def config_hash(config: Config) -> str:
    """Hexadecimal digest over what changes the measurement: not over names, paths, estimates, tracking or repeats."""
    left_out = _NOT_MEASURED + (_NOT_USED_BY_SWEEP if config.allreduce_sweep else ())
    values = {key: value for key, value in resolved(config).items() if key not in left_out}
    for group, keys in _NOT_MEASURED_OF.items():
        if group not in values:
            continue
        values[group] = {
            key: value
            for key, value in values[group].items()
            if key not in keys and (value or key not in _MEASURED_WHERE_SET.get(group, ()))
        }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
