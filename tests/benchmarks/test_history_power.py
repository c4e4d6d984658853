import numpy as np

from benchmarks import history_power
from benchmarks.history_power import HistoryTruth


def test_a_study_that_did_not_change_one_that_lost_a_fifth_and_one_that_cannot_tell():
    def verdicts(truth):
        return set(history_power.study(np.random.default_rng(1), truth)[0])

    assert verdicts(HistoryTruth(6, 2, 0.01)) == {"alike"}
    assert verdicts(HistoryTruth(6, 2, 0.01, slower=0.2)) == {"worse"}
    assert verdicts(HistoryTruth(1, 1, 0.01)) == set()  # one launch on each side has no interval
    assert verdicts(HistoryTruth(1, 1, 0.01, slower=0.2, older=6)) == {"worse"}


def test_what_is_found_and_an_interval_that_cannot_hold_the_truth_are_counted():
    """All launches of a session are off by one factor, which no interval of launches within sessions allows for."""
    line = history_power.line(HistoryTruth(6, 1, 0.001, drift=0.3, slower=0.9), 5)
    assert (line["truly slower by"], line["studies: any value worse"]) == ("90%", "1.000")
    assert float(line["intervals that miss"]) > 0.9
