import json
from dataclasses import replace
from statistics import fmean

import pytest

from analysis import documents
from analysis.experiments import summary_points
from record.schema import Epoch
from tests.helpers.run_records import QUOTA, Arm, make_record, make_rounds, save
from tests.helpers.studies import curve_in_rounds

SPEEDUP, EFFICIENCY, BY_WALL_TIME = (
    "speedup\nby throughput",
    "efficiency\nby throughput",
    "speedup, efficiency\nby wall time",
)


def rows(results):
    return summary_points.rows(results.table()).to_dict("records")


def answer(table):
    return json.loads(documents.text(summary_points.answer(table)))


def test_a_table_worked_by_hand(results):
    # 8 images in 0.5 s: 16 images/s; 16 images in 0.625 s: 25.6 images/s, 1.6x on two nodes
    results.add(nodes=1, step_s=0.5)
    results.add(nodes=2, step_s=0.625)
    one, two = rows(results)
    assert (one["model"], one["nodes"], one["launches"], one["images/s"]) == ("ResNet50", 1, 1, "16")
    assert (two["images/s"], two[SPEEDUP], two[EFFICIENCY]) == ("25.6", "1.60", "0.80")
    assert "rounds" not in two
    # wall: 0.4 + 6 + 6 steps x 0.5 = 9.4 s for 56 images; 10.15 s for 112
    by_wall_time = (112 / 10.15) / (56 / 9.4)
    assert two[BY_WALL_TIME] == f"{by_wall_time:.2f}, {by_wall_time / 2:.2f}"
    point, _ = answer(results.table())
    assert (point["design"], point["rounds"], point["launches"]) == ("launches", 0, 1)
    absent = dict.fromkeys(("low", "high", "level"))
    assert point["images_per_s"] == {"value": pytest.approx(16), "n": 1, "variation": "", **absent}


def test_arms_and_shared_cores_are_noted(results):
    for backend, allreduce in (("none", False), ("horovod", True), ("horovod", False)):
        arm = {"backend": backend, "allreduce": allreduce, "controller": "gloo"}
        results.add(experiment="overhead", distribution=arm)
    save(replace(make_record("overhead", nodes=2), cores_shared=True), results.folder)
    notes = sorted(row["note"] for row in rows(results))
    assert notes == ["", "shared cores: not valid as a scaling result", "without Horovod", "without allreduce"]


def test_the_error_of_the_age_is_that_after_the_last_epoch(results):
    # Two repeats end at 6 and 8 years
    for repeat, last in enumerate((6.0, 8.0)):
        epochs = [Epoch(n, 10, 2.0, 1.2, 0.6, 1.0, 0.1, error) for n, error in ((1, 20.0), (2, last))]
        results.add(experiment="imdb_wiki", epochs=epochs, repeat=repeat)
    (row,) = rows(results)
    assert row["mean absolute\nerror [classes]"] == "7"


def test_a_sweep_over_ranks_per_node_has_speedups_over_the_fewest_ranks(results):
    # 16 images in 0.5 s on 2 ranks: 32 images/s; 32 in 0.625 s on 4: 51.2, 1.6x on twice the ranks
    for per_node, step_s in ((1, 0.5), (2, 0.625)):
        swept = {"ranks_per_node": per_node}
        results.add(experiment="mine", nodes=2, ranks_per_node=per_node, step_s=step_s, swept=swept)
    two, four = rows(results)
    assert (two["ranks"], two[SPEEDUP]) == (2, "1.00")
    assert (four["ranks"], four[SPEEDUP], four[EFFICIENCY]) == (4, "1.60", "0.80")


def test_a_sweep_over_any_number_has_a_column_for_it(results):
    for momentum, step_s in ((0.0, 0.5), (0.9, 0.4)):
        swept = {"optimizer.momentum": momentum}
        results.add(experiment="mine", step_s=step_s, swept=swept, **swept)
    table = rows(results)
    assert [(row["optimizer.\nmomentum"], row["images/s"]) for row in table] == [("0", "16"), ("0.9", "20")]
    assert SPEEDUP not in table[0]


