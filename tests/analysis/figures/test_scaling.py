from statistics import fmean

import numpy as np
import pytest

from analysis.figures.scaling import time_ticks
from tests.helpers.drawn_figures import draw, lines
from tests.helpers.run_records import NO_ALLREDUCE, QUOTA, make_program, make_rounds, save
from tests.helpers.studies import curve_in_rounds

pytestmark = pytest.mark.slow


def test_local_points_are_where_they_were_measured_with_their_interval(results):
    # 8 images in 0.5 s on one node: 16 images/s; 16 in 0.4 to 0.5 s on two: the median of the geometric means of all
    # pairs is 35.63, and six values hold the median of all launches in 1 - 2 / 2**6 = 0.97 of cases
    results.add(nodes=1, step_s=0.5)
    for repeat, step in enumerate((0.4, 0.42, 0.44, 0.46, 0.48, 0.5)):
        results.add(nodes=2, step_s=step, repeat=repeat)
    figure = draw("own-weak-scaling-throughput", results.table())
    assert any(x.tolist() == [1, 2] and np.allclose(y, [16, 35.634832]) for _, x, y in lines(figure))
    (bars,) = [c for c in figure.axes[0].containers if c.has_yerr]
    assert bars.lines[2][0].get_segments()[-1][:, 1] == pytest.approx([16 / 0.5, 16 / 0.4])
    assert "none of fewer than 6 launches" in figure.legends[0].get_title().get_text()


def test_a_curve_in_rounds_has_its_intervals_its_rounds_and_the_control(results):
    curve_in_rounds(results.folder)
    top, bottom = draw("own-weak-scaling-efficiency", results.table()).axes
    at = {tuple(line.get_xdata()): line.get_ydata() for line in top.get_lines() if line.get_linestyle() == "--"}
    assert at[1.0, 2.0] == pytest.approx([1, 0.7845], abs=1e-4)
    (dots,) = [line for line in top.get_lines() if line.get_marker() == "."]
    assert (len(dots.get_ydata()), min(dots.get_ydata())) == (24, pytest.approx(0.75))
    curve, control = [c.lines[2][0].get_segments() for c in top.containers if c.has_yerr]
    assert curve[-1][:, 1] == pytest.approx([0.7091, 0.8680], abs=1e-4)
    assert control[0][:, 1] == pytest.approx([0.9150, 0.9863], abs=1e-4)
    assert "without allreduce" in [text.get_text() for text in top.get_figure().legends[0].get_texts()]
    # few launches a point: no line joins them
    assert not [line for line in bottom.get_lines() if line.get_linestyle() == "--"]


def test_programs_have_their_own_units_and_phases(results):
    for nodes in (1, 2):
        save(make_program(nodes, 90.0 * nodes, "tokens/s"), results.folder)
        save(make_program(nodes, 3.0 * nodes, "GFLOP/s", **{"program.command": "other {ranks}"}), results.folder)
    panels = draw("own-scaling-throughput", results.table()).axes
    assert [axes.get_ylabel() for axes in panels] == ["throughput [tokens/s]", "throughput [GFLOP/s]"]
    values = [[max(line.get_ydata()) for line in axes.get_lines() if len(line.get_ydata())] for axes in panels]
    assert [max(each) for each in values] == pytest.approx([180.0, 6.0])
    legend = draw("own-scaling-phases", results.table()).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["start", "timed", "exit"]


def test_phases_are_of_launches_of_single_points_and_of_the_largest_point_in_rounds(results):
    curve_in_rounds(results.folder)
    figure = draw("own-weak-scaling-phases", results.table())
    ratios = ([1.50, 1.61, 1.51, 1.62, 1.60, 1.52], [1.64, 1.54, 1.56, 1.63, 1.53, 1.65])  # of `curve_in_rounds`
    steps = [(1 + 0.1 * number) / ratio for launch in ratios for number, ratio in enumerate(launch)]
    jobs = [12 + 3 + 6 * 0.5, 12 + 3 + 6 * fmean(steps)]
    tops = [max(b.get_y() + b.get_height() for b in bars) for bars in zip(*figure.axes[0].containers, strict=True)]
    assert tops == pytest.approx([job - 2 for job in jobs])
    hatches = [bars[0].get_hatch() for bars in figure.axes[0].containers]
    assert all(above != below for above, below in zip(hatches[1:], hatches[:-1], strict=True))  # in grey, too


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (650, 1700, [800, 1000, 1200, 1500]),
        (3, 3000, [10, 100, 1000]),
        (0.9, 9, [1, 2, 5]),
        (101, 109, [102, 104, 106, 108]),
    ],
)
def test_an_axis_of_step_times_has_at_least_three_round_ticks(low, high, ticks):
    assert time_ticks(low, high) == pytest.approx(ticks)


def test_the_efficiency_of_emulated_nodes_has_their_control_below(results):
    for nodes in (1, 2):
        results.add(nodes=nodes, **QUOTA)
        results.add(nodes=nodes, **QUOTA, **NO_ALLREDUCE)
    names = ["efficiency by throughput", "efficiency by wall time\n(n=1)", "control / one node"]
    figure = draw("own-weak-scaling-efficiency", results.table())
    assert [axes.get_ylabel() for axes in figure.axes] == names
    save(make_rounds([(0.5, 0.8, 0.52)] * 6, experiment="strong_scaling", **QUOTA), results.folder)
    figure = draw("own-strong-scaling-efficiency", results.table())
    assert [axes.get_ylabel() for axes in figure.axes] == [names[0], names[2]]  # a time of a job is not known
    pairs = [line.get_ydata() for line in figure.axes[1].get_lines() if len(line.get_ydata()) == 2]
    assert any(pair == pytest.approx([1, 0.5 / 0.52]) for pair in pairs)
