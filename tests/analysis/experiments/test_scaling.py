import numpy as np
import pytest

from analysis.table import loading
from tests.helpers.drawn_figures import drawn, lines

pytestmark = pytest.mark.slow


def test_local_points_are_where_they_were_measured_with_their_interval(results):
    # 8 images in 0.5 s on one node: 16 images/s; 16 in 0.4 and 0.5 s on two: 40 and 32, mean 36
    results.add(nodes=1, step_s=0.5)
    for repeat, step in enumerate((0.4, 0.5)):
        results.add(nodes=2, step_s=step, repeat=repeat)
    table = loading.local(results.folder).table
    figure = drawn("own-weak-scaling-throughput", table)
    labels = [label for label, _, _ in lines(figure)]
    assert "ResNet50, local, n=1 to 2" in labels
    assert any(x.tolist() == [1, 2] and np.allclose(y, [16, 36]) for _, x, y in lines(figure))
    (bars,) = [c for c in figure.axes[0].containers if c.has_yerr]
    ends = bars.lines[2][0].get_segments()[-1][:, 1]
    half = 12.7062 * 4  # t(0.975, 1) = 12.7062, and s / sqrt(2) = 4
    assert ends == pytest.approx([36 - half, 36 + half], rel=1e-4)
    note = figure.legends[0].get_title().get_text()
    assert "AMD EPYC 9B45, 4 cores" in note
    assert "none where n=1" in note


def test_phases_add_up_to_the_job(results):
    results.add(nodes=1, step_s=0.5)
    figure = drawn("own-weak-scaling-phases", loading.local(results.folder).table)
    job = 0.5 + 3 + 0.5 + 0.1 + 2 + 0.4 + 6 + 1 + 2 + 0.5
    assert sum(bar.get_height() for bar in figure.axes[0].patches) == pytest.approx(job)


def test_the_efficiency_of_emulated_nodes_has_their_control_below(results):
    run = {"system.cpus_per_node": 0.2, "launcher": {"name": "emulated", "flat_within_fraction": 0.1}}
    for nodes, allreduce in ((1, True), (2, True), (1, False), (2, False)):
        results.add(nodes=nodes, **run, **{"distribution.allreduce": allreduce})
    figure = drawn("own-weak-scaling-efficiency", results.table())
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "efficiency by throughput", "efficiency by wall time", "control / one node",
    ]  # fmt: skip
