from pathlib import Path

import pytest

from benchmarks import common, disturbed
from tests.helpers.run_records import disturb, make_rounds
from train.launch.launchers.base import Machine

QUIET = [1.62, 1.59, 1.65, 1.60, 1.63, 1.58, 1.64, 1.61]


def test_rounds_that_count_are_compared_with_those_without_the_loop():
    ratios = [*QUIET[:4], 0.80, 0.81, 0.82, 0.83, *QUIET[4:]]
    run = disturb(make_rounds([(1.0, 2 / ratio, 2 / 1.9) for ratio in ratios]), dict.fromkeys((4, 5, 6, 7), 0.5))
    speedup, control = disturbed.compare(run, {4, 5, 6, 7, 12})
    assert speedup["count"] == "8 of 12, 4 beside the loop"
    assert speedup["rounds without the loop"] == speedup["rounds that count"]
    assert speedup["rounds that count"].startswith("1.615 (1.5")
    assert not speedup["rounds all"].startswith("1.6")
    assert speedup["within"] == "yes"
    assert control["rounds all"].startswith("1.9 (1.9 to 1.9")
    # Nothing can lie within the interval of rounds that drift, which have none.
    rising = make_rounds([(1.0, 2 / ratio, 2 / 1.9) for ratio in sorted(QUIET)])
    assert next(disturbed.compare(rising, set()))["within"] == "no interval"


@pytest.mark.slow
def test_the_curve_is_found_beside_its_points_and_the_controls_of_emulated_nodes(monkeypatch):
    monkeypatch.setattr(common, "this_machine", lambda: Machine(2, None))
    arguments = ["experiment=weak_scaling", "model=tiny", "nodes=4", "launcher=emulated"]
    assert common.curve_of(common.launch_overrides(Path("unused"), arguments)) == "tiny-rounds"
