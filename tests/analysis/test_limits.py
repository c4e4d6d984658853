import numpy as np
import pytest

from analysis import limits, metrics, plots
from analysis.experiments import summary
from tests.helpers.limited_records import limited
from tests.helpers.own_records import make_record, save


@pytest.fixture
def local(results):
    """One and two nodes at 4 and 6.4 images/s; at most 5 images/s a rank by computing, and 160 by the link."""
    for nodes, step_s in ((1, 2.0), (2, 2.5)):
        save(limited(make_record(nodes=nodes, step_s=step_s, batch_per_rank=8)), results.folder)
    return results.table()


def test_a_point_has_its_own_limits_and_reaches_shares_of_them(local):
    runs = metrics.rates(local)
    found = limits.of_point(local, runs[runs["nodes"].eq(2)])
    assert found == {limits.COMPUTE: pytest.approx(10), limits.LINK: pytest.approx(160)}
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
        limits.draw(axes, local, "nodes", whose="local")
    limits.one_label(panels)
    labels = {line.get_label() for axes in panels for line in axes.get_lines() if "limit" in line.get_label()}
    assert labels == {
        "local compute limit: direct convolution at the measured peak",
        "local link limit: ring allreduce at the measured bandwidth (partly off scale)",
    }


@pytest.mark.slow
def test_limits_are_lines_and_one_far_above_the_points_does_not_press_them_together(local):
    _, (axes,) = plots.canvas()
    axes.plot([1, 2], [4, 6.4])
    limits.draw(axes, local, "nodes")
    drawn = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    assert any(np.array_equal(y, [5, 10]) for y in drawn.values())
    assert any(np.array_equal(y, [160, 160]) for y in drawn.values())
    assert "compute limit: direct convolution at the measured peak" in drawn
    assert "link limit: ring allreduce at the measured bandwidth (off scale)" in drawn
    assert 10 < axes.get_ylim()[1] < 20
