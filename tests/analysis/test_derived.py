import math

import pytest

from analysis.derived import follows, stated_number
from analysis.stats import between
from analysis.stats.student import student
from tests.helpers.tidy_rows import row


def stated(value, half, note=""):
    return row("speedup_throughput", value, 8, note=note) | {"half_unit": half}


@pytest.mark.parametrize(
    ("value", "half", "note", "low", "high", "verdict"),
    [
        (7, 0.5, "", 7.49, 7.49, "inside"),
        (7, 0.5, "", 7.51, 7.51, "outside"),
        (6.84, 0.005, "", 6.8429, 6.8463, "inside"),  # some of it rounds to 6.84, all is within 5 %
        (6.84, 0.005, "", 6.0, 8.0, "undecided"),  # a wrong number would pass as well
        (0.94, 0.005, "at least: x", 0.9358, 0.9454, "undecided"),
        (0.94, 0.005, "at least: x", 0.941, 0.95, "inside"),
        (0.4, 0.05, "at most: x", 0.41, 0.42, "outside"),
        (100, 0.5, "about: x", 104, 104, "inside"),
        (100, 0.5, "about: x", 106, 106, "outside"),
    ],
)
def test_whether_a_printed_number_follows(value, half, note, low, high, verdict):
    assert follows(stated(value, half, note), between((low + high) / 2, low, high)).outcome == verdict


def test_scatter_leaves_a_printed_number_open_and_a_bound_is_open_to_one_side():
    assert follows(stated(5, 0.0), student(4.5, 0.5, 1, 4)).outcome == "undecided"
    assert stated_number(stated(0, 0.5, "at least: two lines")).interval == (0, math.inf)
