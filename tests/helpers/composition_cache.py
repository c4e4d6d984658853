"""A cache of what Hydra composes and OmegaConf parses, for tests whose module or conftest.py imports the fixture."""

import functools
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import omegaconf.base
import pytest

from record import run_files as files
from record import this_kit
from train.config import compose


def cached_in(folder: Path, compose_files: Callable[..., bytes]) -> Callable[..., bytes]:
    """Return `compose_files` with its results cached in files, which are named by a hash of all inputs."""
    paths = [*this_kit.ROOT.glob("conf/**/*.yaml"), *this_kit.ROOT.glob("train/config/*.py")]
    sources = files.digests(path.relative_to(this_kit.ROOT).as_posix() for path in sorted(paths))
    versions = [importlib.metadata.version(package) for package in ("hydra-core", "omegaconf")]

    @functools.cache
    def cached(conf: Path, *choices: str) -> bytes:
        if conf != this_kit.ROOT / "conf":
            return compose_files(conf, *choices)
        name = hashlib.sha256(json.dumps([sources, versions, choices], sort_keys=True).encode()).hexdigest()
        path = folder / name
        if not path.exists():
            unfinished = folder / f"{name}.{os.getpid()}"
            unfinished.write_bytes(compose_files(conf, *choices))
            unfinished.rename(path)
        return path.read_bytes()

    return cached


@pytest.fixture(scope="session", autouse=True)
def cache_compositions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let Hydra compose each choice of files once for all processes and runs: each takes an eighth of a second.

    OmegaConf parses each text of conf/ once in a process, which halves the time of a configuration.
    """
    folder = Path(request.config.cache.mkdir("compositions"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compose, "composed_files", cached_in(folder, compose.composed_files))
        patch.setattr(omegaconf.base, "parse", functools.cache(omegaconf.base.parse))
        yield
