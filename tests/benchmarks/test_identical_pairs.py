import numpy as np
import pytest

from benchmarks import identical_pairs
from benchmarks.identical_pairs import Pair


def test_one_launch_on_each_side_is_not_judged():
    row = identical_pairs.line(Pair(0.02, 1, 1, 1), 20)
    assert row["called different"] == "not judged"


@pytest.mark.slow
@pytest.mark.parametrize("pair", [Pair(0.03, 2, 2, 3), Pair(0.03, 1, 3, 1), Pair(0.0, 3, 3, 3)])
def test_identical_pairs_are_seldom_called_different(pair):
    row = identical_pairs.line(pair, 150)
    assert float(row["called different"]) <= 0.10


def test_a_pair_that_differs_is_found():
    rng = np.random.default_rng(3)
    ratios = [identical_pairs.ratio(rng, Pair(0.3, 3, 1, 1)).value for _ in range(50)]
    assert np.std(np.log(ratios)) == pytest.approx(0.3 * np.sqrt(1 / 3 + 1), rel=0.3)
