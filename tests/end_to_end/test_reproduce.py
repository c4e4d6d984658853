"""A report, reproduced as far as this machine can. Its page: tests/analysis/page/test_scope.py."""

import sys

import pytest

from tests.helpers.kit import records, succeed
from train.record import reproduction

pytestmark = pytest.mark.end_to_end


def test_what_can_run_is_measured_and_what_cannot_is_named(tmp_path):
    overrides = ("nodes=1", "model=tiny", "measure.repeats=1", "measure.design=launches", "tracking=none")
    command = (sys.executable, "-m", "train.launch.reproduce", "--", "000", *overrides, f"results={tmp_path}")
    output = succeed(*command)
    (record,) = records(tmp_path)
    assert (record.experiment, record.status, len(record.ranks[0].step_times_s)) == ("fixed_work", "complete", 16)
    outcomes = {row.experiment: row for row in reproduction.read(tmp_path, "000").outcomes}
    assert (outcomes["fixed_work"].status, outcomes["cifar10"].status) == ("measured", "not run")
    assert len(outcomes) == 2
    assert f"cannot run here: cifar10: {outcomes['cifar10'].why}" in output
