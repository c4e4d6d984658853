import numpy as np
import pytest

from analysis.figures.experiments.settings import placed
from tests.helpers.drawn_figures import drawn, lines

LINK = "system.link_mbit_per_s"


def add_momentum(results, momentum, step_s, **more):
    optimizer = {"name": "sgd", "learning_rate": 0.01, "learning_rate_scaling": "none", "momentum": momentum}
    swept = {"model": "resnet50", "optimizer.momentum": momentum}
    results.add(experiment="mine", step_s=step_s, optimizer=optimizer, swept=swept, **more)


def test_null_comes_last_and_values_in_proportion(results):
    for link in (None, 100, 1000, 500):
        results.add(experiment="mine", swept={LINK: link}, system={"name": "laptop", "link_mbit_per_s": link})
    table, values = placed(results.table())
    assert values[:3] == [100, 500, 1000]
    assert np.isnan(values[3])
    runs = table.drop_duplicates("record").sort_values("place")
    assert runs["place"].tolist() == [0, 1, 2, 3]
    assert runs["axis_value"].tolist()[:3] == [100, 500, 1000]


@pytest.mark.slow
def test_a_sweep_of_any_number_is_drawn_over_its_values(results):
    # 8 images in 0.5 s and 0.4 s: 16 and 20 images/s
    for repeat in range(2):
        for momentum, step_s in ((0.0, 0.5), (0.5, 0.5), (0.9, 0.4)):
            add_momentum(results, momentum, step_s, repeat=repeat)
    figure = drawn("own-mine-throughput", results.table())
    (curve,) = [(x, y) for _, x, y in lines(figure) if len(x) == 3 and x[0] != x[-1]][:1]
    assert np.allclose(curve[0], [0, 0.5, 0.9])
    assert np.allclose(curve[1], [16, 16, 20])
    assert figure.axes[0].get_xlabel() == "optimizer.momentum"
    assert "ResNet50, local, n=2" in [label for label, _, _ in lines(figure)]


@pytest.mark.slow
def test_series_without_an_axis_stand_side_by_side(results):
    for optimizer in ("sgd", "adam"):
        values = {"name": optimizer, "learning_rate": 0.01, "learning_rate_scaling": "none"}
        results.add(experiment="mine", optimizer=values, swept={"optimizer": optimizer})
    figure = drawn("own-mine-throughput", results.table())
    labels = {text.get_text() for text in figure.axes[0].get_yticklabels()}
    assert labels == {"ResNet50, n=1\nadam", "ResNet50, n=1\nsgd"}


@pytest.mark.slow
def test_a_node_that_is_divided_shows_its_ranks_and_threads(results):
    for ranks in (1, 2):
        results.add(
            experiment="mine", ranks_per_node=ranks, threads_per_rank=4 // ranks, batch_per_rank=8 // ranks,
            derived=["batch_per_rank", "threads_per_rank"], swept={"ranks_per_node": ranks},
        )  # fmt: skip
    figure = drawn("own-mine", results.table())
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["1 x 4", "2 x 2"]
