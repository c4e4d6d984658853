from collections import Counter

import pytest

from analysis.__main__ import main
from analysis.study import Study, record_files
from analysis.table import loading
from record import schema as record
from record.schema import Failure
from tests.helpers.drawn_figures import draw_quickly
from tests.helpers.run_records import make_record, save
from tests.helpers.studies import curve_in_rounds
from tests.helpers.timelines import launch_with_timeline


@pytest.mark.slow
def test_a_command_decodes_each_record_once(results, tmp_path, monkeypatch):
    """The records are those of a curve in rounds, the points of another curve, and a timeline."""
    curve_in_rounds(results.folder)
    for repeat in range(3):
        for nodes in (1, 2):
            save(make_record(model="vgg16", nodes=nodes, repeat=repeat), results.folder)
    launch_with_timeline(results.folder)
    folder, out = str(results.folder), str(tmp_path)
    times, loads = Counter(), record.loads

    def counted(text, where):
        times.update([where])
        return loads(text, where)

    monkeypatch.setattr(record, "loads", counted)
    draw_quickly(monkeypatch)
    for command in (
        ["report", "--out", f"{out}/report.html", "--results", folder],
        ["audit", folder],
        ["diagnose", "weak_scaling", "--draw", "--out", out, "--results", folder],
        ["history", "weak_scaling", "--results", folder],
        ["timeline", "--out", out, "--results", folder],
    ):
        times.clear()
        assert main(command) == 0, command
        assert times == dict.fromkeys(map(str, record_files(results.folder)), 1), command


def test_nothing_is_loaded_before_it_is_asked_for(results, monkeypatch):
    results.add()
    study = Study(results.folder)
    monkeypatch.setattr(loading, "published", lambda: pytest.fail("nobody asked for the published numbers"))
    assert study.local["record"].nunique() == 1
    assert study.local is study.local


def test_records_are_there_by_path_also_those_that_are_not_in_the_table(results):
    old, new = results.add(generation=0), results.add(generation=1)
    failed = results.add(generation=2, failure=Failure("out of memory"))
    truncated = results.add(nodes=4)
    truncated.write_bytes(truncated.read_bytes()[:-20])
    study = Study(results.folder)
    assert set(study.local["record"]) == {str(new)}  # the newest that is complete
    assert [*study.records] == [*map(str, (old, new, failed))]
    assert study.records[str(new)] is study.records[str(new)]
    assert [notice.path for notice in (*study.left_out, *study.failed)] == [str(truncated), str(failed)]
    assert Study(results.folder, every_generation=True).local["record"].nunique() == 2


def test_more_records_than_stay_in_memory_are_the_same(results, monkeypatch):
    for nodes in (1, 2, 4):
        results.add(nodes=nodes)
    records = dict(Study(results.folder).records)
    monkeypatch.setattr(loading, "_DECODED", 1)
    assert dict(Study(results.folder).records) == records


def test_records_are_found_at_any_depth(results, tmp_path):
    path = results.add()
    assert record_files(tmp_path) == record_files(results.folder / "weak_scaling") == record_files(path) == [path]
    assert record_files(tmp_path / "missing") == []
