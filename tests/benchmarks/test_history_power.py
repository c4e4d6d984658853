import numpy as np
import pytest

from benchmarks import history_power
from benchmarks.history_power import Truth


def verdicts(truth):
    return set(history_power.study(np.random.default_rng(1), truth)[0])


def test_a_study_that_did_not_change_one_that_lost_a_fifth_and_one_that_cannot_tell():
    assert verdicts(Truth(6, 2, 0.01)) == {"alike"}
    assert verdicts(Truth(6, 2, 0.01, slower=0.2)) == {"worse"}
    assert verdicts(Truth(1, 1, 0.01)) == set()  # one launch on each side has no interval
    assert verdicts(Truth(1, 1, 0.01, slower=0.2, older=6)) == {"worse"}


def test_a_line_counts_studies_and_points():
    line = history_power.line(Truth(6, 1, 0.01, slower=0.2), 3)
    truth = [line[name] for name in ("truly slower by", "launches", "sessions before", "launches scatter")]
    assert truth == ["20%", "6", "1", "1%"]
    shares = [line[name] for name in ("studies: any value worse", "values: alike", "values: worse")]
    assert shares == ["1.000", "0.00", "1.00"]


@pytest.mark.slow
@pytest.mark.parametrize("truth", [Truth(2, 1, 0.03), Truth(1, 3, 0.03), Truth(3, 1, 0.01), Truth(2, 1, 0.01, older=6)])
def test_intervals_of_identical_launches_seldom_miss_their_ratio(truth):
    assert float(history_power.line(truth, 20)["intervals that miss"]) <= 0.10


def test_an_interval_that_cannot_hold_the_truth_is_counted():
    """All launches of a session are off by one factor, which no interval of launches within sessions allows for."""
    assert float(history_power.line(Truth(6, 1, 0.001, drift=0.3), 5)["intervals that miss"]) > 0.9
