import numpy as np
import pytest

from tests.helpers.drawn_figures import drawn, lines

pytestmark = pytest.mark.slow


def test_local_throughput_is_relative_to_its_smallest_point(results):
    for nodes, step_s in ((1, 0.5), (2, 0.625)):  # 16 and 25.6 images/s
        results.add(experiment="bnl_throughput", model="alexnet", nodes=nodes, step_s=step_s)
    figure = drawn("002-throughput", results.table())
    assert any(x.tolist() == [1, 2] and np.allclose(y, [1, 1.6]) for _, x, y in lines(figure))
