"""What Hydra composes and OmegaConf parses, kept for the tests whose module or conftest.py imports the fixture."""

import functools
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import omegaconf.base
import pytest

from train.config import compose
from train.record import files


def cached_in(folder: Path, composed: Callable[..., bytes]) -> Callable[..., bytes]:
    """`compose.composed_files` that keeps its answers as files: each is named after all that it is made from."""
    made_from = {
        name: digest for name, digest in files.source_files().items() if name.startswith(("conf/", "train/config/"))
    }
    versions = [importlib.metadata.version(package) for package in ("hydra-core", "omegaconf")]

    @functools.cache
    def once(conf: Path, *chosen: str) -> bytes:
        if conf != files.ROOT / "conf":
            return composed(conf, *chosen)
        name = hashlib.sha256(json.dumps([made_from, versions, chosen], sort_keys=True).encode()).hexdigest()
        path = folder / name
        if not path.exists():
            writing = folder / f"{name}.{os.getpid()}"
            writing.write_bytes(composed(conf, *chosen))
            writing.rename(path)
        return path.read_bytes()

    return once


@pytest.fixture(scope="session", autouse=True)
def cache_compositions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have Hydra compose each choice of files once for all processes and runs: each takes an eighth of a second.

    OmegaConf parses each text of conf/ once in a process, and not at each configuration: half of what one takes.
    """
    folder = Path(request.config.cache.mkdir("compositions"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compose, "composed_files", cached_in(folder, compose.composed_files))
        patch.setattr(omegaconf.base, "parse", functools.cache(omegaconf.base.parse))
        yield
