import io
import json
import math

import numpy as np
import pandas as pd
import pytest

from analysis import documents, stats
from analysis.__main__ import main
from analysis.stats import between, exact, from_ends, unknown
from record.schema import Failure
from tests.helpers.run_records import make_record, save


@pytest.mark.parametrize(
    ("number", "fields"),
    [
        (unknown(2.0), (2.0, None, None, None, 1, "")),
        (unknown(n=3), (None, None, None, None, 3, "")),
        (between(2.0, 2.0, math.inf), (2.0, 2.0, None, 1.0, 1, "rounding")),
        (from_ends(2.0, 1.5, 2.5, "between machines", 3, 0.9), (2.0, 1.5, 2.5, 0.9, 3, "between machines")),
    ],
)
def test_a_number_has_its_interval_and_null_for_what_is_not_known(number, fields):
    names = ("value", "low", "high", "level", "n", "variation")
    assert json.loads(documents.text(number)) == dict(zip(names, fields, strict=True))


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
    output = capsys.readouterr()
    assert "\\x1b[31m" in output.out
    assert "\x1b" not in output.out + output.err


def test_a_cell_is_no_formula():
    cells = {'=HYPERLINK("x","y")': '\'=HYPERLINK("x","y")', "+1+1": "'+1+1", "-2+3": "'-2+3", "@x": "'@x"}
    cells |= {text: text for text in ("-0.5", "-1e3", "a=b", "")}
    text = documents.csv_text(pd.DataFrame({"note": cells.keys(), "value": -1.5}))
    read = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    assert read["note"].tolist() == [*cells.values()]
    assert set(read["value"]) == {"-1.5"}


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [(3771.2, ".3g", "3770"), (25123.0, ".4g", "25120"), (9.96e6, ".2g", "10000000"), (1.5872e9, ".4g", "1.587e+09"),
     (0.1 + 0.2, ".3g", "0.3"), (1e-5, ".3g", "1e-05")],
)  # fmt: skip
def test_a_number_has_no_exponent_up_to_ten_millions(value, form, text):
    assert stats.significant(value, form) == text
