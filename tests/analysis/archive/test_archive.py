import gzip
import hashlib

import pytest

from analysis import TableError, archive
from analysis.study import Study
from analysis.timeline import find_launches
from record import run_files as files
from record import schema as record
from tests.helpers.run_records import make_record, save
from tests.helpers.timelines import launch_with_timeline, load

FILES = ["horovod-timeline.json", "operations-0.json.gz", "operations-1.json.gz"]


def names(result):
    return sorted(path.name for path in result.attachments)


def test_what_a_launch_left_beside_its_record_comes_along(tmp_path):
    save(make_record(), tmp_path)
    path = launch_with_timeline(tmp_path)
    result = archive.collect(tmp_path, scrubbed=False)
    assert len(result.records) == 2
    assert {tmp_path / attachment for attachment in result.attachments} == {path.with_name(name) for name in FILES}
    assert result.left_out == []
    # A file that is missing or does not belong to the record is left out and named.
    path.with_name("operations-0.json.gz").unlink()
    path.with_name("operations-1.json.gz").write_bytes(b"another")
    result = archive.collect(tmp_path, scrubbed=False)
    assert names(result) == FILES[:1]
    missing, changed = result.left_out
    assert "operations-0.json.gz: No such file" in missing
    assert "operations-1.json.gz: not the file of the record beside it" in changed


def test_a_name_that_leads_elsewhere_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("s")
    run = make_record()
    run.attachments = {"../../../../../secret": hashlib.sha256(b"s").hexdigest()}
    save(run, tmp_path / "results")
    result = archive.collect(tmp_path / "results", scrubbed=False)
    assert (result.attachments, result.left_out) == ({}, [])


def test_scrubbed_files_are_those_that_name_nobody_and_records_have_their_digests(tmp_path):
    path = launch_with_timeline(tmp_path / "from")
    result = archive.collect(tmp_path / "from", scrubbed=True)
    assert names(result) == FILES
    for relative, content in (result.records | result.attachments).items():
        files.write_file(tmp_path / "to" / relative, content)
    [copy] = find_launches(Study(tmp_path / "to").records)
    assert len(load(copy).ranks) == 2
    content = gzip.compress(b'{"began_at": 1.0, "operations": [["worker on host1", "Conv2D", 10.0, 300.0]]}')
    path.with_name(FILES[2]).write_bytes(content)
    run = record.load(path)
    run.attachments[FILES[2]] = hashlib.sha256(content).hexdigest()
    path.write_bytes(record.dumps(run))
    result = archive.collect(tmp_path / "from", scrubbed=True)
    assert names(result) == FILES[:2]
    [reason] = result.left_out
    assert f"{FILES[2]}: it has the name of a host or a user" in reason


def test_without_a_record_there_is_nothing_to_pack(tmp_path):
    with pytest.raises(TableError, match="no run record in it to pack"):
        archive.collect(tmp_path, scrubbed=False)
