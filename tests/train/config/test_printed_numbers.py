"""Numbers with their units, each value worked out by hand."""

import pytest

from train.config import printed_numbers
from train.config.printed_numbers import NumberError


def read(row, marked, decimal=None):
    """Return the number of a row of which the pattern has matched `marked` alone."""
    start = row.index(marked)
    return printed_numbers.quantity(row, start, start + len(marked), (start, start + len(marked)), decimal)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", 1234.5),
        ("1.234.567,8", 1234567.8),
        ("1'234.5", 1234.5),
        ("1_234_567", 1234567),
        ("1\u202f234,5", 1234.5),
        (".5", 0.5),
        ("0.123D+02", 12.3),
        ("1.2 x 10^6", 1.2e6),
        ("1.2×10^6", 1.2e6),
        ("2.5 million", 2.5e6),
        ("1.2k", 1200),
        ("0:01:30", 90),
        ("1-02:03:04", 93784),  # 86400 + 7200 + 180 + 4
        ("1m13.70s", 73.7),
        ("1 min 23 s", 83),
        ("1 hour, 2 minutes and 3 seconds", 3723),
        ("250 ms", 0.25),
    ],
)
def test_a_number_is_read_whole(text, value):
    for row in (text, f"n: {text}", f"n={text}, 3 others", f"[{text}]"):
        first = text.split()[0]
        assert read(row, first).value == pytest.approx(value)


@pytest.mark.parametrize(
    ("row", "marked"),
    [
        ("real 1m13.70s", "13.70"),  # a part of a time
        ("took 1 min 23 s", "23"),
        ("1-02:03:04", "03:04"),
        ("rate 1'234'56", "1"),
        ("1 234,5 img/s", "1"),  # one number or two
        ("1.2.3", "1.2.3"),
        ("3-5 img/s", "3"),
        ("16/100", "16"),
        ("2026-11-28", "28"),
        ("A100x8", "8"),
        ("mfu 5.1%", "5.1"),
        ("12 J/image", "12"),
        ("3 cycles/byte", "3"),
    ],
)
def test_what_stands_at_a_number_and_is_not_understood_refuses_the_line(row, marked):
    with pytest.raises(NumberError, match="in '"):
        read(row, marked)


def test_a_space_between_numbers_is_no_mark_if_the_pattern_has_matched_both():
    row = "step 100 200 ms"
    assert printed_numbers.quantity(row, 9, 12, (0, 12)).value == 0.2
    assert printed_numbers.quantity(row, 5, 8, (5, 12)).value == 100
    assert read("1 234,5", "1", decimal=",").value == 1234.5


@pytest.mark.parametrize(
    ("row", "unit", "kind"),
    [
        ("5 img/sec", "img/s", "rate"),
        ("5 tokens per second", "tokens/s", "rate"),
        ("5 ns/day", "ns/day", "rate"),
        ("5 H/s", "H/s", "rate"),
        ("5 MS/s", "MS/s", "rate"),
        ("5 days/ns", "day/ns", "cost"),
        ("5 s/it", "s/it", "cost"),
        ("5 minutes", "s", "time"),
        ("5 on 4 procs", "", "other"),
        ("5 q=-1.0", "", "other"),
        ("loop (ms): 5", "s", "time"),
        ("img/sec on 2 CPU(s): 5", "", "other"),
    ],
)
def test_a_unit_says_whether_a_number_is_a_rate_or_a_time(row, unit, kind):
    assert (read(row, "5").unit, read(row, "5").kind) == (unit, kind)


@pytest.mark.parametrize(
    ("unit", "to", "factor"),
    [("GiB/s", "MiB/s", 1024), ("kH/s", "H/s", 1000), ("it/min", "it/s", 1 / 60), ("img/s", "tokens/s", None)],
)
def test_units_are_converted_if_they_differ_in_their_prefix_or_their_time(unit, to, factor):
    assert printed_numbers.conversion(unit, to) == (factor and pytest.approx(factor))
