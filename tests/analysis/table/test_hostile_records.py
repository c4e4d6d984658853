"""A record may come from anybody: one that cannot be read is named and left out, and keeps no other from being read."""

import json
import os
import random

import numpy as np
import pytest

from analysis import audit
from analysis.__main__ import main
from analysis.study import Study
from analysis.table import loading
from tests.helpers import mutations
from tests.helpers.noisy_records import KINDS
from tests.helpers.own_records import make_record, save
from train.record import record


@pytest.fixture
def folder(tmp_path):
    """A folder of results with one record, and the place of another."""
    save(make_record(), tmp_path)
    (tmp_path / "weak_scaling/other/01234567/r0").mkdir(parents=True)
    return tmp_path


def place(folder):
    return folder / "weak_scaling/other/01234567/r0/record.json"


def left_out(folder):
    """The reason why the other record is left out, if the first one is read."""
    study = Study(folder)
    audit.launch_findings(study)
    assert study.local["record"].nunique() == 1
    [notice] = study.left_out
    assert notice.path == str(place(folder))
    return notice.reason


def nested(depth):
    return json.dumps(json.loads(record.dumps(make_record())) | {"config": "@"}).replace(
        '"@"', "[" * depth + "]" * depth
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (nested(100_000).encode(), "recursion"),
        (b'{"experiment":"\xff\xfe"}', "not a whole run record"),
        (record.dumps(make_record()).replace(b'"synthetic"', b'"\\ud800"'), "not a whole run record"),
        (b'{"schema_version":' + b"9" * 5000 + b"}", "out of range"),
        (b"\0" * 1000, "not a whole run record"),
    ],
)
def test_a_file_that_is_made_to_break_the_reader(folder, content, reason):
    place(folder).write_bytes(content)
    assert reason in left_out(folder)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"repeat": 10**12}, "<= 1000000 - at `$.repeat`"),
        ({"repeat": -1}, ">= 0 - at `$.repeat`"),
        ({"generation": "1"}, "Expected `int`, got `str` - at `$.generation`"),
        ({"generation": 2**70}, "$.generation"),
        ({"swept": {"model": {}}}, "$.swept"),
        ({"config.measure.repeats": 10**12}, "<= 1000000 - at `$.measure.repeats`"),
        ({"config.measure.repeats": "3"}, "Expected `int`, got `str` - at `$.measure.repeats`"),
        ({"config.measure": 3}, "at `$.measure`"),
        ({"config.distribution": "x"}, "at `$.distribution`"),
        ({"config.system": ""}, "at `$.system`"),
        ({"config.derived": [[]]}, "at `$.derived"),
        ({"config.ranks_per_node": 1e308}, "at `$.ranks_per_node`"),
        ({"config.nodes": 2**70}, "$.nodes"),
    ],
)
def test_a_value_of_another_type_or_beyond_its_range(folder, change, reason):
    tree = json.loads(record.dumps(make_record()))
    [(key, value)] = change.items()
    *path, last = key.split(".")
    holder = tree
    for step in path:
        holder = holder[step]
    holder[last] = value
    place(folder).write_bytes(mutations.signed(tree))
    assert reason in left_out(folder)


@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "folder"])
def test_what_is_no_regular_file(folder, kind):
    """A pipe without a writer would be waited for, /dev/zero has no end."""
    path = place(folder)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "socket":
        os.mknod(path, 0o140644)
    else:
        path.mkdir()
    assert left_out(folder)


@pytest.mark.slow
def test_a_file_without_end_is_not_read(folder):
    with place(folder).open("wb") as file:
        file.truncate(10**12)  # it takes no room on the disk
    assert left_out(folder) == "1000.0 GB given, must be at most 2 GB"


def test_a_folder_whose_name_is_no_text_is_named(folder):
    """Its name would stand in tables, pages and JSON."""
    save(make_record(), folder / os.fsdecode(b"caf\xe9"))
    [notice] = Study(folder / os.fsdecode(b"caf\xe9")).notices
    assert notice.path.startswith(f"{folder}/caf\\xe9/weak_scaling/")
    assert notice.reason == "its path is not UTF-8; rename the folder"


def test_a_folder_of_a_huge_repeat_ends(folder):
    save(make_record(), folder / "x")
    far = place(folder).parent.with_name("r999999999999")
    far.mkdir()
    (far / "record.json").write_bytes(b"")
    audit.record_findings(Study(folder))


@pytest.mark.slow
def test_random_changes_give_no_traceback(tmp_path):
    """Those that are not noticed are read by the commands too, all in one folder."""
    rng = random.Random(0)
    texts = [record.dumps(make(np.random.default_rng(1))) for make in KINDS.values()]
    for number in range(300):
        path = tmp_path / f"weak_scaling/p{number % 20}/01234567/r{number}/record.json"
        path.parent.mkdir(parents=True)
        content, what = mutations.mutated(rng.choice(texts), rng)
        path.write_bytes(content)
        try:
            loading.local(path)
        except Exception as error:
            raise AssertionError(what) from error
    audit.record_findings(Study(tmp_path))
    for command in ("compare", "timeline"):
        assert main([command, "--results", str(tmp_path)]) in (0, 1, 2)
