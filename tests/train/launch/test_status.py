import shutil
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from record import ledger, protocol
from tests.helpers.run_records import make_record, save
from train.launch.batch import Submission
from train.launch.status import STATES, homes, state_counts, state_of, state_table, under_way
from train.launch.supervise import presence


@pytest.mark.parametrize(
    ("begun", "recorded", "job", "state"),
    [
        (False, False, None, "to do"),
        (False, False, "PENDING", "queued"),
        (False, False, "RUNNING", "queued"),  # its turn has not come
        (True, False, "RUNNING", "running"),
        (True, False, None, "failed"),  # nothing runs that could still write its record
        (True, True, None, "failed"),  # the record is no complete one
    ],
)
def test_the_state_of_a_run_follows_from_its_files_and_the_queue(tmp_path, begun, recorded, job, state):
    folder = tmp_path / "r0"
    if begun:
        folder.mkdir()
    if recorded:
        (folder / "record.json").write_text("{}")
    assert state_of([folder] * begun, job) == state


def test_only_planned_runs_count_that_their_job_has_not_skipped(tmp_path):
    """The job made one launch of a curve, had no time for two, and was to make one of a single point."""
    curve, single = (tmp_path / "weak_scaling" / name / "0a1b2c3d" for name in ("tiny-rounds", "tiny-nodes1"))
    save(make_record(nodes=1), tmp_path).parent.rename(tmp_path / "r0")
    for home in (curve, single):
        home.mkdir(parents=True)
    (tmp_path / "r0").rename(curve / "r0")
    for repeat in (1, 2):
        ledger.append(curve, ledger.Line("skip", repeat, reason="the time is over"))
    jobs = [Submission("7", 2, {str(curve): [0, 1, 2], str(single): [0]})]
    states = state_counts(tmp_path, jobs, {})
    assert (states[curve], states[single]) == ({"done": 1}, {"to do": 1})
    # A job with a larger budget is to make them.
    ledger.append(curve, ledger.Line("begin", 1, 1))
    assert state_counts(tmp_path, jobs, {})[curve] == {"done": 1, "to do": 1}


@pytest.mark.parametrize("columns", [40, 160])
def test_no_state_falls_away_on_a_narrow_terminal_and_names_are_folded(columns):
    long = Path("results/weak_scaling/inceptionv3-controllermpi-cycle_time_ms20-rounds")
    states = Counter({state: 10 + number for number, state in enumerate(STATES)})
    console = Console(width=columns)
    with console.capture() as output:
        console.print(state_table({long / "0a1b2c3d": states, long / "4e5f6a7b": Counter(done=2)}))
    lines, row = output.get().splitlines(), "10 done, 11 running, 12 queued, 13 failed, 14 to do"
    assert max(map(len, lines)) <= columns
    assert {*output.get().split()} >= {*row.split()}
    assert "…" not in output.get()
    if columns == 160:
        assert f"0a1b2c3d  {row}" in lines[1]
        assert lines[-1].split()[:3] == ["all", "12", "done,"]


def test_a_run_of_a_launcher_at_work_is_running(tmp_path):  # its progress: tests/end_to_end/test_epochs.py
    home = tmp_path / "weak_scaling" / "tiny-nodes1" / "0a1b2c3d"
    folder = home / "r0.2"
    (home / "r0").mkdir(parents=True)
    assert state_of([home / "r0", folder], None) == "failed"
    folder.mkdir()
    protocol.write_assignment(folder, protocol.Assignment({}, "0a1b2c3d", 0, {}, False, False))
    presence.note_begin(folder)
    shutil.copytree(folder, home / "r0.2 (copy)")
    assert homes(tmp_path) == [home]
    assert state_of([home / "r0", folder], None) == "running"
    assert under_way([home], 1010.0) == ["weak_scaling tiny-nodes1 r0.2: starting"]
    (folder / "run.json").write_text("{")
    [output] = under_way([home], 1012.0)
    assert "its files cannot be read" in output
    presence.note_end(folder)
    assert under_way([home], 1012.0) == []
    assert state_of([home / "r0", folder], None) == "failed"
