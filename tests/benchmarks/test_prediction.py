from dataclasses import replace

import numpy as np
import pytest

from analysis.predict import calibration
from analysis.predict.prediction import Learned
from analysis.study import Study
from benchmarks import prediction
from benchmarks.prediction import Truth
from tests.helpers import ROOT
from tests.helpers.scaling_curves import LEARNED

FORM, OVERLAP, AMONG, BEYOND, *_ = prediction.TRUTHS


def held(truth, noise, learned=LEARNED, curves=60):
    row = prediction.simulate(truth, noise, learned, curves, np.random.default_rng(1))
    return float(row["interval holds"]), float(row["held or marked"]), float(row["supported"])


@pytest.mark.slow
def test_an_interval_that_is_too_narrow_would_show():
    jump = Truth("jumps after the points", lambda rng, per_node, largest: lambda n: 1 + 0.5 * (n > largest), True)
    narrow = Learned(LEARNED.weights, 0.001, 0.0, 0.0)
    assert held(jump, 0.001, narrow)[0] < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_the_interval_holds_the_form_itself_and_an_overlap(noise):
    """60 curves: a coverage of 0.9 is seen below 0.78 less than once in a hundred times."""
    assert held(FORM, noise)[0] > 0.78
    assert held(OVERLAP, noise)[0] > 0.78


def test_a_server_that_is_saturated_among_the_points_is_marked():
    _, marked, supported = held(AMONG, 0.01)
    assert marked > 0.9
    assert supported < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_a_server_that_saturates_beyond_the_points_is_covered_where_the_exchange_is_not_known(noise):
    assert held(BEYOND, noise)[0] > 0.78
    known = replace(BEYOND, allreduce=True)
    assert held(known, noise)[0] < 0.6


def test_a_simulated_curve_has_its_noise_and_no_more():
    rng = np.random.default_rng(2)
    flat = Truth("flat", lambda rng, per_node, largest: lambda n: np.ones(len(n)))
    found = [prediction.simulated(flat, 0.05, rng) for _ in range(200)]
    of_rank = np.concatenate([curve.images_per_s / curve.ranks for curve, _, _ in found])
    assert np.log(of_rank).std() == pytest.approx(0.05, rel=0.1)
    assert all(wanted > curve.largest for curve, wanted, _ in found)


@pytest.fixture
def published():
    return calibration.published_curves(Study().published)


def test_no_published_curve_above_eight_ranks_is_left_out(published):
    named = {(row["model"], row["curve"]) for row in prediction.checked_points(published.curves, published.checks)}
    assert named == {(of.model, of.name) for of in published.curves if of.largest > 8}
    assert len(named) == 10


def test_the_page_has_the_table_as_it_is(published):
    """Cell by cell; the spaces that align columns do not count."""
    page = [
        [cell.strip() for cell in line.split("|")] for line in (ROOT / "docs/prediction.md").read_text().splitlines()
    ]
    rows = [
        *prediction.checked_points(published.curves, published.checks),
        *prediction.held_by_machine(published.checks),
    ]
    assert len(rows) == 28 + 3
    assert [row for row in rows if ["", *row.values(), ""] not in page] == []
