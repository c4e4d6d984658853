from analysis.experiments import summary
from analysis.table import loading
from tests.helpers.own_records import make_record, save
from train.record.record import Epoch


def test_a_table_worked_by_hand(results):
    # 8 images in 0.5 s: 16 images/s; 16 images in 0.625 s: 25.6 images/s, 1.6x on two nodes
    results.add(nodes=1, step_s=0.5)
    results.add(nodes=2, step_s=0.625)
    one, two = summary.rows(loading.local(results.folder).table).to_dict("records")
    assert (one["model"], one["nodes"], one["n"], one["images/s"]) == ("ResNet50", 1, 1, "16")
    assert two["images/s"] == "25.6"
    assert two["speedup (efficiency)\nby throughput"] == "1.60x (0.80)"
    # wall: 0.4 + 6 + 6 steps x 0.5 = 9.4 s for 56 images; 10.15 s for 112
    by_wall_time = (112 / 10.15) / (56 / 9.4)
    assert two["speedup (efficiency)\nby wall time"] == f"{by_wall_time:.2f}x ({by_wall_time / 2:.2f})"


def test_repeats_get_their_interval(results):
    for repeat, step in enumerate((0.4, 0.5)):
        results.add(step_s=step, repeat=repeat)
    (row,) = summary.rows(loading.local(results.folder).table).to_dict("records")
    # 20 and 16: mean 18, s / sqrt(2) = 2, t(0.975, 1) = 12.7
    assert (row["n"], row["images/s"]) == (2, "18 ± 25")
    assert "speedup (efficiency)\nby throughput" not in row


def test_arms_and_shared_cores_are_noted(results):
    for backend, allreduce in (("none", False), ("horovod", True), ("horovod", False)):
        arm = {"backend": backend, "allreduce": allreduce, "controller": "gloo"}
        results.add(experiment="overhead", distribution=arm)
    crowded = make_record(experiment="overhead", nodes=2)
    crowded.cores_shared = True
    save(crowded, results.folder)
    notes = summary.rows(loading.local(results.folder).table)["note"].tolist()
    assert sorted(notes) == ["", "shared cores: no measure of scaling", "without Horovod", "without allreduce"]


def test_the_error_of_the_age_is_that_after_the_last_epoch(results):
    # Two repeats end at 6 and 8 years: mean 7, s / sqrt(2) = 1, t(0.975, 1) = 12.7
    for repeat, last in enumerate((6.0, 8.0)):
        epochs = [Epoch(n, 10, 2.0, 1.2, 0.6, 1.0, 0.1, error) for n, error in ((1, 20.0), (2, last))]
        results.add(experiment="imdb_wiki", epochs=epochs, repeat=repeat)
    (row,) = summary.rows(loading.local(results.folder).table).to_dict("records")
    assert row["mean absolute\nerror [classes]"] == "7 ± 13"


def test_a_sweep_over_ranks_per_node_has_speedups_over_the_fewest_ranks(results):
    # 16 images in 0.5 s on 2 ranks: 32 images/s; 32 in 0.625 s on 4: 51.2, 1.6x on twice the ranks
    for ranks, step_s in ((2, 0.5), (4, 0.625)):
        results.add(
            experiment="mine", nodes=2, ranks_per_node=ranks // 2, step_s=step_s,
            swept={"ranks_per_node": ranks // 2},
        )  # fmt: skip
    two, four = summary.rows(loading.local(results.folder).table).to_dict("records")
    assert (two["ranks"], four["ranks"]) == (2, 4)
    assert two["speedup (efficiency)\nby throughput"] == "1.00x (1.00)"
    assert four["speedup (efficiency)\nby throughput"] == "1.60x (0.80)"


def test_a_sweep_over_any_number_has_a_column_for_it(results):
    for momentum, step_s in ((0.0, 0.5), (0.9, 0.4)):
        optimizer = {"name": "sgd", "learning_rate": 0.01, "learning_rate_scaling": "none", "momentum": momentum}
        results.add(experiment="mine", step_s=step_s, optimizer=optimizer, swept={"optimizer.momentum": momentum})
    rows = summary.rows(loading.local(results.folder).table).to_dict("records")
    assert [(row["optimizer.\nmomentum"], row["images/s"]) for row in rows] == [("0", "16"), ("0.9", "20")]
    assert "speedup (efficiency)\nby throughput" not in rows[0]
