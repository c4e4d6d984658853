from pathlib import Path

import pytest

from analysis.audit import record_findings
from analysis.study import Study
from record.schema import Failure
from tests.helpers.run_records import make_record, make_rounds, save
from tests.helpers.studies import curve_in_rounds


def alleged(study):
    """Return the findings in records, without what records of tests lack: counters, files beside them, a ledger."""
    return [f for f in record_findings(study) if f.rule not in ("not_recorded", "not_compared")]


def test_a_record_that_cannot_be_read_is_a_serious_finding(results):
    results.add(nodes=4)
    cut = results.add()
    cut.write_bytes(cut.read_bytes()[:-100])
    findings = [(finding.rule, finding.severity, finding.place) for finding in alleged(Study(results.folder))]
    assert ("unreadable_record", "serious", str(cut)) in findings


@pytest.mark.slow
def test_a_failed_run_with_part_of_its_ranks_is_named_with_where_it_failed(results):
    results.add(nodes=1)
    run = make_record(nodes=4, failure=Failure("killed by signal 9", rank=3, host="host1", phase="timed", step=7))
    run.ranks = run.ranks[:2]
    run.ranks[1].step_times_s, run.ranks[1].phases_s, run.ranks[1].peak_memory_bytes = [], {"start": 1.0}, 0
    path = save(run, results.folder)
    empty = make_record(nodes=8, failure=Failure("no rank started"))
    empty.ranks, empty.environment = [], None
    save(empty, results.folder)
    save(make_rounds([(0.5, 0.8, 0.55)] * 6, failure=Failure("one was killed", rank=1)), results.folder)
    result = {f.stated: f for f in alleged(Study(results.folder)) if f.rule == "failed_run"}
    part = "killed by signal 9 (rank 3, host host1, phase timed, step 7)"
    assert sorted(result) == [part, "no rank started", "one was killed (rank 1)"]
    assert Path(result[part].place) == path
    assert result["one was killed (rank 1)"].meaning == "Its 6 whole rounds count."


@pytest.mark.slow
def test_a_clean_study_in_rounds_has_no_finding(results):
    for model in ("resnet50", "inceptionv3"):
        curve_in_rounds(results.folder, model)
    assert alleged(Study(results.folder)) == []


@pytest.mark.slow
def test_what_is_beyond_ideal_or_no_faster_in_rounds_is_so_with_its_whole_interval(results):
    def study(experiment, ratios):
        rounds = [(0.5, 2 * 0.5 / ratio, 0.55) for ratio in ratios]
        save(make_rounds(rounds, experiment=experiment), results.folder)

    study("just_ideal", [1.98, 2.03, 1.99, 2.04, 2.0, 2.05])
    study("beyond", [2.2, 2.3, 2.21, 2.31, 2.22, 2.32])
    study("as_slow", [0.98, 1.01, 0.97, 1.02, 0.96, 1.0])
    study("slower", [0.8, 0.9, 0.81, 0.91, 0.82, 0.92] * 2)
    study("too_few", [0.8] * 5)
    result = alleged(Study(results.folder))
    rules = {finding.rule: finding for finding in result}
    assert len(result) == len(rules) == 3
    assert {finding.report for finding in result} == {"local"}
    assert "/too_few/" in rules["no_interval"].place
    assert "/beyond/" in rules["beyond_ideal"].place
    assert rules["beyond_ideal"].off == pytest.approx(0.13, abs=5e-4)  # the median of the ratios is 2.26
    assert "/slower/" in rules["more_ranks_no_faster"].place
