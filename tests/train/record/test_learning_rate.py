import math

import pytest

from train.record.learning_rate import scaled


def test_learning_rates_follow_the_rule():
    assert scaled(0.1, "none", 8) == pytest.approx(0.1)
    assert scaled(0.1, "linear", 8) == pytest.approx(0.8)
    assert scaled(0.1, "sqrt", 8) == pytest.approx(0.1 * math.sqrt(8))
