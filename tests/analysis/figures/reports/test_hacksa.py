import numpy as np
import pytest

from analysis.study import Study
from tests.helpers.drawn_figures import drawn, lines

pytestmark = pytest.mark.slow


def test_a_published_curve_is_where_it_was_printed(tmp_path):
    result = lines(drawn("000-vgg19", Study(tmp_path).local))
    speedups = [y for _, x, y in result if x.tolist() == [1, 2, 4, 8, 16, 32]]
    by_time = [193.45 / t for t in (193.45, 101.92, 55.03, 30.83, 18.32, 19.2)]
    by_speed = [
        n * s / 170.24
        for n, s in zip((1, 2, 4, 8, 16, 32), (170.24, 169.37, 165.11, 165.72, 164.77, 163.91), strict=True)
    ]
    assert any(np.allclose(y, by_time) for y in speedups)
    assert any(np.allclose(y, by_speed) for y in speedups)


def test_a_printed_speed_of_zero_is_left_out(tmp_path):
    result = lines(drawn("000-efficiency-speed", Study(tmp_path).local))
    assert all((y > 0.9).all() for _, x, y in result if len(x) > 2)
    assert sum(x.tolist() == [1, 2, 4, 8] for _, x, y in result) >= 1
