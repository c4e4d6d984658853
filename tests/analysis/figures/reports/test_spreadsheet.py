import numpy as np
import pytest

from tests.helpers.drawn_figures import drawn, lines
from tests.helpers.own_records import limited, make_record, save
from tests.helpers.own_studies import strategies

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


@pytest.mark.parametrize(("id", "alone"), [("003-throughput", 1), ("003-speedup", 0), ("003-efficiency", 0)])
def test_strategies_are_further_lines_in_the_panels_of_their_model(results, id, alone):
    strategies(results.folder)
    figure = drawn(id, results.table())
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [label for label in labels if label.startswith("local, n=")] == [
        "local, n=6, horovod", "local, n=6, mwms", *["local, n=6, one-rank-alone"] * alone,
    ]  # fmt: skip
    of = {axes.get_title(): {line.get_label() for line in axes.get_lines()} for axes in figure.axes}
    assert "local, n=6, mwms" in of["ResNet50, P100"] & of["ResNet50, K80"]
    assert "local, n=6, mwms" not in of["Inception v3, P100"]


def test_ratios_are_taken_within_one_strategy(results):
    # With each strategy synthetic images are 1.5 times as fast; across them it would be anything.
    for backend, slower in (("horovod", 1.0), ("mwms", 2.0)):
        for dataset, step_s in (("synthetic", 1.0), ("imagenet", 1.5)):
            swept = {"model": "resnet50", "dataset": dataset, "batch_per_rank": 32, "nodes": 2}
            results.add(
                experiment="tf_benchmarks", nodes=2, batch_per_rank=32, step_s=step_s * slower, swept=swept,
                dataset={"name": dataset}, **{"distribution.backend": backend},
            )  # fmt: skip
    figure = drawn("003-synthetic-real", results.table())
    labels = [text.get_text() for text in figure.legends[0].get_texts() if text.get_text().startswith("local")]
    assert sorted(labels) == [
        "local, batch 32, ResNet50, n=1, distribution horovod", "local, batch 32, ResNet50, n=1, distribution mwms",
    ]  # fmt: skip
    own = [float(y[0]) for _, x, y in lines(figure) if x.tolist() == [2]]
    assert own == pytest.approx([1.5] * len(own))
    assert len(own) >= 2


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