def test_a_curve_in_rounds_worked_by_hand(results):
    curve_in_rounds(results.folder)
    table = results.table()
    one, two, control = rows(results)
    assert [(row["rounds"], row["launches"]) for row in (one, two, control)] == [(12, 2)] * 3
    alone, *others = (float(row["images/s"].split()[0]) for row in (one, two, control))  # without the single launch
    assert [rate / alone for rate in others] == pytest.approx([1.569, 1.9], abs=1e-3)
    speedups = [(row[SPEEDUP][:4], row[EFFICIENCY][:4], row["note"]) for row in (one, two, control)]
    assert speedups == [("1.00", "1.00", ""), ("1.57", "0.78", ""), ("1.90", "0.95", "without allreduce")]
    # The launch of one node takes 9.4 s for 56 images. The first launch in rounds has steps of 2 x 0.5 s (1 + 0.1 n) /
    # ratio on two nodes, so a job of two nodes takes 0.4 s + 6 s + 6 steps for 112 images.
    step_s = fmean((1 + 0.1 * n) / ratio for n, ratio in enumerate((1.50, 1.61, 1.51, 1.62, 1.60, 1.52)))
    by_wall_time = (112 / (6.4 + 6 * step_s)) / (56 / 9.4)
    assert (two[BY_WALL_TIME], control[BY_WALL_TIME]) == (f"{by_wall_time:.2f}, {by_wall_time / 2:.2f}", "")
    [(model, nodes, _, speedup, efficiency, alone)] = summary_points.speedup_rows(table).to_numpy().tolist()
    assert (model, nodes, speedup[:4], efficiency, alone) == ("ResNet50", "1 to 2", "1.57", "0.78", "1.90")
    assert summary_points.speedup_rows(table[table["round"].isna()]).empty

    one, two, control = answer(table)
    assert [(point["design"], point["rounds"], point["arm"]) for point in (two, control)] == [
        ("rounds", 12, ""), ("rounds", 12, "without-allreduce")]  # fmt: skip
    speedup = two["speedup_throughput"]
    low, high = speedup["another"]
    assert low < speedup["low"] < speedup["value"] < speedup["high"] < high
    assert (speedup["n"], speedup["variation"]) == (12, "between launches")
    halves = {name: pytest.approx(speedup[name] / 2) for name in ("value", "low", "high")}
    assert {name: two["efficiency_throughput"][name] for name in halves} == halves
    assert [name for name in control if name.endswith("_time")] == []


def test_an_emulated_node_alone_is_not_listed_as_its_own_control(results):
    arms = [Arm(1), Arm(2), Arm(2, allreduce=False)]
    save(make_rounds([(0.5, 0.6, 0.52), (0.5, 0.62, 0.52)], arms, **QUOTA), results.folder)
    assert [(row["nodes"], row["note"], row[SPEEDUP]) for row in rows(results)] == [
        (1, "", "1.00"),
        (2, "", "1.64"),  # 2 x 0.5 / 0.61
        ("2, control", "without allreduce", "1.92"),  # 2 x 0.5 / 0.52
    ]


def test_in_strong_scaling_a_node_alone_with_the_batch_of_many_is_listed(results):
    arms = [Arm(1, True, 8), Arm(1, False, 2), Arm(4, True, 2), Arm(4, False, 2)]
    strong = {"experiment": "strong_scaling", "derived": ["batch_per_rank"], **QUOTA}
    save(make_rounds([(0.5, 0.19, 0.3, 0.2)], arms, **strong), results.folder)
    control = "without allreduce"
    points = {(row["nodes"], row["batch\na rank"], row["note"]) for row in rows(results)}
    assert points == {("1, control", 2, control), (1, 8, ""), (4, 2, ""), ("4, control", 2, control)}
