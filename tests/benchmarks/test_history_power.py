import numpy as np

from benchmarks import history_power
from benchmarks.history_power import Truth


def verdicts(truth):
    return set(history_power.study(np.random.default_rng(1), truth))


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
