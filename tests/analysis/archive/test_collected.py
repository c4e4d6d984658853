import gzip
import hashlib
import json

import pytest

from analysis import TableError
from analysis.archive import collected
from analysis.study import Study
from analysis.timeline.launch import find_launches
from tests.helpers.own_records import make_record, save
from tests.helpers.timelines import launch_with_timeline, load
from train.record import files, record

FILES = ["horovod-timeline.json", "operations-0.json.gz", "operations-1.json.gz"]


def names(result):
    return sorted(place.name for place in result.attachments)


def test_what_a_launch_left_beside_its_record_comes_along(tmp_path):
    save(make_record(), tmp_path)
    path = launch_with_timeline(tmp_path)
    result = collected.collect(tmp_path, scrubbed=False)
    assert len(result.records) == 2
    assert {tmp_path / place for place in result.attachments} == {path.with_name(name) for name in FILES}
    assert result.left_out == []


def test_a_file_that_is_missing_or_not_that_of_the_record_stays_out_and_is_named(tmp_path):
    path = launch_with_timeline(tmp_path)
    path.with_name("operations-0.json.gz").unlink()
    path.with_name("operations-1.json.gz").write_bytes(b"another")
    result = collected.collect(tmp_path, scrubbed=False)
    assert names(result) == ["horovod-timeline.json"]
    missing, other = result.left_out
    assert "operations-0.json.gz: No such file" in missing
    assert "operations-1.json.gz: not the file of the record beside it" in other


def test_a_name_that_leads_elsewhere_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("s")
    run = make_record()
    run.attachments = {"../../../../../secret": hashlib.sha256(b"s").hexdigest()}
    save(run, tmp_path / "results")
    result = collected.collect(tmp_path / "results", scrubbed=False)
    assert (result.attachments, result.left_out) == ({}, [])


def edited(path, name, content):
    """Writes a file beside a record, and its digest into the record."""
    run = record.load(path)
    path.with_name(name).write_bytes(content)
    run.attachments[name] = hashlib.sha256(content).hexdigest()
    path.write_bytes(record.dumps(run))


def test_scrubbed_files_are_those_that_name_nobody(tmp_path):
    path = launch_with_timeline(tmp_path)
    result = collected.collect(tmp_path, scrubbed=True)
    assert names(result) == FILES
    output = {"began_at": 1.0, "operations": [["worker on host1", "Conv2D", 10.0, 300.0]]}
    edited(path, "operations-1.json.gz", gzip.compress(json.dumps(output).encode()))
    result = collected.collect(tmp_path, scrubbed=True)
    assert names(result) == FILES[:2]
    [reason] = result.left_out
    assert "operations-1.json.gz: it has the name of a host or a user" in reason


def test_the_records_that_are_scrubbed_still_have_the_digests_of_their_files(tmp_path):
    launch_with_timeline(tmp_path / "from")
    result = collected.collect(tmp_path / "from", scrubbed=True)
    for place, content in (result.records | result.attachments).items():
        files.write_once(tmp_path / "to" / place, content)
    [path] = find_launches(Study(tmp_path / "to").records)
    assert len(load(path).ranks) == 2


def test_without_a_record_there_is_nothing_to_pack(tmp_path):
    with pytest.raises(TableError, match="no run record in it to pack"):
        collected.collect(tmp_path, scrubbed=False)
