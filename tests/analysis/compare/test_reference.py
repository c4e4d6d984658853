import json

import jsonschema
import pytest

from analysis import TableError
from analysis.compare import reference
from analysis.compare.provenance import Provenances

POINT = reference.Point(
    "weak_scaling", "resnet50", 2, "2 nodes", "images_per_s", "abcd", "cpu", "images/s", 26.0, None, None, [26.0]
)
PROVENANCE = Provenances(["0" * 7], [""], ["6.1"], [""], {"tensorflow": ["2.18.1"]})
RECORDS = {"a/record.json": "1" * 64}


@pytest.fixture
def file(tmp_path):
    path = reference.path("here", tmp_path)
    content = reference.Reference("here", "2026-11-01", "2026-11-02", 0.05, [POINT], PROVENANCE, RECORDS)
    path.write_bytes(reference.dumps(content))
    return path


def test_what_is_written_is_read(file):
    result = reference.load(file)
    assert (result.points, result.made, result.records) == ([POINT], PROVENANCE, RECORDS)


def test_the_schema_beside_the_module_is_that_of_the_file(file):
    schema = json.loads(reference.SCHEMA.read_text())
    assert schema == json.loads(json.dumps(reference.json_schema()))
    jsonschema.validate(json.loads(file.read_text()), schema)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('"within": 0.05', '"within": 0.25', r"edited after it was .*make reference NAME=here WITHIN=0.25 FORCE=1"),
        ('"ranks": 2', '"ranks": "two"', r"not a reference: .*ranks"),
        ("{", "", "not a reference"),
    ],
)
def test_a_file_that_was_edited_or_is_none(file, old, new, error):
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(TableError, match=error):
        reference.load(file)


def test_a_reference_that_is_not_there_names_those_that_are(file):
    with pytest.raises(TableError, match="references that are kept: here; `make reference NAME=there` writes one"):
        reference.load(reference.path("there", file.parent))


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b"])
def test_a_name_that_is_no_file_name(name):
    with pytest.raises(TableError, match="allowed are letters, digits"):
        reference.path(name)
