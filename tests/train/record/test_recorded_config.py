import math

import pytest

from train.record.recorded_config import scaled_learning_rate


def test_learning_rates_follow_the_rule():
    assert scaled_learning_rate(0.1, "none", 8) == pytest.approx(0.1)
    assert scaled_learning_rate(0.1, "linear", 8) == pytest.approx(0.8)
    assert scaled_learning_rate(0.1, "sqrt", 8) == pytest.approx(0.1 * math.sqrt(8))
