from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis import speedups
from analysis.experiments import point_bounds, summary_points
from analysis.figures import plots
from analysis.study import Study
from analysis.table.hardware import COMPUTE, LINK
from tests.helpers.drawn_figures import draw
from tests.helpers.run_records import make_record, save, with_roofline


def test_lines_whose_markers_would_hide_each_other_are_moved_apart():
    """On an axis with two x the lines may take a quarter of the width each: 50 points of 200."""
    first, near, far = (plots.DrawnLine("", [1.0, 2.0], [1.0, y]) for y in (0.7, 0.72, 0.68))
    alone, control = plots.DrawnLine("", [4.0], [1.0]), plots.DrawnLine("", [2.0], [0.97])
    assert plots.offsets([first, near, far, alone, control], 200.0) == [-8.0, 0.0, 8.0, 0.0, 0.0]
    assert plots.offsets([control, first], 200.0) == [0.0, 0.0]
    rates = [plots.DrawnLine("", [1.0], [y]) for y in (1.96, 2.14, 2.5)]  # 8 and 14 % apart
    assert plots.offsets(rates, 200.0) == [-4.0, 4.0, 0.0]
    many = plots.offsets([first] * 15, 200.0)
    assert many == sorted(many)
    assert many[-1] - many[0] == pytest.approx(50.0)


@pytest.fixture
def local(results):
    """One and two nodes at 4 and 6.4 images/s; at most 5 images/s a rank by computing, and 160 by the link."""
    for nodes, step_s in ((1, 2.0), (2, 2.5)):
        save(with_roofline(make_record(nodes=nodes, step_s=step_s, batch_per_rank=8)), results.folder)
    return results.table()


def test_a_point_has_its_own_limits_and_reaches_shares_of_them(local):
    runs = speedups.rates(local)
    result = point_bounds(speedups.rows_of_point(local, runs[runs["nodes"].eq(2)]))
    assert result == {COMPUTE: pytest.approx(10), LINK: pytest.approx(160)}
    one, two = summary_points.points(local)
    assert [point.numbers["compute_limit_fraction"].value for point in (one, two)] == pytest.approx([0.8, 0.64])
    assert "link_limit_fraction" not in one.numbers
    assert two.numbers["link_limit_fraction"].value == pytest.approx(6.4 / 160)
    assert [row["of the\nlink limit"] for row in summary_points.rows(local).to_dict("records")] == ["", "0.04"]


@pytest.mark.slow
def test_limits_near_the_points_are_lines_with_one_label_each_and_others_are_left_out(local):
    def drawn(axes):
        lines = [line for line in axes.get_lines() if line.get_linewidth() == plots._BOUND_WIDTH]
        return {line.get_label() for line in lines if not len(line.get_xdata())}, [
            tuple(line.get_ydata()) for line in lines if len(line.get_xdata())
        ]

    faster = local.assign(model="vgg16", value=local["value"].mask(local["quantity"].eq(LINK), 640))
    compute, link = "limit of direct convolution", "limit of ring allreduce"
    for table, highest, labels, bounds in (
        (local, 6.4, {compute}, [(5, 10)]),
        (local, 200.0, {compute, link}, [(5, 10), (160, 160)]),
        (pd.concat([local, faster]), 54.0, {compute, link}, [(5, 10), (5, 10), (160, 160)]),  # 160 < 3 x 54 < 640
    ):
        _, (axes,) = plots.canvas()
        axes.plot([1, 2], [4, highest])
        plots.draw_bounds(axes, table, "nodes")
        assert drawn(axes) == (labels, bounds)
        assert axes.get_ylim()[1] < 1.3 * max(highest, *bounds[-1])


@pytest.mark.slow
def test_arms_of_other_precision_have_another_roofline(results):
    for precision, times_s in (("fp32", 0.02), ("bf16", 0.01)):
        arm_rows = {"arm": precision, "arm_keys": ["precision"], "precision": precision}
        run = with_roofline(make_record("mine", swept={"nodes": 1}, **arm_rows))
        run.ranks[0].matrix_products[0].times_s = [times_s]
        save(run, results.folder)
    _, (axes,) = plots.canvas()
    axes.plot([1], [16])
    plots.draw_bounds(axes, results.table(), "nodes")
    result = {y: line.get_color() for line in axes.get_lines() for y in line.get_ydata()[:1]}
    assert result[5.0] != result[10.0]


def test_a_model_has_one_colour_by_each_of_its_names_and_others_keep_theirs():
    assert {plots.colour(name) for name in ("vgg16", "vgg19", "VGG16")} == {plots.BLUE}
    assert plots.colour("Inception v3") == plots.colour("inceptionv3") == plots.GREEN
    families = {plots.colour(name) for name in ("vgg16", "resnet50", "inceptionv3", "alexnet", "googlenet")}
    others = {plots.colour(f"mine{number}") for number in range(20)}
    assert others == {plots.SKY, plots.INDIGO, plots.OLIVE}
    assert not families & others
    assert plots.local_marker("mine") == plots.local_marker("mine")


def marks(axes):
    """Return the x of each mark, the horizontal position at which it is drawn, and the colour of its face."""
    lines = [line for line in axes.get_lines() if line.get_marker() not in ("", "None")]
    return [
        (x, line.get_transform().transform((x, y))[0], line.get_markerfacecolor())
        for line in lines
        for x, y in zip(np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float), strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("id", ["000-vgg19", "000-efficiency-speed", "001-figure-5", "003-speedup", "003-throughput"])
def test_each_mark_of_a_published_figure_is_drawn_at_its_x(id):
    for axes in draw(id, Study().local).axes:
        drawn = marks(axes)
        assert drawn
        assert [x for _, x, _ in drawn] == pytest.approx([axes.transData.transform((x, 1))[0] for x, *_ in drawn])


@pytest.mark.slow
def test_a_published_line_is_hollow_where_it_would_hide_another_but_no_measured_one_is():
    first, near, far = (plots.DrawnLine("", [8.0], [y]) for y in (7.4, 7.5, 4.0))
    measured = plots.DrawnLine("", [8.0], [7.4], low=[7.3], high=[7.5])
    _, (axes,) = plots.canvas()
    plots.draw(axes, [first, near, far, measured])
    assert [face for *_, face in marks(axes)] == [plots.BLACK, "none", plots.BLACK, plots.BLACK]
    _, (axes,) = plots.canvas()
    plots.draw(axes, [replace(first, shared=[True]), near])
    assert [face for *_, face in marks(axes)] == ["white", plots.BLACK]


@pytest.mark.parametrize(
    ("y", "ticks"), [([64, 190], [70, 100, 150, 200]), ([20, 38], [20, 30]), ([5, 160], [5, 10, 20, 50, 100])]
)
def test_a_short_logarithmic_axis_has_more_ticks(y, ticks):
    _, (axes,) = plots.canvas()
    axes.plot([1, 2], y)
    plots.logarithmic(axes, "")
    low, high = axes.get_ylim()
    assert [tick for tick in axes.get_yticks() if low <= tick <= high] == pytest.approx(ticks)
