"""The dataset that docs/adding.md shows, made of the page's own lines."""

import re
import types
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.helpers.configs import changed

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[3] / "docs/adding.md").read_text().split("## Your own dataset")[1]


def test_the_page_s_example_reads_photographs(tmp_path, picture, configure, seen):
    code = re.search(r"```python\n(.*?)```", PAGE, re.S)[1]
    values = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.S)[1])
    module = types.ModuleType("train.datasets.pets")
    exec(code, module.__dict__)
    for label, name in enumerate(("cats", "dogs")):
        for number in range(10):
            picture(tmp_path / name / f"{number}.png", (20 * number, 100 * label + 50, 0))
    config = configure("caltech256", tmp_path, "nodes=1", "dataset.classes=2", "batch_per_rank=4")
    keys = ("name", "classes", "channels", "validation_fraction", "files")
    config = changed(config, {f"dataset.{key}": values[key] for key in keys})
    reader = module.DATASETS["pets"](config, 0)
    trained, validated = seen(reader.training(0)), seen(reader.validation())
    counted = Counter(trained.colours)
    for colour, weight in zip(validated.colours, validated.weights, strict=True):
        counted[colour] += weight
    assert len(trained.colours) == 16
    assert +counted == {(20 * number, 100 * label + 50, 0): 1 for label in range(2) for number in range(10)}
    assert trained.labels == [(green - 50) // 100 for _, green, _ in trained.colours]
