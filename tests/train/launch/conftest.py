import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import path_programs
from train.launch.start import containers


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write a program into the only folder on PATH. It prints a text, or fails with it.

    The program writes its arguments into the file `arguments` of this folder.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def write(name: str, output: str = "", status: int = 0) -> Path:
        containers.image_digest.cache_clear()
        containers.mpi_implementation.cache_clear()
        prints = f"printf '%s\\n' {shlex.quote(output)} >&{2 if status else 1}"
        return path_programs.write_program(folder / name, f'echo "$@" >{folder}/arguments\n{prints}\nexit {status}')

    yield write
    containers.mpi_implementation.cache_clear()
