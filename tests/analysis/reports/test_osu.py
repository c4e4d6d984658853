import pytest

from analysis.table import loading
from tests.helpers.drawn_figures import drawn, lines
from tests.helpers.own_records import make_record, save

pytestmark = pytest.mark.slow


def test_a_point_that_shared_cores_is_hollow_and_says_so(results):
    results.add(nodes=1)
    crowded = make_record(nodes=2)
    crowded.cores_shared = True
    save(crowded, results.folder)
    figure = drawn("001-figure-5", loading.local(results.folder).table)
    hollow = [
        line for line in figure.axes[0].get_lines() if line.get_markerfacecolor() == "white" and len(line.get_xdata())
    ]
    assert [list(line.get_xdata()) for line in hollow] == [[2]]
    assert "shared cores" in figure.legends[0].get_title().get_text()


def test_lost_points_are_not_made_up(tmp_path):
    none = loading.local(tmp_path).table
    for id in ("002-throughput", "001-figure-8"):
        assert {label for label, x, _ in lines(drawn(id, none)) if len(x)} == {"ideal"}
    # figure 5: the ends alone, and ideal lines
    marks = [x.tolist() for label, x, y in lines(drawn("001-figure-5", none)) if len(x) == 2]
    assert marks
    assert all(x == [1, 8] for x in marks)
