import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from record import schema as records
from record.schema import Failure, RecordError
from tests.helpers.bare_record import bare_record


def test_a_record_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "record.json"
    numbers = {"job_s": np.float64(2.5), "repeat": np.int64(1)}
    record = bare_record(failure=Failure("killed", rank=1, host="n2"), status="failed", **numbers)
    path.write_bytes(records.dumps(record))
    loaded = records.load(path)
    assert (loaded.ranks, loaded.failure) == (record.ranks, record.failure)
    assert (loaded.job_s, loaded.repeat) == (2.5, 1)  # plain numbers
    assert loaded.sha256 != "0" * 64


def test_the_file_follows_the_committed_json_schema():
    schema = json.loads((Path(records.__file__).parent / "record.schema.json").read_text())
    assert schema == records.json_schema(), "run: python -m record.schema > record/record.schema.json"
    jsonschema.validate(json.loads(records.dumps(bare_record())), schema)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[:80], "not a whole run record"),
        (lambda text: text.replace(b'"job_s":5.0', b'"job_s":4.0'), "edited after it was written"),
        (lambda text: text.replace(b'"job_s":5.0', b'"job_s":"5"'), r"\$\.job_s"),
        (lambda text: text.replace(b'"job_s":5.0,', b""), "job_s"),
        (lambda text: text.replace(b'"schema_version":6', b'"schema_version":1,"ranks":1'), "version 1 of its schema"),
        (lambda text: text.replace(b'"schema_version":6,', b""), "required field `schema_version`"),
        (lambda text: text.replace(b'"ranks":[{', b'"ranks":[7,{'), r"\$\.ranks\[0\]"),
        (lambda text: b"[]", "not a whole run record"),
        (lambda text: text.replace(b'"job_s":5.0', b'"job_s":4.0,"job_s":5.0'), "a key occurs twice"),
    ],
)
def test_a_record_that_is_damaged_edited_or_of_another_version_is_named(tmp_path, damage, reason):
    path = tmp_path / "record.json"
    path.write_bytes(damage(records.dumps(bare_record())))
    with pytest.raises(RecordError, match=reason) as raised:
        records.load(path)
    assert str(path) in str(raised.value)
    with pytest.raises(RecordError, match=str(path)):
        records.load_outcome(path)


def test_a_record_that_another_program_has_indented_is_the_same(tmp_path):
    text = records.dumps(bare_record())
    path = tmp_path / "record.json"
    path.write_text(json.dumps(json.loads(text), indent=2))
    assert records.load(path) == records.loads(text, "as written")
    assert records.load_outcome(path).job_s == 5.0


def test_nan_is_not_written():
    with pytest.raises(ValueError, match="JSON compliant"):
        records.dumps(bare_record(job_s=float("nan")))
