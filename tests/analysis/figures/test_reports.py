from dataclasses import replace

import numpy as np
import pytest

from analysis.study import Study
from tests.helpers.drawn_figures import draw, lines
from tests.helpers.run_records import make_record, save
from tests.helpers.studies import EPOCHS, strategies

pytestmark = pytest.mark.slow


def legend(figure):
    return [text.get_text().replace("\n", " ") for text in figure.legends[0].get_texts()]


def test_a_published_curve_is_where_it_was_printed():
    speedups = [y for _, x, y in lines(draw("000-vgg19", Study().local)) if x.tolist() == [1, 2, 4, 8, 16, 32]]
    by_time = 193.45 / np.array([193.45, 101.92, 55.03, 30.83, 18.32, 19.2])
    by_speed = np.array([170.24, 169.37, 165.11, 165.72, 164.77, 163.91]) * [1, 2, 4, 8, 16, 32] / 170.24
    for expected in (by_time, by_speed):
        assert any(np.allclose(y, expected) for y in speedups)


def test_a_printed_speed_of_zero_is_left_out():
    result = lines(draw("000-efficiency-speed", Study().local))
    assert all((y > 0.9).all() for _, x, y in result if len(x) > 2)
    assert any(x.tolist() == [1, 2, 4, 8] for _, x, _ in result)


def test_a_point_that_shared_cores_is_hollow_and_says_so(results):
    results.add(nodes=1)
    save(replace(make_record(nodes=2), cores_shared=True), results.folder)
    figure = draw("001-figure-5", results.table())
    hollow = [line.get_xdata() for line in figure.axes[0].get_lines() if line.get_markerfacecolor() == "white"]
    assert [x.tolist() for x in hollow if len(x)] == [[2]]
    assert "shared cores" in figure.legends[0].get_title().get_text()


def test_lost_points_are_not_made_up():
    local = Study().local
    for id in ("002-throughput", "001-figure-8"):
        assert {label for label, x, _ in lines(draw(id, local)) if len(x)} == {"ideal"}
    # figure 5: the ends alone, and ideal lines
    assert {tuple(x) for _, x, _ in lines(draw("001-figure-5", local)) if len(x) == 2} == {(1, 8)}


def test_local_points_and_strategies_are_relative_to_their_smallest_point(results):
    for nodes, step_s in ((1, 0.5), (2, 0.625)):  # 16 and 25.6 images/s
        results.add(experiment="bnl_throughput", model="alexnet", nodes=nodes, step_s=step_s)
    strategies(results.folder)
    figure = draw("002-throughput", results.table())
    assert any(x.tolist() == [1, 2] and np.allclose(y, [1, 1.6]) for _, x, y in lines(figure))
    # 16 images in 0.5 and 0.7 s, over 8 in 0.4 s: 32 / 20 and 22.9 / 20
    at_two = [float(y[0]) for _, x, y in lines(figure) if len(x) == 1 and x == pytest.approx(2, rel=0.07)]
    assert pytest.approx(1.6) in at_two
    assert pytest.approx(16 / 0.7 / 20) in at_two
    labels = [label for label in legend(figure) if "ResNet50" in label]
    assert labels == ["ResNet50, local, n=6, horovod", "ResNet50, local, n=6, mwms"]


def tf_benchmarks(nodes, step_s, dataset="synthetic", **more):
    """A run of the experiment of the report, with a batch of 32 a rank."""
    swept = {"model": "resnet50", "dataset": dataset, "batch_per_rank": 32, "nodes": nodes}
    run = {"nodes": nodes, "batch_per_rank": 32, "step_s": step_s, "swept": swept, "dataset": {"name": dataset}}
    return make_record("tf_benchmarks", **run, **more)


def panels(figure):
    """The lines of each panel, by its title."""
    return {axes.get_title(): axes.get_lines() for axes in figure.axes}


def test_local_points_are_drawn_in_the_panels_of_their_model(results):
    # 32 images in 1 s and 64 in 1.25 s: 51.2 / 32 = 1.6x on 2 ranks
    for nodes, step_s in ((1, 1.0), (2, 1.25)):
        save(tf_benchmarks(nodes, step_s), results.folder)
    lines_by_panel = panels(draw("003-speedup", results.table()))
    for title in ("ResNet50, P100", "ResNet50, K80"):
        ends = [np.asarray(line.get_ydata(), float) for line in lines_by_panel[title] if len(line.get_xdata()) == 2]
        assert any(np.allclose(y, [1, 1.6]) for y in ends)
    assert not any("n=" in line.get_label() for line in lines_by_panel["Inception v3, P100"])


def test_strategies_and_what_limits_them_are_further_lines_in_the_panels_of_their_model(results):
    """Throughputs are on one rank too, where the strategy is `one-rank-alone`, and have limits."""
    strategies(results.folder)
    for id, alone in (("003-throughput", ["one-rank-alone"]), ("003-speedup", [])):
        figure = draw(id, results.table())
        labels = [f"local, n=6, {arm}" for arm in ("horovod", "mwms", *alone)]
        assert [text for text in legend(figure) if text.startswith("local, n=")] == labels
        with_model = {title for title, panel in panels(figure).items() if labels[1] in {x.get_label() for x in panel}}
        assert with_model == {"ResNet50, P100", "ResNet50, K80"}
        limited = {title for title, panel in panels(figure).items()
                   for line in panel if np.array_equal(line.get_ydata(), [5, 10])}  # fmt: skip
        assert limited == (with_model if alone else set())


def test_ratios_are_taken_within_one_strategy(results):
    # Synthetic images are 1.5 times as fast with each strategy; a ratio across strategies would be wrong.
    for backend, slower in (("horovod", 1.0), ("mwms", 2.0)):
        for dataset, step_s in (("synthetic", 1.0), ("imagenet", 1.5)):
            run = tf_benchmarks(2, step_s * slower, dataset, **{"distribution.backend": backend})
            save(run, results.folder)
    figure = draw("003-synthetic-real", results.table())
    expected = {f"local, batch 32, ResNet50, n=1, distribution {backend}" for backend in ("horovod", "mwms")}
    assert {label for label in legend(figure) if label.startswith("local")} == expected
    ratios = [float(y[0]) for _, x, y in lines(figure) if x.tolist() == [2]]
    assert len(ratios) >= 2
    assert ratios == pytest.approx([1.5] * len(ratios))


def test_local_fruit_and_local_caltech256_are_distinguished(results):
    for experiment in ("fruit", "caltech256"):
        for nodes in (2, 4):
            results.add(experiment=experiment, model="tiny", nodes=nodes, step_s=0.1, epochs=EPOCHS)
    result = draw("004-epoch-time", results.table()).axes[0].get_lines()
    lines_by_dataset = {line.get_label().split(",")[0]: line for line in result if ", local" in line.get_label()}
    for getter in ("get_color", "get_marker", "get_linestyle"):
        assert getattr(lines_by_dataset["fruit"], getter)() != getattr(lines_by_dataset["Caltech256"], getter)()
