import pytest

from analysis.study import Study
from tests.helpers.drawn_figures import drawn, lines
from tests.helpers.own_records import limited, make_record, save

pytestmark = pytest.mark.slow


def test_a_point_that_shared_cores_is_hollow_and_says_so(results):
    results.add(nodes=1)
    crowded = make_record(nodes=2)
    crowded.cores_shared = True
    save(crowded, results.folder)
    figure = drawn("001-figure-5", results.table())
    hollow = [
        line for line in figure.axes[0].get_lines() if line.get_markerfacecolor() == "white" and len(line.get_xdata())
    ]
    assert [list(line.get_xdata()) for line in hollow] == [[2]]
    assert "shared cores" in figure.legends[0].get_title().get_text()


def test_lost_points_are_not_made_up(tmp_path):
    none = Study(tmp_path).local
    for id in ("002-throughput", "001-figure-8"):
        assert {label for label, x, _ in lines(drawn(id, none)) if len(x)} == {"ideal"}
    # figure 5: the ends alone, and ideal lines
    marks = [x.tolist() for label, x, y in lines(drawn("001-figure-5", none)) if len(x) == 2]
    assert marks
    assert all(x == [1, 8] for x in marks)


def test_what_limits_local_points_is_drawn_beside_the_published_ones(results):
    for nodes in (1, 2):
        save(limited(make_record(nodes=nodes, step_s=2.0)), results.folder)
    figure = drawn("001-figure-5", results.table())
    # 5 images/s a rank (tests/helpers/own_records.py)
    assert any(x.tolist() == [1, 2] and y.tolist() == pytest.approx([5, 10]) for _, x, y in lines(figure))
    low, high = figure.axes[0].get_ylim()
    assert low < 4 < 10 < high
    assert "local compute limit: direct convolution at the measured peak" in {label for label, _, _ in lines(figure)}
