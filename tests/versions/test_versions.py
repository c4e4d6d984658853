"""Files of every version that a release wrote are read: records, references; and no released schema changes."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from analysis import TableError, audit
from analysis.commands import audit as documents
from analysis.commands import output_schema
from analysis.compare import sessions, site_reference
from analysis.study import Study
from record import migrations, this_kit
from record import schema as record

HERE = Path(__file__).parent
RELEASED = tomllib.loads((HERE / "schemas.toml").read_text())
SCHEMAS = {
    "record": (record.json_schema, migrations.OLDEST, record.SCHEMA_VERSION),
    "reference": (site_reference.json_schema, site_reference.OLDEST, site_reference.VERSION),
    "document": (output_schema.json_schema, documents.JSON_VERSION, documents.JSON_VERSION),  # written only
}


def _without_words(value: Any) -> Any:
    """Return a JSON Schema without its descriptions and titles, which are text; a property of that name is no text."""
    if isinstance(value, Mapping):
        texts = {name for name in ("title", "description") if isinstance(value.get(name), str)}
        return {name: _without_words(part) for name, part in value.items() if name not in texts}
    return [_without_words(part) for part in value] if isinstance(value, list) else value


def digest(json_schema: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON Schema, without its words."""
    return hashlib.sha256(json.dumps(_without_words(json_schema), sort_keys=True).encode()).hexdigest()


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_schema_that_was_released_does_not_change(kind):
    json_schema, oldest, newest = SCHEMAS[kind]
    released = RELEASED[kind]
    assert {*map(str, range(oldest, newest))} <= released.keys()
    if str(newest) in released:
        why = f"version {newest} of a {kind} is released: raise it, and write a migration (CONTRIBUTING.md)"
        assert digest(json_schema()) == released[str(newest)], why
    else:
        changes = (this_kit.ROOT / "CHANGELOG.md").read_text()
        version = f'{newest} = "{digest(json_schema())}"'
        assert "\n## [Unreleased]" in changes, f"a release keeps its schema: add {version} to [{kind}] in schemas.toml"


def test_words_in_a_schema_are_free_and_names_are_not():
    described = {"title": "A", "properties": {"title": {"type": "string", "description": "of a page"}}}
    assert digest(described) == digest({"properties": {"title": {"type": "string"}}})
    assert digest(described) != digest({"title": "A", "properties": {}})


RECORDS = range(migrations.OLDEST, record.SCHEMA_VERSION)


@pytest.mark.slow
@pytest.mark.parametrize("version", RECORDS)
def test_records_of_each_version_give_the_values_of_their_own_kit_and_rules_say_what_they_lack(version):
    (file,) = (HERE / "reference").glob(f"*/of-records-{version}.json")  # by the kit that wrote them
    study, reference = Study(HERE / "record" / str(version), all_rounds=True), site_reference.load(file)
    assert {run.schema_version for run in study.records.values()} == {version}
    (own,) = sessions.sessions(study.local, study.records).values()
    now = site_reference.new_reference("now", own, sessions.session_values(own), within=0.1)
    values = {(point.experiment, point.point, point.quantity): point.launches for point in now.points}
    for point in reference.points:
        # Rounds had their median; Hodges and Lehmann's estimate differs from it by less than their scatter.
        assert values[point.experiment, point.point, point.quantity] == pytest.approx(point.launches, rel=0.1)
    assert len(now.records) == len(record.find(HERE / "record" / str(version)))
    findings = {finding.rule: finding for finding in audit.record_findings(study)}  # no rule fails
    assert "records: they name no files" in findings["not_compared"].stated
    if version > 4:  # no release wrote version 4: its series had other names
        check = site_reference.check(reference, sessions.session_values(own), 0.1)
        assert [row.measured.n > 0 for row in check.comparisons] == [True] * 9


@pytest.mark.parametrize("version", range(site_reference.OLDEST, site_reference.VERSION))
def test_references_of_each_version_are_read(version):
    loaded = [site_reference.load(file) for file in (HERE / "reference" / str(version)).iterdir()]
    assert {(one.version, one.kit) for one in loaded} == {(version, "")}


def test_a_newer_version_is_refused_with_the_version_of_the_kit_that_reads_it(tmp_path):
    newer = record.SCHEMA_VERSION + 1
    text = json.dumps({"schema_version": newer, "kit_version": "9.1.0", "shape": "unknown"}).encode()
    reads = f"version {this_kit.version()} of this kit reads {migrations.OLDEST} to {newer - 1}"
    with pytest.raises(record.RecordError) as error:
        record.loads(text, "r")
    assert str(error.value) == (
        f"r: version {newer} of its schema; {reads}: read it with version 9.1.0 of the kit, or a newer one"
    )
    with pytest.raises(record.RecordError, match=f"{reads}: take a newer kit$"):
        record.loads(f'{{"schema_version": {newer}}}'.encode(), "r")
    with pytest.raises(record.RecordError, match=f"version 3 of its schema; {reads}$"):
        record.loads(b'{"schema_version": 3}', "r")
    file = tmp_path / "newer.json"
    file.write_text(json.dumps({"version": site_reference.VERSION + 1, "kit": "9.1.0"}))
    with pytest.raises(TableError, match=r"read it with version 9\.1\.0 of the kit, or a newer one"):
        site_reference.load(file)


def test_a_file_that_only_claims_an_older_version_is_named():
    with pytest.raises(record.RecordError, match="r: not a record of version 4"):
        record.loads(b'{"schema_version": 4, "config": 7}', "r")
