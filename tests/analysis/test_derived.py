import pytest

from analysis.derived import computed, pairs
from tests.helpers.tidy_rows import curve, row, table

RATES = curve("images_per_s", {1: 100, 2: 190, 4: 360})


def test_what_follows_from_a_curve():
    result = computed(table(*RATES)).set_index(["quantity", "ranks"])["value"]
    assert result["speedup_throughput", 4] == pytest.approx(3.6)
    assert result["efficiency_throughput", 2] == pytest.approx(0.95)


def test_wall_time_speedup_is_of_images_per_second():
    # 500 steps in 100 s; 2 x 240 steps in 60 s: 480 / 60 over 500 / 100 = 1.6, though 100 / 60 = 1.67
    rows = [*curve("wall_s", {1: 100, 2: 60}), *curve("steps_per_rank_planned", {1: 500, 2: 240}, kind="planned")]
    result = computed(table(*rows)).set_index(["quantity", "ranks"])["value"]
    assert result["speedup_wall_time", 2] == pytest.approx(1.6)


def test_doublings_and_the_time_to_a_stable_accuracy():
    rows = [
        *curve("job_s", {2: 1000, 4: 600, 6: 500}),
        row("epochs_to_stable", 15, 2),
        row("epochs_planned", 30, 2, kind="setup"),
    ]
    result = computed(table(*rows)).set_index(["quantity", "ranks"])["value"]
    assert result["job_s_per_doubling", 4] == pytest.approx(0.6)
    assert ("job_s_per_doubling", 6) not in result.index
    assert result["time_to_stable_s", 2] == pytest.approx(500)


def test_cells_are_paired_where_all_else_is_the_same():
    rows = [row("images_per_s", v, n, dataset=d) for d, of in (("synthetic", (100, 190)), ("imagenet", (80, 160)))
            for n, v in zip((1, 2), of, strict=True)]  # fmt: skip
    stated = row("ratio_synthetic_to_real", 1.25, 1, kind="stated", dataset="")
    result = pairs(table(*rows, stated), "ratio_synthetic_to_real")
    assert result.set_index("ranks")["follows"].to_dict() == {1: 1.25, 2: pytest.approx(190 / 160)}
    scaled = pairs(table(*rows, stated), "ratio_synthetic_to_real", normalised=True)
    assert scaled.set_index("ranks")["follows"].to_dict() == {1: 1.0, 2: pytest.approx(1.9 / 2.0)}
