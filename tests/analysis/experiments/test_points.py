import pytest

from analysis.experiments.points import step_times
from tests.helpers.drawn_figures import drawn
from tests.helpers.own_records import make_record, make_rounds, save
from tests.helpers.own_studies import curve_in_rounds


def distributions(results):
    study = results.study()
    return step_times(study.local, study.records)


def times_of(results):
    rows = distributions(results)
    return {(row["nodes"], row["kind"]): row["times"] for _, row in rows.iterrows()}


def test_each_step_of_an_arm_is_that_of_its_slowest_rank(results):
    run = make_rounds([(0.5, 0.8, 0.55), (0.4, 0.7, 0.45)])
    run.ranks[1].windows[0].step_times_s = [0.75, 0.85]  # two nodes in round 0, beside 0.8 and 0.8
    save(run, results.folder)
    assert times_of(results) == {
        (1, "measured"): [0.5, 0.5, 0.4, 0.4],
        (2, "measured"): [0.8, 0.85, 0.7, 0.7],
        (2, "control"): [0.55, 0.55, 0.45, 0.45],
    }


def test_launches_of_single_points_have_their_steps(results):
    run = make_record(nodes=2, steps=2)
    run.ranks[1].step_times_s = [0.4, 0.6]
    save(run, results.folder)
    assert times_of(results) == {(2, "measured"): [0.5, 0.6]}


def test_of_a_curve_in_rounds_the_steps_are_those_of_the_rounds(results):
    curve_in_rounds(results.folder)
    rows = distributions(results)
    assert rows["round"].notna().all()


@pytest.mark.slow
def test_percentiles_are_marked(results):
    run = make_record(nodes=1, steps=101)
    run.ranks[0].step_times_s = [0.1 + 0.001 * nth for nth in range(101)]
    run.ranks[0].phases_s["timed"] = sum(run.ranks[0].step_times_s)
    save(run, results.folder)
    (axes,) = drawn("own-weak-scaling-steps", results.table()).axes
    marks = next(line for line in axes.get_lines() if line.get_marker() == "o" and len(line.get_xdata()) == 4)
    assert marks.get_xdata() == pytest.approx([105, 150, 195, 199])
    assert marks.get_ydata() == pytest.approx([0.05, 0.5, 0.95, 0.99])
    assert axes.get_title(loc="left") == "ResNet50, n=101 steps"
