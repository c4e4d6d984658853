"""The dataset that docs/adding.md shows, made of the page's own lines."""

import re
import types
from pathlib import Path

import pytest
import yaml

from tests.helpers.configs import with_values
from train.config.compose import load

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[3] / "docs/adding.md").read_text().split("## Your own dataset")[1]


def test_the_page_s_example_reads_photographs(tmp_path, picture, each_once, validated):
    code = re.search(r"```python\n(.*?)```", PAGE, re.S)[1]
    values = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.S)[1])
    module = types.ModuleType("train.datasets.pets")
    exec(code, module.__dict__)
    samples = {((20 * number, 100 * label + 50, 0), label) for label in range(2) for number in range(10)}
    for colour, label in samples:
        picture(tmp_path / ("cats", "dogs")[label] / f"{colour[0]}.png", colour)
    given = ["dataset=caltech256", f"dataset.data_dir={tmp_path}", "dataset.classes=2", "dataset.augmentation=null"]
    config = load([*given, "model=tiny", "nodes=1", "batch_per_rank=4"])
    keys = ("name", "classes", "channels", "validation_fraction", "files")
    reader = module.DATASETS["pets"](with_values(config, {f"dataset.{key}": values[key] for key in keys}), 0)
    validation = set(validated([reader]))
    assert len(validation) == 4
    each_once([reader], samples - validation, validation)
