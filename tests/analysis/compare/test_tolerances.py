import math

import pytest

from analysis import TableError
from analysis.compare import tolerances
from analysis.stats import between, exact
from analysis.stats.verdict import Bounds

ENTRY = {"quantity": '"efficiency_throughput"', "unit": '"fraction"', "value": '"published"'}


def read(folder, *entries):
    path = folder / "t.toml"
    tables = ["\n".join(["[[tolerance]]", *(f"{key} = {value}" for key, value in entry.items())]) for entry in entries]
    path.write_text("\n".join(tables))
    return tolerances.read(path)


@pytest.mark.parametrize(
    ("value", "upper", "bounds"),
    [(None, 0.25, (pytest.approx(7.2), pytest.approx(10.0))), (4.0, None, (pytest.approx(3.6), math.inf))],
)
def test_the_bounds_are_fractions_of_the_reference(value, upper, bounds):
    assert tolerances.Tolerance("speedup_throughput", "x", value, -0.1, upper).bounds(8.0) == Bounds(*bounds)


# A published number carries its rounding: 7 is 6.5 to 7.5. Within is what is allowed around both, 6.75 to 7.15; outside
# what is around neither.
SEVEN = between(7.0, 6.5, 7.5)


@pytest.mark.parametrize(
    ("published", "low", "high", "verdict"),
    [
        (exact(8.0), 7.3, 8.7, "within"),  # 7.2 to 8.8 around 8
        (exact(8.0), 5.0, 9.0, "not decidable"),  # wider than the tolerance
        (exact(8.0), 7.0, 7.5, "not decidable"),  # across the lower bound
        (exact(8.0), 6.0, 7.1, "outside"),
        (exact(8.0), 8.9, 9.5, "outside"),
        (exact(8.0), math.nan, math.nan, "not decidable"),  # no interval, no verdict
        (SEVEN, 6.8, 7.1, "within"),
        (SEVEN, 6.5, 6.7, "not decidable"),  # around 6.5 it would be, around 7.5 not
        (SEVEN, 8.2, 8.3, "not decidable"),
        (SEVEN, 8.3, 8.4, "outside"),
    ],
)
def test_the_whole_interval_decides(published, low, high, verdict):
    allowed = tolerances.Tolerance("speedup_throughput", "x", None, -0.1, 0.1)
    judged = allowed.judge(between((low + high) / 2, low, high), published)
    assert tolerances.VERDICT_NAMES[judged.outcome] == verdict


def test_the_first_entry_that_fits_counts(tmp_path):
    special = ENTRY | {"value": 0.9, "lower": -0.05, "model": '"vgg16"', "at": 2}
    entries = read(tmp_path, special, ENTRY | {"lower": -0.1})
    assert tolerances.find(entries, "efficiency_throughput", model="vgg16", at=2).value == 0.9
    assert tolerances.find(entries, "efficiency_throughput", model="vgg16", at=4).value is None
    assert tolerances.find(entries, "images_per_s", model="vgg16", at=4) is None


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (None, "not a readable list"),
        ({"quantity": '"efficiency"'}, "quantity = 'efficiency' given"),
        ({"unit": '"x"'}, "unit = 'x' given, must be 'fraction'"),
        ({"value": '"publshed"'}, "value = 'publshed' given, must be 'published' or a number"),
        ({"value": "nan"}, "value = nan given"),
        ({"lower": 0.1}, "lower = 0.1 given, must be a fraction of the value, 0 or negative"),
        ({"upper": -0.1}, "upper = -0.1 given"),
        ({"uper": 0.1}, "'uper' is not known"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path, wrong, error):
    with pytest.raises(TableError, match=rf"t\.toml: .*{error}"):
        read(tmp_path, *([] if wrong is None else [ENTRY | wrong]))


def test_the_tolerances_of_the_kit_are_well_formed():
    assert {"speedup_throughput", "speedup_wall_time", "order_by_throughput"} <= {t.quantity for t in tolerances.read()}
