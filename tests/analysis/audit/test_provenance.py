from pathlib import Path

import pytest

from analysis.audit import launches, provenance
from tests.helpers.run_records import make_record, record_path
from train.record.record import PlanPosition


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["r0", "r1.2"], [("note", "no record of r1, generation 1")]),
        (["r0", "r1", "r1.2"], []),
        (["r0", "r1", "r4"], [("warning", "no record of r2, r3")]),
    ],
)
def test_a_repeat_without_a_record_is_missed(tmp_path, names, expected):
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text("{}")
    assert [(finding.severity, finding.stated) for finding in provenance.missing([tmp_path])] == expected


PLAN = [(1, 0), (2, 0), (2, 1), (1, 1), (1, 2), (2, 2)]  # nodes and repeat, in the order of the launches


def write(folder, positions, plan=PLAN, failed=(), **run):
    """Create the record files of the launches at these positions of a plan; return the complete launches."""
    complete = []
    for position in positions:
        record = make_record(nodes=plan[position][0], repeat=plan[position][1], **run)
        record.order = PlanPosition(0, position, len(plan))
        path = folder / record_path(record)
        path.parent.mkdir(parents=True)
        path.touch()
        if position not in failed:
            complete.append(launches.launch(record, str(path)))
    return complete


def missing(runs):
    folders = {Path(run.path).parents[1] for run in runs}
    return [*provenance.missing_run(runs), *provenance.missing(folders)]


@pytest.mark.parametrize("after", range(1, 7))
@pytest.mark.parametrize("failed", [(), (0,), (1, 2), (2, 3)])
def test_an_experiment_that_was_interrupted_or_failed_in_part_is_not_reported_to_lack_launches(tmp_path, after, failed):
    findings = missing(write(tmp_path, range(after), failed=failed))
    assert {finding.severity for finding in findings} <= (set() if after == 6 else {"note"})


@pytest.mark.parametrize("removed", [*((position,) for position in range(6)), (4, 5), (3, 4, 5), (0, 3, 4), (1, 2)])
@pytest.mark.parametrize("failed", [(), (2,)])
def test_launches_that_were_removed_are_missed(tmp_path, removed, failed):
    """The finding is a warning if a later launch remains, else a note."""
    remaining = [position for position in range(6) if position not in removed]
    findings = missing(write(tmp_path, remaining, failed=failed))
    last = max(position for position in remaining if position not in failed)
    assert any(finding.severity == "warning" for finding in findings) == (min(removed) < last)
    assert findings


def test_the_launches_that_are_missed_are_named(tmp_path):
    (finding,) = provenance.missing_run(write(tmp_path, [0, 1, 2, 3, 5]))
    assert finding.place == str(tmp_path / "weak_scaling")
    assert "1 launch that came before others" in finding.stated
    assert finding.stated.endswith("without one are resnet50_nodes=1 r2")
    (finding,) = provenance.missing_run(write(tmp_path / "other", [0, 1, 2, 3, 4]))
    assert (finding.stated, finding.severity) == ("no record of resnet50_nodes=2 r2", "note")


def test_launches_of_another_plan_or_that_are_dropped_are_not_missed(tmp_path):
    one_node, whole = [(1, 0), (1, 1), (1, 2)], tmp_path / "whole"
    assert not missing(write(whole, range(3), one_node) + write(whole, [1, 2, 5]))  # first one node alone, then two
    runs = write(tmp_path / "two", range(6)) + write(tmp_path / "two", [0, 1, 2, 5], model="vgg16")
    assert not [finding for finding in provenance.missing_run(runs) if finding.severity == "warning"]
    assert not missing(write(tmp_path / "compete", [0, 1, 2, 3, 5], **{"measure.compete": True}))
