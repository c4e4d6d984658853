"""A report reproduced as far as this machine can. Its page: tests/analysis/page/test_scope.py."""

import sys

import pytest

from tests.helpers.kit import records, succeed
from train.record import reproduction

pytestmark = pytest.mark.end_to_end


def test_what_can_run_is_measured_and_what_cannot_is_named(tmp_path):
    given = ("nodes=1", "model=tiny", "measure.repeats=1", "measure.design=launches", "tracking=none")
    command = (sys.executable, "-m", "train.launch.reproduce", "--", "000", *given, f"results={tmp_path}")
    output = succeed(*command)
    (made,) = records(tmp_path)
    assert (made.experiment, made.status, len(made.ranks[0].step_times_s)) == ("fixed_work", "complete", 16)
    outcomes = {one.experiment: one for one in reproduction.read(tmp_path, "000").outcomes}
    assert {name: one.status for name, one in outcomes.items()} == {"fixed_work": "measured", "cifar10": "not run"}
    assert f"cannot run here: cifar10: {outcomes['cifar10'].why}" in output
