from collections import Counter
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.study import Study, record_files
from analysis.table import loading
from record import schema as record
from record.schema import Failure
from tests.helpers.drawn_figures import draw_quickly
from tests.helpers.studies import curve_in_rounds
from tests.helpers.timelines import launch_with_timeline


@pytest.mark.slow
def test_a_command_decodes_each_record_once(results, tmp_path, monkeypatch):
    """The records are those of a curve in rounds, of a point alone and of a timeline."""
    curve_in_rounds(results.folder)
    launch_with_timeline(results.folder)
    times, loads = Counter(), record.loads
    monkeypatch.setattr(record, "loads", lambda text, where: times.update([where]) or loads(text, where))
    draw_quickly(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for command in ("report", "audit results", "diagnose weak_scaling --draw", "history weak_scaling", "timeline"):
        times.clear()
        folder = [] if command.startswith("audit") else ["--results", "results"]
        assert main([*command.split(), *folder]) == 0, command
        assert times == dict.fromkeys(map(str, record_files(Path("results"))), 1), command


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
