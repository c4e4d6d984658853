"""A record may come from anybody: one that cannot be read is named and left out, and all others are read."""

import functools
import itertools
import json
import multiprocessing
import os
import resource
import shutil
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from analysis import audit
from analysis.__main__ import main
from analysis.study import Study
from record import schema as record
from record.schema import Epoch
from tests.helpers import ROOT, mutations
from tests.helpers.run_records import as_sweep, make_record, save

GOLDEN = ROOT / "tests/golden/results"
REAL = (
    GOLDEN / "rounds/weak_scaling/resnet50-rounds/727b06ad/r0/record.json",
    GOLDEN / "launches/strategies/tiny-nodes2-horovod/e2756c7b/r0/record.json",
)
EACH, BATCH = 1, 120  # changes of each value, files in a folder
COMMANDS = ("compare", "timeline", "summary weak_scaling")


RECORD = record.dumps(make_record())
NESTED = json.dumps(json.loads(RECORD) | {"config": "@"}).replace('"@"', "[" * 100_000 + "]" * 100_000)
CONTENTS = [
    (NESTED.encode(), "nested more than 32 levels deep"),
    (b'{"experiment":"\xff\xfe"}', "not a whole run record"),
    (RECORD.replace(b'"synthetic"', b'"\\ud800"'), "not a whole run record"),
    (b'{"schema_version":' + b"9" * 5000 + b"}", "out of range"),
    (b"\0" * 1000, "not a whole run record"),
    (b"", "not a whole run record"),
]
VALUES = [
    ("repeat", 10**12, "<= 1000000 - at `$.repeat`"),
    ("generation", "1", "Expected `int`, got `str` - at `$.generation`"),
    ("generation", 2**70, "$.generation"),
    ("swept", {"model": {}}, "$.swept"),
    ("config.measure.repeats", 10**12, "<= 1000000 - at `$.measure.repeats`"),
    ("config.measure", 3, "at `$.measure`"),
    ("config.system", "", "at `$.system`"),
    ("config.derived", [[]], "at `$.derived"),
    ("config.ranks_per_node", 1e308, "at `$.ranks_per_node`"),
]
# A pipe without a writer blocks, /dev/zero has no end; the others are a socket and a folder.
NO_FILES = [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: os.mknod(path, 0o140644), os.mkdir]


def with_value(key, value):
    """Return the file of a record in which one value is of another type or beyond its range."""
    tree = json.loads(RECORD)
    *groups, last = key.split(".")
    functools.reduce(dict.__getitem__, groups, tree)[last] = value
    return mutations.signed(tree)


def test_what_is_made_to_break_the_reader_is_named_and_the_other_record_is_read(tmp_path):
    """In one folder, in which one more has a repeat that is too large for one."""
    save(make_record(), tmp_path)
    writes = [partial(Path.write_bytes, data=content) for content, _ in CONTENTS]
    writes += [partial(Path.write_bytes, data=with_value(key, value)) for key, value, _ in VALUES] + NO_FILES
    reasons = [*(reason for *_, reason in (*CONTENTS, *VALUES)), *[""] * len(NO_FILES)]
    expected = {}
    for number, (write_file, reason) in enumerate(zip(writes, reasons, strict=True)):
        folder = tmp_path / f"weak_scaling/other/01234567/r{number}"
        folder.mkdir(parents=True)
        write_file(folder / "record.json")
        expected[str(folder / "record.json")] = reason
    (far := tmp_path / "weak_scaling/other/01234567/r999999999999").mkdir()
    (far / "record.json").touch()
    study = Study(tmp_path)
    assert study.local["record"].nunique() == 1
    assert len(study.left_out) == len(expected)
    for notice in study.left_out:
        assert expected[notice.path] in notice.reason


def test_a_folder_whose_name_is_no_text_is_named(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    save(make_record(), folder)
    [notice] = Study(folder).notices
    assert notice.path.startswith(f"{tmp_path}/caf\\xe9/weak_scaling/")
    assert notice.reason == "its path is not UTF-8; rename the folder"


def test_sections_that_are_null_are_read_as_missing(tmp_path):
    run = as_sweep(make_record(nodes=2), {1024: [[0.1] * 3] * 2})
    run.config |= {"model": None, "rounds": None}
    save(run, tmp_path)
    assert not [finding for finding in audit.record_findings(Study(tmp_path)) if finding.severity == "serious"]


def limit_memory():
    """Allow this process 2 GiB, and make an error of a number that does not fit its type."""
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    warnings.simplefilter("error", RuntimeWarning)


def write(folder, contents):
    for number, content in enumerate(contents):
        path = folder / f"weak_scaling/p{number % 9}/01234567/r{number}/record.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def fault(folder, contents):
    """Return what an audit of these records raises; None if each is read or named."""
    try:
        study = Study(write(folder, contents))
        audit.record_findings(study)
        assert len(study.records) + len(study.left_out) >= len(contents)
    except Exception:
        return traceback.format_exc(limit=-3)
    finally:
        shutil.rmtree(folder)


def faults(folder):
    """Return which changes of one value an audit or a command does not survive, with its error or status."""
    built = (
        make_record(nodes=2, epochs=[Epoch(1, 4, 2.0, 1.0, 0.5)]),
        as_sweep(make_record(nodes=2), {1024: [[0.1] * 3] * 2}),
    )
    texts = [*(path.read_bytes() for path in REAL), *map(record.dumps, built)]
    files = [*itertools.chain(*(mutations.changed(text, EACH) for text in texts))]
    errors = {}
    for begin in range(0, len(files), BATCH):
        batch = files[begin : begin + BATCH]
        if fault(folder / "batch", [content for _, content in batch]):
            errors |= {change: error for change, text in batch if (error := fault(folder / "one", [text]))}
            errors.setdefault(f"the batch from {begin}", "")
    some = write(folder / "some", [content for _, content in files[::17]])
    statuses = {command: main([*command.split(), "--results", str(some)]) for command in COMMANDS}
    return errors | {command: status for command, status in statuses.items() if status not in (0, 1, 2)}


@pytest.mark.slow
@pytest.mark.on_change_of("analysis/", "record/")
def test_a_record_with_any_value_changed_is_read_or_named_in_bounded_memory(tmp_path):
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), limit_memory) as pool:
        assert pool.submit(faults, tmp_path).result() == {}
