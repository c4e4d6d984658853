"""Rates by hand: two steps of an image take 1 s on one node; four images take 2 s / speedup on two."""

import pytest
from rich.console import Console

from tests.helpers.launch_plans import plan_points
from tests.helpers.launched_curves import add, curve
from train.launch import curve_table
from train.launch.plan import curve_design
from train.launch.plan.launch_results import CurveState


@pytest.fixture
def state(tmp_path):
    """Return a curve with this many of its three launches, each of four rounds at a speedup of about 1.6."""
    point = curve(tmp_path)

    def make(launches: int) -> CurveState:
        records = [add(point, repeat, [1.584, 1.592, 1.608, 1.616]) for repeat in range(launches)]
        return CurveState(point, records, 3)

    return make


def rows(*states: CurveState) -> list[list[str]]:
    console = Console(width=80)
    with console.capture() as output:
        console.print(curve_table.table(states))
    return [line.split() for line in output.get().splitlines()]


def test_a_curve_has_a_line_with_its_rates_and_speedup(state):
    head, row, *_ = rows(state(3))
    assert head == ["model", "1", "node", "2", "nodes", "speedup", "rounds", "launches"]
    assert row[:4] == ["tiny", "2", "3.2", "1.6"]
    assert [float(row[i].strip("()")) for i in (4, 6)] == pytest.approx([1.6, 1.6], rel=0.1)
    assert row[7:] == ["12", "3", "of", "3"]


def test_a_curve_that_is_not_measured_yet_has_an_empty_line(state):
    assert rows(state(0))[1] == ["tiny", "0", "of", "3"]


def test_in_a_log_a_launch_has_one_line_without_an_interval_of_one_launch(state):
    line = curve_table.result_line(state(1))
    assert line == "tiny: 2 images/s on 1 node, 3.2 images/s on 2 nodes; speedup 1.6"


def test_a_sweep_of_anything_else_than_nodes_has_no_table(tmp_path):
    sweep = plan_points("experiment=batch_sweep", "model=tiny", f"results={tmp_path}", cores=2)
    [point] = curve_design.design(sweep, cores=2).curves
    assert curve_table.over_nodes(point) == []
