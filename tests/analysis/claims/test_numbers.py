import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.claims import numbers


@given(st.integers(1, 99), st.integers(1, 99), st.integers(1, 99))
def test_arithmetic_is_that_of_python(a, b, c):
    values = {"a": a, "b": b, "c": c}
    assert numbers.arithmetic("(a - b) / c + 2 * a", values) == pytest.approx((a - b) / c + 2 * a)


@pytest.mark.parametrize("bad", ["a ** b", "f(a)", "d + 1", "a if b else c", "a.b"])
def test_anything_else_is_no_formula(bad):
    with pytest.raises(ValueError, match="is not a number, not"):
        numbers.arithmetic(bad, {"a": 1, "b": 2, "c": 3})


@pytest.mark.parametrize(
    ("bounds", "holds"),
    [
        ({"at_least": 3}, True),
        ({"more_than": 3}, False),
        ({"at_most": 3}, True),
        ({"less_than": 3}, False),
        ({"about": 3.1}, True),  # 5 %
        ({"about": 3.2}, False),
        ({"about": 3.4, "within": 0.15}, True),
        ({"at_least": 1, "at_most": 2}, False),
        ({"at_least": 3.1, "roughly": 0.05}, True),
        ({"at_least": 3.1, "margin": 0.05}, False),
    ],
)
def test_bounds_on_three(bounds, holds):
    assert numbers.ClaimBounds(**bounds).bounds.allow(3.0) is holds


def test_a_margin_is_separate_from_the_bounds():
    assert numbers.ClaimBounds(at_most=1, margin=0.05).with_margin.allow(1.04)
    assert numbers.ClaimBounds(at_most=1).with_margin is None


def test_bounds_in_words():
    roughly = numbers.ClaimBounds(at_least=24e6, at_most=26e6, roughly=0.05)
    assert str(roughly) == "at least 2.4e+07 and at most 2.6e+07, give or take 5 %"
    assert str(numbers.ClaimBounds(about=1)) == "within 5 % of 1"
