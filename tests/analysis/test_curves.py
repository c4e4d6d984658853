import math

import pytest

from analysis.curves import bases, curves, keeps_global_batch, measured, measured_in_rounds, noises, other_points_noise
from tests.helpers.studies import curve_in_rounds
from tests.helpers.tidy_rows import curve, row, table

VGG16_AT_2 = row("images_per_s", 2.0, 2, model="vgg16")


def test_points_with_one_global_batch_are_a_curve_and_else_those_with_one_batch_per_rank():
    strong = [row("images_per_s", 100 * n, n, batch=64 // n) for n in (1, 2, 4)]
    (result,) = curves(table(*strong), "images_per_s")
    assert result["ranks"].tolist() == [1, 2, 4]
    weak = [row("images_per_s", 100 * n, n, batch=batch) for batch in (64, 32) for n in (1, 2)]
    result = curves(table(*weak), "images_per_s")
    assert sorted(curve["batch_per_rank"].tolist() for curve in result) == [[32, 32], [64, 64]]


def test_the_base_of_a_speedup_has_its_batch_per_rank_or_else_its_global_batch():
    rates = [row("images_per_s", 100, 1, batch=64), row("images_per_s", 60, 1, batch=8)]
    weak, strong = (row("speedup_throughput", 6, 8, batch=batch, kind="stated") for batch in (64, 8))
    both, only_weak = bases(table(*rates)), bases(table(rates[0]))
    assert [[base["value"] for base in both(stated)] for stated in (weak, strong)] == [[100], [60]]
    assert [keeps_global_batch(stated, only_weak(stated)) for stated in (weak, strong)] == [False, True]


def test_each_launch_of_a_curve_in_rounds_is_a_row(results):
    curve_in_rounds(results.folder)
    rows = measured(results.table(), "images_per_s")
    assert rows.groupby("nodes").size().to_dict() == {1: 2, 2: 2}
    # 8 images over the mean step of 0.625 s, in both launches
    assert rows.loc[rows["nodes"] == 1, "value"].tolist() == pytest.approx([12.8, 12.8])
    assert all(measured_in_rounds(row) for row in rows.to_dict("records"))


def test_the_noise_is_that_of_the_same_device_at_the_same_scale():
    twice = [row("images_per_s", value, 4, experiment=name) for value, name in ((100, "fruit"), (103, "weak_scaling"))]
    noisy = noises(table(*twice, row("images_per_s", 50, 8), row("images_per_s", 10, 4, gpu="K80")))
    # ln(1.03) / sqrt 2 for a single measurement; the mean of the two is sqrt 2 times as precise.
    result = noisy.at(row("images_per_s", 70, 4, model="vgg16"))
    assert (result.deviation, result.degrees) == (pytest.approx(math.log(1.03) / 2**0.5), 1)
    assert noisy.at(twice[0]).deviation == pytest.approx(math.log(1.03) / 2)
    for ranks, elsewhere in ((8, {}), (4, {"gpu": "K80"}), (4, {"report": "003"})):
        assert noisy.at(row("images_per_s", 50, ranks, **elsewhere)) is None


def test_the_scatter_of_a_curve_of_three_points_is_the_noise_of_other_curves():
    # ln: 0, 0.1 + 1, 2 over steps of 1: residuals -1/30, 1/15, -1/30
    points = curve("images_per_s", {1: 1.0, 2: math.exp(1.1), 4: math.exp(2.0)})
    noisy = noises(table(*points))
    result = noisy.at(VGG16_AT_2)
    assert (result.deviation, result.degrees) == (pytest.approx((1 / 900 + 1 / 225 + 1 / 900) ** 0.5), 1)
    assert noisy.at(points[1]) is None  # a wrong point would hide itself
    assert noises(table(*points[:2])).at(VGG16_AT_2) is None


def test_rates_of_ranks_and_of_the_job_are_one_measurement_and_times_another():
    whole, per_rank, times = (
        [row(quantity, value, 4, repeat=i) for i, value in enumerate(values)]
        for quantity, *values in (("images_per_s", 400, 440), ("images_per_s_per_rank", 100, 110), ("job_s", 10, 10.1))
    )
    noisy = noises(table(*whole, *per_rank, *times))
    assert noisy.at(per_rank[0]) == noisy.at(whole[0])
    assert noisy.at(whole[0]).degrees == 1
    assert noisy.at(times[0]).deviation == pytest.approx(math.log(1.01) / 2)


def test_a_speedup_is_over_the_smallest_point_of_its_curve():
    points = curve("images_per_s", {2: 100, 8: 300})
    noisy = noises(table(*points, *(VGG16_AT_2 | {"value": v, "repeat": i} for i, v in enumerate((9, 10)))))
    speedup = row("speedup_throughput", 3, 8, kind="stated")
    assert noisy.at(points[0]).degrees == 1
    assert noisy.measurements(speedup) == [(None, 1.0), (noisy.at(points[0]), -1.0)]


def test_the_other_points_of_a_curve_show_the_noise_of_a_point():
    # ln of 4, 8, 16, 32 ranks: 0, 1 + 0.1, 2, 3 over steps of 1: about 0.98 x + 0.055 the squares add up to 0.007
    rates = {1: 1e3, 2: 1e-3} | {4: 1.0, 8: math.exp(1.1), 16: math.exp(2.0), 32: math.exp(3.0)}
    result = other_points_noise(table(*curve("images_per_s", rates)), 1, 2)
    assert (result.deviation, result.degrees) == (pytest.approx((0.007 / 2) ** 0.5), 2)
    assert other_points_noise(table(*curve("images_per_s", rates)), 1, 2, 4) is None
