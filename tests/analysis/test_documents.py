import io
import json
import math

import numpy as np
import pandas as pd
import pytest

from analysis import documents
from analysis.__main__ import main
from analysis.documents import csv_text
from analysis.stats import between, exact, from_ends, unknown
from tests.helpers.own_records import make_record, save
from train.record.record import Failure

NOTHING = {"low": None, "high": None, "level": None, "covers": ""}


@pytest.mark.parametrize(
    ("number", "fields"),
    [
        (unknown(2.0), {"value": 2.0, "n": 1, **NOTHING}),
        (unknown(n=3), {"value": None, "n": 3, **NOTHING}),
        (between(2.0, 2.0, math.inf), dict(value=2.0, low=2.0, high=None, level=1.0, n=1, covers="rounding")),
        (
            from_ends(2.0, 1.5, 2.5, "machines", 3, 0.9),
            dict(value=2.0, low=1.5, high=2.5, level=0.9, n=3, covers="machines"),
        ),
    ],
)
def test_a_number_has_its_interval_and_null_for_what_is_not_known(number, fields):
    assert json.loads(documents.text(number)) == fields


def test_a_number_that_is_not_known_at_all_is_none():
    assert documents.optional(unknown()) is documents.optional(None) is None
    assert documents.optional(exact(1.0)).value == 1.0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((unknown, "null") for unknown in (None, math.nan, math.inf, -math.inf, pd.NA, pd.NaT, np.float64("nan"))),
        *[(np.int64(3), "3"), (np.float32(0.5), "0.5"), (np.bool_(True), "true"), (2, "2"), ("nan", '"nan"')],
    ],
)
def test_values_of_numpy_and_pandas_are_plain(value, text):
    assert json.loads(documents.text({"a": [value]})) == {"a": [json.loads(text)]}


@pytest.mark.slow
def test_what_a_record_says_reaches_the_terminal_without_escapes(tmp_path, capsys):
    save(make_record(failure=Failure("killed \x1b[31m\x1b]52;c;eA==\x07")), tmp_path)
    main(["audit", str(tmp_path)])
    main(["compare", "--results", str(tmp_path)])
    printed = capsys.readouterr()
    assert "\\x1b[31m" in printed.out
    assert "\x1b" not in printed.out + printed.err


def test_a_cell_is_no_formula():
    cells = ['=HYPERLINK("http://x","y")', "+1+1", "-2+3", "@x", "-0.5", "-1e3", "a=b", ""]
    text = csv_text(pd.DataFrame({"note": cells, "value": [-1.5] * len(cells)}))
    read = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    assert read["note"].tolist() == [
        *('\'=HYPERLINK("http://x","y")', "'+1+1", "'-2+3", "'@x"),
        *("-0.5", "-1e3", "a=b", ""),
    ]
    assert set(read["value"]) == {"-1.5"}
