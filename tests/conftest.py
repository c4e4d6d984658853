"""What all tests share."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave unread what is slow as a whole where slow tests are not asked for: TensorFlow takes seconds to import."""
    if "not slow" not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    return "\npytestmark = pytest.mark.slow" in collection_path.read_text() or None
