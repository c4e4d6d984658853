import pytest

from analysis.experiments import step_times, training_runs
from record.schema import Epoch
from tests.helpers.drawn_figures import draw
from tests.helpers.run_records import make_record, make_rounds, save


def step_time_rows(results):
    study = results.study()
    rows = step_times(study.local, study.records).to_dict("records")
    return sorted((row["nodes"], row["kind"], row["times"]) for row in rows)


def test_each_step_of_an_arm_in_rounds_is_that_of_its_slowest_rank(results):
    results.add(nodes=1)  # single launches do not count in a series in rounds
    run = make_rounds([(0.5, 0.8, 0.55), (0.4, 0.7, 0.45)])
    run.ranks[1].windows[0].step_times_s = [0.75, 0.85]  # two nodes in round 0; rank 0 has 0.8 and 0.8
    save(run, results.folder)
    assert step_time_rows(results) == [
        (1, "measured", [0.5, 0.5, 0.4, 0.4]),
        (2, "control", [0.55, 0.55, 0.45, 0.45]),
        (2, "measured", [0.8, 0.85, 0.7, 0.7]),
    ]


def test_launches_of_single_points_have_their_steps(results):
    run = make_record(nodes=2, steps=2)
    run.ranks[1].step_times_s = [0.4, 0.6]
    save(run, results.folder)
    assert step_time_rows(results) == [(2, "measured", [0.5, 0.6])]


@pytest.mark.slow
def test_percentiles_are_marked(results):
    run = make_record(nodes=1, steps=101)
    run.ranks[0].step_times_s = [0.1 + 0.001 * nth for nth in range(101)]
    run.ranks[0].phases_s["timed"] = sum(run.ranks[0].step_times_s)
    save(run, results.folder)
    (axes,) = draw("own-weak-scaling-steps", results.table()).axes
    marks = next(line for line in axes.get_lines() if len(line.get_xdata()) == 4)
    assert marks.get_xdata() == pytest.approx([105, 150, 195, 199])
    assert marks.get_ydata() == pytest.approx([0.05, 0.5, 0.95, 0.99])
    assert axes.get_title(loc="left") == "ResNet50, n=101 steps"


def test_training_of_a_run_by_hand(results):
    # The first epoch also traces; accuracy is stable from the third epoch on, after 9 + 2 + 3 s.
    trained = [
        Epoch(number, 10, time_s, 1.0, 0.5, 1.0, accuracy)
        for number, time_s, accuracy in ((1, 9.0, 0.5), (2, 2.0, 0.8), (3, 3.0, 0.895), (4, 2.5, 0.9))
    ]
    for nodes, epochs in ((1, trained), (2, [Epoch(1, 10, 4.0, 1.0, 0.5)])):  # the latter validated nothing
        results.add(experiment="accuracy_digits", nodes=nodes, epochs=epochs)
    result = training_runs(results.table()).set_index("ranks")
    assert result["epoch_s"].to_dict() == {1: 2.75, 2: 4.0}
    assert (result.loc[1, "epochs_to_stable"], result.loc[1, "time_to_stable_s"]) == (3, 14)
    assert result.loc[2, ["epochs_to_stable", "time_to_stable_s"]].isna().all()
