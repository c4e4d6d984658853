import numpy as np
import pytest

from analysis.predict import calibration
from analysis.study import Study
from benchmarks import prediction
from tests.helpers import ROOT
from tests.helpers.scaling_curves import LEARNED


def held(physics, noise=0.01, learned=LEARNED):
    return float(prediction.simulate(physics, learned, 60, noise)["held"])


@pytest.mark.parametrize("physics", prediction.PHYSICS)
def test_the_interval_holds_simulated_physics(physics):
    """60 curves to 32, 64 and 128 ranks: with a coverage of 0.9, fewer than 0.80 are held once in 100 times.

    A dip at the largest point is continued.
    """
    assert held(physics) > (0.7 if physics is prediction.dip else 0.8)


def test_an_interval_that_is_too_narrow_would_show():
    def falls(rng, per_node):
        return lambda n: np.where(n > 16, n / 4, 1.0)

    assert held(falls) < 0.1


@pytest.mark.slow
def test_the_page_has_the_table_of_public_curves_as_it_is():
    """Cells are compared without the spaces that align columns."""
    lines = (ROOT / "docs/validation.md").read_text().splitlines()
    page = [[cell.strip() for cell in line.split("|")] for line in lines]
    rows = list(prediction.public(prediction.all_checks(calibration.published_curves(Study().published))))
    assert {"BSC", "dgx-1", "ec2", "DLPerf", "all"} < {row["curves"] for row in rows}
    assert [row for row in rows if row["curves"] == "all" and ["", *row.values(), ""] not in page] == []
