import numpy as np
import pytest

from tests.helpers.drawn_figures import drawn, lines
from tests.helpers.own_studies import strategies

pytestmark = pytest.mark.slow


def test_local_throughput_is_relative_to_its_smallest_point(results):
    for nodes, step_s in ((1, 0.5), (2, 0.625)):  # 16 and 25.6 images/s
        results.add(experiment="bnl_throughput", model="alexnet", nodes=nodes, step_s=step_s)
    figure = drawn("002-throughput", results.table())
    assert any(x.tolist() == [1, 2] and np.allclose(y, [1, 1.6]) for _, x, y in lines(figure))


def test_strategies_are_further_lines_relative_to_one_rank_alone(results):
    for nodes, step_s in ((1, 0.5), (2, 0.625)):
        results.add(experiment="bnl_throughput", model="alexnet", nodes=nodes, step_s=step_s)
    strategies(results.folder)
    figure = drawn("002-throughput", results.table())
    # 16 images in 0.5 and 0.7 s, over 8 in 0.4 s: 32 / 20 and 22.9 / 20
    at_two = [float(y[0]) for _, x, y in lines(figure) if len(x) == 1 and x == pytest.approx(2, rel=0.07)]
    assert pytest.approx(1.6) in at_two
    assert pytest.approx(16 / 0.7 / 20) in at_two
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [label for label in labels if "ResNet50" in label] == [
        "ResNet50, local, n=6, horovod", "ResNet50, local, n=6, mwms",
    ]  # fmt: skip
