import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.user_table import numbers
from analysis.user_table.numbers import CellNumber


@pytest.mark.parametrize(
    ("text", "value", "half_unit", "kind"),
    [
        ("5643", 5643, 0.5, ""),
        ("1.44×", 1.44, 0.005, "ratio"),
        ("72%", 0.72, 0.005, "share"),
        ("332/s", 332, 0.5, "rate"),
        ("1:23:45", 5025, 0.5, "time"),
        ("1-02:03:04", 93784, 0.5, "time"),
        ("1h 23m 45s", 5025, 0.5, "time"),
        ("3 min 20 s", 200, 0.5, "time"),
        ("12.3k", 12300, 50, ""),
        ("72.3k tok/s", 72300, 50, "rate"),
        ("320 ep/hr", 320 / 3600, 0.5 / 3600, "rate"),
        ("1,234,567.8", 1234567.8, 0.05, ""),
        ("1'234.5", 1234.5, 0.05, ""),
        ("12\u202f345", 12345, 0.5, ""),
        ("~ 320 img/s", 320, 0.5, "rate"),
        ("100 [1]", 100, 0.5, ""),
        ("\u22123", -3, 0.5, ""),
        ("2.5e-3", 0.0025, 0.00005, ""),
        ("4 GPUs", 4, 0.5, "count"),
        ("5643 (1.0x)", 5643, 0.5, ""),
        ("100 ± 2.5 img/s", 100, 0.5, "rate"),
        ("90 ± 2%", 0.9, 0.005, "share"),
    ],
)
def test_cells_as_people_write_them(text, value, half_unit, kind):
    cell = numbers.parse(text)
    assert (cell.value, cell.half_unit) == pytest.approx((value, half_unit))
    assert cell.unit.kind == kind


def test_why_a_cell_has_no_number():
    others = ("100²", "2.7-2.9", "OOM", "1,2,3", "8x V100", "60s / 52.5GB", "1e999")
    reasons = {text: f"'{text}' is not a number" for text in others}
    reasons |= {"": "empty", "-": "", "9" * 200: f"'{'9' * 20}...' is not a number"}
    assert {text: numbers.parse(text) for text in reasons} == reasons


def test_counts_as_people_write_them():
    counts = {"8x V100 (2 nodes)": ("8", "V100"), "4 × RTX 4090": ("4", "RTX 4090"), "2x8xH100": ("16", "H100")}
    counts["1x8"] = ("8", "")
    counts |= {text: (text, "") for text in ("Parallel 2", "test_step[1]", "1 node, 8 GPUs")}
    assert {text: numbers.counted(text) for text in counts} == counts


@pytest.mark.parametrize(
    ("cells", "shown", "unclear"),
    [
        (("1.234", "12.5"), {"."}, ["1.234"]),
        (("1.234", "12,5"), {","}, ["1.234"]),
        (("1.234.567",), {","}, []),
        (("0.123",), {"."}, []),  # no group of thousands begins with 0
        (("320", "1.180", "1 234"), set(), ["1.180"]),
        (("1.5", "1,5"), {".", ","}, []),
    ],
)
def test_which_decimal_marks_cells_show(cells, shown, unclear):
    assert numbers.decimal_marks(cells) == (shown, unclear)


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_a_reason(text):
    for mark in ".,":
        assert isinstance(numbers.parse(text, mark), CellNumber | str)
