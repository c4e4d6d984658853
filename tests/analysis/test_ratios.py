import pytest

from analysis.ratios import pairs
from tests.helpers.tidy_rows import row, table


def test_cells_are_paired_where_all_else_is_the_same():
    rows = [row("images_per_s", v, n, dataset=d) for d, of in (("synthetic", (100, 190)), ("imagenet", (80, 160)))
            for n, v in zip((1, 2), of, strict=True)]  # fmt: skip
    stated = row("ratio_synthetic_to_real", 1.25, 1, kind="stated", dataset="")
    found = pairs(table(*rows, stated), "ratio_synthetic_to_real")
    assert found.set_index("ranks")["follows"].to_dict() == {1: 1.25, 2: pytest.approx(190 / 160)}
    scaled = pairs(table(*rows, stated), "ratio_synthetic_to_real", normalised=True)
    assert scaled.set_index("ranks")["follows"].to_dict() == {1: 1.0, 2: pytest.approx(1.9 / 2.0)}
