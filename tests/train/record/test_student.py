import math

import pytest

from train.record import student

# Percentage points of Student's t, two-sided: Abramowitz and Stegun 1964, table 26.10.
TABLE = {
    (0.95, 1): 12.706, (0.95, 2): 4.303, (0.95, 3): 3.182, (0.95, 6): 2.447, (0.95, 30): 2.042,
    (0.5, 1): 1.0, (0.99, 2): 9.925, (0.99, 5): 4.032, (0.999, 4): 8.610,
}  # fmt: skip


@pytest.mark.parametrize(("at", "t"), TABLE.items())
def test_the_percentage_points_are_those_of_the_tables(at, t):
    assert student.two_sided(*at) == pytest.approx(t, abs=6e-4)


def test_one_degree_is_cauchy_and_two_have_a_closed_form():
    assert student.within(2.0, 1) == pytest.approx(2 / math.pi * math.atan(2.0))
    assert student.within(2.0, 2) == pytest.approx(2.0 / math.sqrt(2 + 4))
    assert student.two_sided(1 - 1e-9, 1) == pytest.approx(2 / math.pi * 1e9, rel=1e-6)
