import re
from pathlib import Path

import pytest

import analysis
from analysis import TableError, thresholds


def test_every_threshold_is_used_and_every_one_that_is_used_is_there():
    sources = (path.read_text() for path in Path(analysis.__file__).parent.rglob("*.py"))
    assert {name for text in sources for name in re.findall(r'limit\("(\w+)"\)', text)} == set(
        thresholds.read_thresholds()
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[drift]\nvalue = 1\nunit = 's'\nreason = 'because'", "missing required field `source`"),
        ("[drift]\nvalue = 1\nunit = 's'\nreason = ''\nsource = 'x'", "length >= 1"),
        ("[drift", "not a readable list of thresholds"),
    ],
)
def test_a_threshold_has_its_unit_its_reason_and_its_source(tmp_path, text, message):
    path = tmp_path / "t.toml"
    path.write_text(text)
    with pytest.raises(TableError, match=message):
        thresholds.read_thresholds(path)
