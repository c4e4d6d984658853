"""The version of this copy of the kit."""

import functools
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def version(root: Path = ROOT) -> str:
    """Return the version of the kit, as pyproject.toml has it."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])
