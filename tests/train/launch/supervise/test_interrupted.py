"""The launcher is killed while its ranks, which measure nothing, wait for their end."""

import subprocess
import sys
from pathlib import Path

import pytest

from analysis.table.record_checks import faults
from analysis.verify import on_disk, verify
from record import protocol
from tests.helpers import ROOT
from tests.helpers.kit import records, wait_for
from tests.helpers.launch_plans import make_plan
from train.launch.plan.planned_runs import Run
from train.launch.supervise.interrupted import record_interrupted

pytestmark = pytest.mark.slow

OVERRIDES = ("experiment=weak_scaling", "model=tiny", "nodes=2", "measure.repeats=1")
LAUNCH = """
import sys
from tests.helpers.launch_plans import make_plan
from tests.helpers.written_ranks import WrittenRanks
from train.launch.plan.planned_runs import Run
from train.launch.supervise import one_run
one_run.measure(Run(make_plan(*sys.argv[1:]).points[-1], 0), WrittenRanks(endless=True))
"""


def test_the_next_start_writes_a_record_of_what_was_measured(tmp_path: Path):
    overrides = (*OVERRIDES, f"results={tmp_path}")
    home = Run(make_plan(*overrides).points[-1], 0).home
    folder = home / "r0"
    with subprocess.Popen([sys.executable, "-c", LAUNCH, *overrides], cwd=ROOT) as launcher:
        wait_for((folder / "written").exists)
        assert record_interrupted([home]) == []  # it is in progress
        launcher.kill()
    (folder / "record.json").touch()  # a launcher was killed when it had reserved the name
    (folder / "rank-0.vm.1 (copy).jsonl").write_text("{}")
    (home / "r0 (copy)").mkdir()
    line, *others = record_interrupted([home])
    assert line == f"{folder}: interrupted: its launcher ended without a record; it now has one of what was measured"
    [record] = records(tmp_path)
    assert (record.status, record.failure.reason) == ("failed", "interrupted: its launcher ended without a record")
    assert (record.failure.phase, [rank.step_times_s for rank in record.ranks]) == ("timed", [[0.0025, 0.0025]] * 2)
    assert faults(record) == []
    assert [f.rule for f in verify(on_disk([str(folder / "record.json")])).findings if f.severity != "note"] == []
    assert not protocol.secret_folder(folder).exists()
    names = [home / "r0 (copy)", folder / "rank-0.vm.1 (copy).jsonl"]
    left_alone = "the kit gives no such name; it is left alone, and nothing in it counts"
    assert others == record_interrupted([home]) == [f"{name}: {left_alone}" for name in names]


def test_a_launch_whose_files_are_damaged_is_named_and_others_are_recorded(tmp_path: Path):
    for name, content in (("r0", b"{"), ("r1", b"")):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").write_bytes(content)
    (tmp_path / "r2").mkdir()  # nothing has begun there
    assert [line.partition(": ")[0] for line in record_interrupted([tmp_path])] == [f"{tmp_path}/r0", f"{tmp_path}/r1"]
