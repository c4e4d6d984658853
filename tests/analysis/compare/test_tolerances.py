import math

import pytest

from analysis import TableError
from analysis.compare import tolerances
from analysis.stats import between, exact
from analysis.stats.verdict import Bounds


def write(path, text):
    (path / "t.toml").write_text(text)
    return path / "t.toml"


ENTRY = '[[tolerance]]\nquantity = "efficiency_throughput"\nunit = "fraction"\n'


def test_the_bounds_are_fractions_of_the_reference():
    given = tolerances.Tolerance("speedup_throughput", "x", None, -0.1, 0.25)
    assert given.bounds(8.0) == Bounds(pytest.approx(7.2), pytest.approx(10.0))
    own = tolerances.Tolerance("speedup_throughput", "x", 4.0, -0.1, None)
    assert own.bounds(8.0) == Bounds(pytest.approx(3.6), math.inf)


ALLOWED = tolerances.Tolerance("speedup_throughput", "x", None, -0.1, 0.1)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (7.3, 8.7, "within"),  # 7.2 to 8.8 around 8
        (5.0, 9.0, "not decidable"),  # wider than the tolerance
        (7.0, 7.5, "not decidable"),  # across the lower bound
        (6.0, 7.1, "outside"),
        (8.9, 9.5, "outside"),
        (math.nan, math.nan, "not decidable"),  # no interval, no verdict
    ],
)
def test_the_whole_interval_decides(low, high, verdict):
    judged = ALLOWED.judge(between(8.0, low, high), exact(8.0))
    assert tolerances.VERDICT_NAMES[judged.outcome] == verdict


def test_a_published_number_carries_its_rounding():
    # 7 is 6.5 to 7.5: within is what is allowed around both, 6.75 to 7.15; outside what is around neither
    seven = between(7.0, 6.5, 7.5)

    def verdict(low, high):
        return tolerances.VERDICT_NAMES[ALLOWED.judge(between(7.0, low, high), seven).outcome]

    assert verdict(6.8, 7.1) == "within"
    assert verdict(6.5, 6.7) == "not decidable"  # around 6.5 it would be, around 7.5 not
    assert verdict(8.2, 8.3) == "not decidable"
    assert verdict(8.3, 8.4) == "outside"


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
    assert {"speedup_throughput", "speedup_wall_time", "order_by_throughput"} <= {t.quantity for t in tolerances.read()}
