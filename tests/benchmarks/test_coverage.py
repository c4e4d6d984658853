from dataclasses import replace

import numpy as np
import pytest

from benchmarks import coverage
from benchmarks.coverage import Case


def simulated(noise, **case):
    return coverage.simulate(Case("", noise, **case), 200, np.random.default_rng(1))


@pytest.mark.slow
def test_a_clean_machine_stops_early_and_holds_the_truth():
    row = simulated(coverage.proportional(0.02), rounds=12, launches=3, most=8)
    assert float(row["holds the truth"]) > 0.9
    assert float(row["half width, mean"]) < 0.05
    assert row["rounds, median"] == "48"  # of at most 96: three launches are narrow at 95 %, and four at 99 %


@pytest.mark.slow
def test_an_interval_that_is_too_narrow_would_show():
    """Launches differ by far more than the rounds within them, which a single launch cannot show."""
    row = simulated(coverage.proportional(0.01), between=0.3)
    assert float(row["holds the truth"]) < 0.2


def test_a_disturbance_in_turns_is_there_in_half_of_the_rounds():
    times = coverage.disturbed_in_turns(1.5, 4, spread=0.0)(np.random.default_rng(2), 80)
    slow = times[:, 0] == 1.5
    assert set(times[~slow, 0]) == set(times[:, 1]) == {1.0}
    assert slow.sum() == 40
    assert not (slow[:-4] & slow[4:]).any()  # no round is disturbed four rounds after one that is


@pytest.mark.slow
def test_rounds_beside_a_neighbour_do_not_count_and_the_others_are_not_off():
    [case] = [case for case in coverage.BESIDE if case.name == "on one core, half of the time"]
    row, all_rounds = (
        coverage.simulate(each, 100, np.random.default_rng(1)) for each in (case, replace(case, precision=None))
    )
    assert float(row["holds the truth"]) > 0.9
    assert abs(float(row["off, median"].removesuffix(" %"))) < 1
    assert float(all_rounds["off, median"].removesuffix(" %")) > 5


@pytest.mark.parametrize(("counted", "fraction"), [(1.0, 0.5), (0.5, 0.25), (None, None)])
def test_a_neighbour_that_always_runs_slows_a_core_by_its_share_and_is_counted(counted, fraction):
    neighbour = coverage.Neighbour((1,), 1, 0, share=0.5, counted=counted)
    times, disturbances = coverage.beside(neighbour, np.ones((3, 2)), np.random.default_rng(2))
    assert times == pytest.approx(np.array([[2.0, 1.0]] * 3))  # the base has only the other core
    assert disturbances == [None if fraction is None else pytest.approx(fraction, abs=0.01)] * 3
