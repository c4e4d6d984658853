import math

import pytest

from analysis.noise import Noise, noise, of_other_runs
from analysis.verdicts import between
from tests.helpers.tidy_rows import curve, row, table


def test_the_noise_is_that_of_the_same_device_at_the_same_scale():
    twice = [row("images_per_s", value, 4, experiment=name) for value, name in ((100, "fruit"), (103, "weak_scaling"))]
    found = noise(table(*twice, row("images_per_s", 50, 8), row("images_per_s", 10, 4, gpu="K80")))
    assert found(twice[0]) == Noise(pytest.approx(math.log(1.03) / 2**0.5), 1)
    assert found(row("images_per_s", 50, 8)) is None
    assert found(row("images_per_s", 10, 4, gpu="K80")) is None
    assert found(row("images_per_s", 10, 4, report="003")) is None


def test_a_curve_of_three_points_scatters_about_its_line():
    # ln: 0, 0.1 + 1, 2 over steps of 1: residuals -1/30, 1/15, -1/30
    points = curve("images_per_s", {1: 1.0, 2: math.exp(1.1), 4: math.exp(2.0)})
    found = noise(table(*points))(points[0])
    assert found == Noise(pytest.approx((1 / 900 + 1 / 225 + 1 / 900) ** 0.5), 1)
    assert noise(table(*points[:2]))(points[0]) is None


def test_the_noise_of_both_runs_widens_a_quotient():
    # t(0.975, 3) = 3.182; two deviations of 0.01: 0.01414
    wide = of_other_runs(between(2.0, 1.99, 2.01), [(Noise(0.01, 3), 1.0), (Noise(0.01, 5), -1.0)])
    factor = math.exp(3.182 * 0.01 * 2**0.5)
    assert (wide.low, wide.high) == pytest.approx((1.99 / factor, 2.01 * factor), rel=1e-4)
    assert math.isnan(of_other_runs(between(2.0, 1.99, 2.01), [(Noise(0.01, 3), 1.0), (None, -1.0)]).low)
