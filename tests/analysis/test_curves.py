import pandas as pd
import pytest

from analysis.curves import bases, cached_by_table, curves, in_rounds, keeps_global_batch, measured, times_as_fast
from tests.helpers.own_studies import curve_in_rounds
from tests.helpers.tidy_rows import row, table


def test_published_points_with_one_global_batch_are_a_curve_of_strong_scaling():
    strong = [row("images_per_s", 100 * n, n, batch=64 // n) for n in (1, 2, 4)]
    (result,) = curves(table(*strong), "images_per_s")
    assert result["ranks"].tolist() == [1, 2, 4]


def test_published_points_with_two_batches_per_rank_are_two_curves_although_global_batches_coincide():
    weak = [row("images_per_s", 100 * n, n, batch=batch) for batch in (64, 32) for n in (1, 2)]
    result = list(curves(table(*weak), "images_per_s"))
    assert sorted(curve["batch_per_rank"].tolist() for curve in result) == [[32, 32], [64, 64]]


def test_the_base_of_a_speedup_has_its_batch_per_rank_or_else_its_global_batch():
    rates = table(row("images_per_s", 100, 1, batch=64), row("images_per_s", 60, 1, batch=8))
    weak = row("speedup_throughput", 6, 8, batch=64, kind="stated")
    strong = row("speedup_throughput", 5, 8, batch=8, kind="stated", model="resnet50")
    (base,) = bases(rates)(weak)
    assert base["value"] == 100
    (base,) = bases(rates)(strong)
    assert base["value"] == 60
    only_weak = table(row("images_per_s", 100, 1, batch=64))
    assert keeps_global_batch(strong, bases(only_weak)(strong))
    assert not keeps_global_batch(weak, bases(only_weak)(weak))


def test_of_a_curve_in_rounds_each_launch_is_a_row(results):
    curve_in_rounds(results.folder)
    rows = measured(results.table(), "images_per_s")
    assert rows.groupby("nodes").size().to_dict() == {1: 2, 2: 2}
    # 8 images over the mean step of 0.625 s, in both launches
    assert rows.loc[rows["nodes"] == 1, "value"].tolist() == pytest.approx([12.8, 12.8])
    assert all(in_rounds(row) for row in rows.to_dict("records"))


def test_how_many_times_as_fast_a_point_is():
    # 10 s instead of 40 s; 90 instead of 100 images/s a rank, of 4 ranks over 1
    time, rate = (row(name, 1, 4) for name in ("job_s", "images_per_s"))
    assert times_as_fast(time, row("job_s", 1, 1), 10, 40) == 4
    assert times_as_fast(rate, row("images_per_s", 1, 1), 360, 100) == 3.6
    per_rank = [row("images_per_s_per_rank", 1, n) for n in (4, 1)]
    assert times_as_fast(*per_rank, 90, 100) == pytest.approx(3.6)


def test_the_result_of_the_last_table_is_cached():
    used = []

    @cached_by_table
    def values(table):
        used.append(len(table))
        return table["x"].tolist()

    one, other = pd.DataFrame({"x": [1, 2]}), pd.DataFrame({"x": [1, 2, 3]})
    assert [values(one), values(one), values(other), values(other)] == [[1, 2], [1, 2], [1, 2, 3], [1, 2, 3]]
    assert used == [2, 3]
    assert values(one.copy()) == [1, 2]
    assert used == [2, 3, 2]
