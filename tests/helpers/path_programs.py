"""Programs that replace others on the PATH."""

from pathlib import Path


def write_program(path: Path, text: str) -> Path:
    """Write an executable file: lines of shell, unless its first line names another interpreter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
