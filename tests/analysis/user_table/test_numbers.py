import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from analysis.user_table import numbers
from analysis.user_table.numbers import Missing, PrintedNumber


def read_cell(text, mark="."):
    (cell,) = numbers.column([text], mark)
    return cell


@pytest.mark.parametrize(
    ("text", "value", "half_unit", "kind"),
    [
        ("5643", 5643, 0.5, "number"),
        ("1.44×", 1.44, 0.005, "ratio"),
        ("72%", 0.72, 0.005, "share"),
        ("332/s", 332, 0.5, "rate"),
        ("74211 s", 74211, 0.5, "time"),
        ("1:23:45", 5025, 0.5, "time"),
        ("43:05", 2585, 0.5, "time"),
        ("1h 23m 45s", 5025, 0.5, "time"),
        ("3 min 20 s", 200, 0.5, "time"),
        ("12.3k", 12300, 50, "number"),
        ("72.3k tok/s", 72300, 50, "rate"),
        ("1,234,567.8", 1234567.8, 0.05, "number"),
        ("1'234.5", 1234.5, 0.05, "number"),
        ("1 234", 1234, 0.5, "number"),
        ("12\u202f345", 12345, 0.5, "number"),
        ("~ 320 img/s", 320, 0.5, "rate"),
        ("100*", 100, 0.5, "number"),
        ("1.48s ❌", 1.48, 0.005, "time"),
        ("100 [1]", 100, 0.5, "number"),
        ("100²", 100, 0.5, "number"),
        ("\u22123", -3, 0.5, "number"),
        ("2.5e-3", 0.0025, 0.00005, "number"),
        ("30min", 1800, 30, "time"),
        ("90E", 90, 0.5, "count"),
        ("1.76×10⁵ QPS", 176000, 500, "rate"),
        ("5.61 x 10^5 (OOM)", 561000, 500, "number"),
        ("2.5×10⁻³", 0.0025, 0.00005, "number"),
        ("320 ep/hr", 320 / 3600, 0.5 / 3600, "rate"),
        ("276s / 44.3GB", 276, 0.5, "time"),
        ("120 ms", 0.12, 0.0005, "time"),
        ("4 GPUs", 4, 0.5, "count"),
        ("5643 (1.0x)", 5643, 0.5, "number"),
    ],
)
def test_cells_as_people_write_them(text, value, half_unit, kind):
    cell = read_cell(text)
    assert isinstance(cell, PrintedNumber)
    assert cell.value == pytest.approx(value)
    assert cell.half_unit == pytest.approx(half_unit)
    assert cell.unit.kind == kind


@pytest.mark.parametrize(
    ("text", "value", "low", "high"),
    [
        ("2.8 +-0.1", 2.8, 2.7, 2.9),
        ("100 ± 2.5 img/s", 100, 97.5, 102.5),
        ("100 img/s +/- 2", 100, 98, 102),
        ("2.7-2.9", 2.8, 2.7, 2.9),
        ("90 – 110 %", 1, 0.9, 1.1),
        ("270 to 290", 280, 270, 290),
    ],
)
def test_ranges(text, value, low, high):
    cell = read_cell(text)
    assert isinstance(cell, PrintedNumber)
    assert (cell.value, cell.low, cell.high) == pytest.approx((value, low, high))


@pytest.mark.parametrize(
    ("text", "reason", "reported"),
    [
        ("", "empty", False),
        ("-", "'-': no number", False),
        ("N/A", "'N/A': no number", True),
        ("OOM", "'OOM': not measured", True),
        ("ERROR", "'ERROR': not measured", True),
        ("fast", "'fast' is no number", True),
        ("1,2,3", "'1,2,3' is no number", True),
        ("8x V100", "'8x V100' is no number", True),
        ("1..2..3", "'1..2..3' is no number", True),
        ("1e999", "'1e999' is no number", True),
    ],
)
def test_why_a_cell_has_no_number(text, reason, reported):
    assert read_cell(text) == Missing(reason, reported)


def test_one_cell_tells_the_mark_of_its_column():
    assert numbers.marks(["1.234", "12.5"]) == {"."}
    assert numbers.marks(["1.234", "12,5"]) == {","}
    assert numbers.marks(["1.234", "1.234.567"]) == {","}
    assert numbers.marks(["1,234", "0.5"]) == {"."}
    assert numbers.marks(["0.123", "1.234"]) == {"."}  # no group of thousands begins with 0
    assert numbers.marks(["1.234", "320"]) == {".", ","}
    assert numbers.marks(["1.5", "1,5"]) == set()


def test_cells_tell_whether_they_depend_on_the_mark():
    assert numbers.depends_on_mark(["320", "615", "1.180", "2.290"])
    assert not numbers.depends_on_mark(["320", "1 234"])


@given(st.integers(0, 10**9), st.integers(0, 3), st.sampled_from([*",.' \u202f", ""]), st.sampled_from(",."))
def test_a_number_written_in_any_locale_is_read_back(whole, decimals, group, mark):
    assume(group != mark)
    digits = f"{whole:,}".replace(",", group)
    text = digits + (mark + "7" * decimals if decimals else "")
    cell = read_cell(text, mark)
    assert isinstance(cell, PrintedNumber)
    assert math.isclose(cell.value, float(f"{whole}.{'7' * decimals}0"), rel_tol=1e-12)
    assert math.isclose(cell.half_unit, 0.5 * 10**-decimals)


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_a_reason(text):
    for mark in numbers.MARKS:
        cell = read_cell(text, mark)
        assert isinstance(cell, PrintedNumber | Missing)
