import numpy as np
import pytest

from tests.helpers.drawn_figures import drawn, lines
from tests.helpers.limited_records import limited
from tests.helpers.own_records import make_record, save

pytestmark = pytest.mark.slow


def test_local_points_are_laid_over_the_panels_of_their_model(results):
    # 32 images in 1 s and 64 in 1.25 s: 51.2 / 32 = 1.6x on 2 ranks
    for nodes, step_s in ((1, 1.0), (2, 1.25)):
        swept = {"model": "resnet50", "dataset": "synthetic", "batch_per_rank": 32, "nodes": nodes}
        results.add(experiment="tf_benchmarks", nodes=nodes, batch_per_rank=32, step_s=step_s, swept=swept)
    figure = drawn("003-speedup", results.table())
    of = {axes.get_title(): axes for axes in figure.axes}
    for title in ("ResNet50, P100", "ResNet50, K80"):
        ends = [line.get_ydata() for line in of[title].get_lines() if len(line.get_xdata()) == 2]
        assert any(np.allclose(np.asarray(y, float), [1, 1.6]) for y in ends)
    assert not any("local" in label for label, _, _ in lines(figure) if label.startswith("Inception"))


def test_what_limits_local_points_is_in_the_panels_of_their_model_and_of_throughput_alone(results):
    for nodes in (1, 2):
        swept = {"model": "resnet50", "dataset": "synthetic", "batch_per_rank": 32, "nodes": nodes}
        run = make_record("tf_benchmarks", nodes=nodes, batch_per_rank=32, step_s=8.0, swept=swept)
        save(limited(run), results.folder)
    figure = drawn("003-throughput", results.table())
    limited_panels = {
        axes.get_title()
        for axes in figure.axes
        for line in axes.get_lines()
        if np.array_equal(line.get_ydata(), [5, 10])
    }
    assert limited_panels == {"ResNet50, P100", "ResNet50, K80"}
    assert not any("limit" in label for label, _, _ in lines(drawn("003-speedup", results.table())))
