"""The dataset of docs/adding.md, run from the code on the page."""

import re
import types

import pytest
import yaml

from tests.helpers import ROOT
from tests.helpers.configs import with_values
from train.config.compose import load

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/adding.md").read_text().split("## Your own dataset")[1]


def test_the_page_s_example_reads_photographs(tmp_path, write_picture, check_each_once, validation_weights):
    code = re.search(r"```python\n(.*?)```", PAGE, re.S)[1]
    values = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.S)[1])
    module = types.ModuleType("train.datasets.pets")
    exec(code, module.__dict__)
    samples = {((20 * number, 100 * label + 50, 0), label) for label in range(2) for number in range(10)}
    for colour, label in samples:
        write_picture(tmp_path / ("cats", "dogs")[label] / f"{colour[0]}.png", colour)
    overrides = ["dataset=caltech256", f"dataset.data_dir={tmp_path}", "dataset.classes=2", "dataset.augmentation=null"]
    config = load([*overrides, "model=tiny", "nodes=1", "batch_per_rank=4"])
    keys = ("name", "classes", "channels", "validation_fraction", "files")
    reader = module.DATASETS["pets"](with_values(config, {f"dataset.{key}": values[key] for key in keys}), 0)
    validation = set(validation_weights([reader]))
    assert len(validation) == 4
    check_each_once([reader], samples - validation, validation)
