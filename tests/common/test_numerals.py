import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from common import numerals


@pytest.mark.parametrize(
    ("text", "mark", "expected"),
    [
        ("1,234.5", ".", (1234.5, 0.05)),
        ("1.234", ",", (1234, 0.5)),
        ("1.234", ".", (1.234, 0.0005)),
        ("-2.5e-3", ".", (-0.0025, 0.00005)),
        ("0,123", ".", None),  # no group of thousands begins with 0
        ("1,23,456", ".", None),
        ("1,234'567", ".", None),
        ("1e999", ".", None),
        ("", ".", None),
    ],
)
def test_a_number_by_a_decimal_mark(text, mark, expected):
    assert numerals.number(text, mark) == pytest.approx(expected)


@given(st.integers(0, 10**9), st.integers(0, 3), st.sampled_from([*",.' ", ""]), st.sampled_from(",."))
def test_a_number_written_in_any_locale_is_read_back(whole, decimals, group, mark):
    assume(group != mark)
    digits = f"{whole:,}".replace(",", group)
    number = numerals.number(digits + (mark + "7" * decimals if decimals else ""), mark)
    assert number == pytest.approx((float(f"{whole}.{'7' * decimals}0"), 0.5 * 10**-decimals), rel=1e-12)
