import numpy as np
import pytest

from analysis import speedups
from analysis.experiments import summary
from analysis.experiments.points import point_bounds
from analysis.figures import plots, roofline
from tests.helpers.drawn_figures import drawn
from tests.helpers.own_records import limited, make_record, save
from tests.helpers.own_studies import strategies


@pytest.fixture
def local(results):
    """One and two nodes at 4 and 6.4 images/s; at most 5 images/s a rank by computing, and 160 by the link."""
    for nodes, step_s in ((1, 2.0), (2, 2.5)):
        save(limited(make_record(nodes=nodes, step_s=step_s, batch_per_rank=8)), results.folder)
    return results.table()


def test_a_point_has_its_own_limits_and_reaches_shares_of_them(local):
    runs = speedups.rates(local)
    result = point_bounds(local, runs[runs["nodes"].eq(2)])
    assert result == {roofline.COMPUTE: pytest.approx(10), roofline.LINK: pytest.approx(160)}
    one, two = summary.points(local)
    assert one.numbers["compute_limit_fraction"].value == pytest.approx(0.8)
    assert "link_limit_fraction" not in one.numbers
    assert two.numbers["compute_limit_fraction"].value == pytest.approx(0.64)
    assert two.numbers["link_limit_fraction"].value == pytest.approx(6.4 / 160)
    assert [row["of the\nlink limit"] for row in summary.rows(local).to_dict("records")] == ["", "0.04"]


@pytest.mark.slow
def test_panels_share_a_label_that_says_where_a_limit_is_off_scale(local):
    _, panels = plots.canvas(1, 2)
    for axes, highest in zip(panels, (6.4, 200.0), strict=True):
        axes.plot([1, 2], [4, highest])
        roofline.draw(axes, local, "nodes", prefix="local")
    roofline.one_label(panels)
    labels = {line.get_label() for axes in panels for line in axes.get_lines() if "limit" in line.get_label()}
    assert labels == {
        "local compute limit: direct convolution at the measured peak",
        "local link limit: ring allreduce at the measured bandwidth (partly off scale)",
    }


@pytest.mark.slow
def test_limits_are_lines_and_one_far_above_the_points_does_not_press_them_together(local):
    _, (axes,) = plots.canvas()
    axes.plot([1, 2], [4, 6.4])
    roofline.draw(axes, local, "nodes")
    drawn = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    assert any(np.array_equal(y, [5, 10]) for y in drawn.values())
    assert any(np.array_equal(y, [160, 160]) for y in drawn.values())
    assert "compute limit: direct convolution at the measured peak" in drawn
    assert "link limit: ring allreduce at the measured bandwidth (off scale)" in drawn
    assert 10 < axes.get_ylim()[1] < 20


@pytest.mark.slow
def test_arms_of_a_model_have_one_limit_in_a_colour_that_no_arm_has(results):
    strategies(results.folder)
    table = results.table()
    held_up = table["quantity"].eq(roofline.COMPUTE) & table["arm"].eq("mwms")  # while its limit was measured
    figure = drawn("own-strategies-throughput", table.assign(value=table["value"].mask(held_up, table["value"] / 2)))
    limits_drawn = [line for line in figure.axes[0].get_lines() if np.array_equal(line.get_ydata(), [5, 10])]
    assert [line.get_color() for line in limits_drawn] == [plots.GREY]
    assert limits_drawn[0].get_xdata().tolist() == [1, 2]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "compute limit: direct convolution at the measured peak" in labels


@pytest.mark.slow
def test_arms_of_other_precision_have_another_roofline(results):
    for precision, times_s in (("fp32", 0.02), ("bf16", 0.01)):
        arm_rows = {"arm": precision, "arm_keys": ["precision"], "precision": precision}
        run = limited(make_record("mine", swept={"nodes": 1}, **arm_rows))
        run.ranks[0].matrix_products[0].times_s = [times_s]
        save(run, results.folder)
    _, (axes,) = plots.canvas()
    axes.plot([1], [16])
    roofline.draw(axes, results.table(), "nodes")
    result = {y: line.get_color() for line in axes.get_lines() for y in line.get_ydata()[:1]}
    assert result[5.0] != result[10.0]
