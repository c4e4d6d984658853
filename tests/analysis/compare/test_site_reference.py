import json
from dataclasses import replace

import jsonschema
import pytest

from analysis import TableError
from analysis.compare import site_reference
from analysis.compare.launch_values import Values
from analysis.compare.provenance import Provenances

POINT = site_reference.Point(
    "weak_scaling", "resnet50", 2, "2 nodes", "images_per_s", "abcd", "cpu", "images/s", 26.0, None, None, [26.0]
)
PROVENANCE = Provenances(["0" * 7], [""], ["6.1"], [""], {"tensorflow": ["2.18.1"]})
RECORDS = {"a/record.json": "1" * 64}


@pytest.fixture
def file(tmp_path):
    path = site_reference.path("here", tmp_path)
    content = site_reference.Reference("here", "2026-11-01", "2026-11-02", 0.05, [POINT], PROVENANCE, RECORDS)
    path.write_bytes(site_reference.dumps(content))
    return path


def test_what_is_written_is_read(file):
    result = site_reference.load(file)
    assert (result.points, result.made, result.records) == ([POINT], PROVENANCE, RECORDS)


def test_the_schema_beside_the_module_is_that_of_the_file(file):
    schema = json.loads(site_reference.SCHEMA.read_text())
    assert schema == json.loads(json.dumps(site_reference.json_schema()))
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
        site_reference.load(file)


def test_a_reference_that_is_not_there_names_those_that_are(file):
    with pytest.raises(TableError, match="references that are kept: here; `make reference NAME=there` writes one"):
        site_reference.load(site_reference.path("there", file.parent))


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b"])
def test_a_name_that_is_no_file_name(name):
    with pytest.raises(TableError, match="allowed are letters, digits"):
        site_reference.path(name)


def stored(*machines: str, day: str = "2026-11-01", commit: str = "0" * 7) -> site_reference.Reference:
    points = [replace(POINT, machine=machine, series=machine) for machine in machines]
    provenance = replace(PROVENANCE, commit=[commit])
    return site_reference.Reference("all", day, day, 0.05, points, provenance, {f"{'-'.join(machines)}.json": "1" * 64})


def test_a_reference_keeps_the_values_of_other_systems():
    both = site_reference.with_other_systems(stored("b", day="2026-11-20", commit="b" * 7), stored("a"))
    assert (both.systems, both.first_day, both.last_day) == (["a", "b"], "2026-11-01", "2026-11-20")
    assert (both.made.commit, both.records.keys()) == (["0" * 7, "b" * 7], {"a.json", "b.json"})
    again = stored("a", day="2026-12-01")
    assert site_reference.with_other_systems(again, stored("a")) == again


def test_a_system_is_compared_with_its_own_values():
    both = site_reference.with_other_systems(stored("b"), stored("a"))
    values = {both.points[1].key: Values({1: [26.0]})}
    checked = site_reference.check(both, values, 0.05)
    assert (len(checked.comparisons), checked.other_systems) == (1, ["a"])
    for elsewhere in ({}, {replace(POINT, machine="c").key: Values({1: [26.0]})}):
        unknown = site_reference.check(both, elsewhere, 0.05)
        assert (len(unknown.comparisons), unknown.other_systems) == (2, [])
