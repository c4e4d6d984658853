import json
import math

import numpy as np
import pandas as pd
import pytest

from analysis.json_values import plain


@pytest.mark.parametrize("unknown", [None, math.nan, math.inf, -math.inf, pd.NA, pd.NaT, np.float64("nan")])
def test_what_is_not_known_or_not_finite_is_null(unknown):
    assert json.dumps(plain(unknown), allow_nan=False) == "null"


@pytest.mark.parametrize(
    ("value", "text"),
    [(np.int64(3), "3"), (np.float32(0.5), "0.5"), (np.bool_(True), "true"), (2, "2"), ("nan", '"nan"'), ("", '""')],
)
def test_what_is_known_stays(value, text):
    assert json.dumps(plain(value), allow_nan=False) == text


def test_values_in_lists_and_objects_too():
    found = plain({"points": [{"ranks": np.int64(2), "speedup": math.nan}], "pair": (1.5, math.inf)})
    assert json.dumps(found, allow_nan=False) == '{"points": [{"ranks": 2, "speedup": null}], "pair": [1.5, null]}'
