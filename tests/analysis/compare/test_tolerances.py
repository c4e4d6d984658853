import math

import pytest

from analysis import TableError
from analysis.compare import tolerances


def write(path, text):
    (path / "t.toml").write_text(text)
    return path / "t.toml"


ENTRY = '[[tolerance]]\nquantity = "efficiency_throughput"\nunit = "fraction"\n'


def test_the_bounds_are_fractions_of_the_reference():
    given = tolerances.Tolerance("speedup_throughput", "x", None, -0.1, 0.25)
    assert given.bounds(8.0) == pytest.approx((7.2, 10.0))
    own = tolerances.Tolerance("speedup_throughput", "x", 4.0, -0.1, None)
    assert own.bounds(8.0) == (pytest.approx(3.6), math.inf)


@pytest.mark.parametrize(
    ("value", "low", "high", "verdict"),
    [
        (0.9, 0.86, 0.94, "within"),
        (0.9, 0.70, 1.10, "not decidable"),  # wider than the tolerance
        (0.8, 0.70, 0.86, "not decidable"),  # across the lower bound
        (0.8, 0.75, 0.84, "outside"),
        (1.1, 1.05, 1.15, "outside"),
        (0.85, math.nan, math.nan, "within"),  # on the bound
        (0.84, math.nan, math.nan, "outside"),
    ],
)
def test_the_whole_interval_decides(value, low, high, verdict):
    assert tolerances.judge(value, low, high, (0.85, 1.0)) == verdict


def test_the_first_entry_that_fits_counts(tmp_path):
    special = ENTRY + 'value = 0.9\nlower = -0.05\nmodel = "vgg16"\nat = 2\n'
    read = tolerances.read(write(tmp_path, special + ENTRY + 'value = "published"\nlower = -0.1\n'))
    assert tolerances.find(read, "efficiency_throughput", model="vgg16", at=2).value == 0.9
    assert tolerances.find(read, "efficiency_throughput", model="vgg16", at=4).value is None
    assert tolerances.find(read, "images_per_s", model="vgg16", at=4) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a readable list"),
        (ENTRY.replace("efficiency_throughput", "efficiency") + 'value = "published"', "quantity = 'efficiency' given"),
        (ENTRY.replace("fraction", "x") + 'value = "published"', "unit = 'x' given, must be 'fraction'"),
        (ENTRY + 'value = "publshed"', "value = 'publshed' given, must be 'published' or a number"),
        (ENTRY + "value = nan", "value = nan given"),
        (
            ENTRY + 'value = "published"\nlower = 0.1',
            "lower = 0.1 given, must be a fraction of the value, 0 or negative",
        ),
        (ENTRY + 'value = "published"\nupper = -0.1', "upper = -0.1 given"),
        (ENTRY + 'value = "published"\nuper = 0.1', "'uper' is not known"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path, text, said):
    with pytest.raises(TableError, match=r"t\.toml") as error:
        tolerances.read(write(tmp_path, text))
    assert said in str(error.value)


def test_the_tolerances_of_the_kit_are_well_formed():
    assert {"speedup_throughput", "efficiency_wall_time", "order_by_throughput"} <= {
        t.quantity for t in tolerances.read()
    }
