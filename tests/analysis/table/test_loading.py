import pytest

from analysis import TableError
from analysis.table import loading, tidy_columns
from record.schema import Epoch, Failure
from tests.helpers.run_records import make_program, make_record, save, save_unchanged


def values(loaded, quantity):
    return loaded.table[loaded.table.quantity == quantity].set_index("ranks")["value"].to_dict()


def test_quantities_of_a_run_worked_by_hand(results):
    results.add(nodes=2, ranks_per_node=2, batch_per_rank=8, step_s=0.5, steps=4, warm_up_steps=2)
    loaded = loading.local(results.folder)
    assert values(loaded, "images_per_s") == {4: 32 / 0.5}
    assert values(loaded, "images_per_s_per_rank") == {4: 16}
    assert values(loaded, "wall_s") == {4: pytest.approx(0.4 + 6 + 1 + 2)}  # broadcast, first step, warm-up, timed
    assert values(loaded, "images") == {4: 32 * (1 + 2 + 4)}
    assert values(loaded, "job_s") == {4: pytest.approx(0.5 + 3 + 0.5 + 0.1 + 2 + 0.4 + 6 + 1 + 2 + 0.5)}
    phases = loaded.table[loaded.table.quantity.str.startswith("phase_")]
    assert phases["value"].sum() == pytest.approx(values(loaded, "job_s")[4])
    assert loaded.table["machine"].unique().tolist() == ["AMD EPYC 9B45, 4 cores"]


def test_training_over_epochs_has_its_accuracies_no_warm_up_and_its_usage_each_second(results):
    epochs = [Epoch(1, 10, 2.0, 1.2, 0.6, 1.0, 0.7), Epoch(2, 10, 2.0, 0.4, 0.9)]
    results.add(experiment="accuracy_digits", nodes=2, epochs=epochs)
    loaded = loading.local(results.folder)
    table = tidy_columns.check(loaded.table).set_index("quantity")
    assert values(loaded, "wall_s") == {2: pytest.approx(0.4 + 6 + 3.8)}  # broadcast, first step, 19 timed steps
    assert table.loc["train_accuracy", "value"].tolist() == [0.6, 0.9]
    assert table.loc[["validation_accuracy"], "epoch"].tolist() == [1]
    used = table.loc["cpu_use_fraction", ["time_s", "value"]].to_numpy().tolist()
    assert used == [[6, 0.5], [7, 0.5]]  # half a second of CPU time a second, on one core
    assert table.loc["memory_bytes", "value"].tolist() == [2**30, 2**30]


def test_a_programs_number_that_the_clock_contradicts_is_left_out_until_it_is_confirmed(results):
    for nodes, rate in ((1, 100.0), (2, 450.0)):  # both took 10 s
        save(make_program(nodes, rate, scaling="strong"), results.folder / "a")
        record = make_program(nodes, rate, scaling="strong")
        del record.config["program"]["confirmed"]
        save(record, results.folder / "b")
    assert values(loading.local(results.folder / "a"), "images_per_s") == {1: 100.0, 2: 450.0}
    doubted = loading.local(results.folder / "b")
    assert doubted.table.empty
    [notice] = doubted.notices
    assert "nodes2 over nodes1: 4.5x by the number, 1x by the running time" in str(notice)


def test_runs_to_accuracy_with_other_seeds_are_repeats_of_one_series(results):
    for seed in range(3):
        results.add(experiment="fruit", seed=seed, swept={"nodes": 1, "seed": seed})
    results.add(experiment="fruit", precision="bf16", swept={"nodes": 1, "seed": 0})
    runs = results.table().drop_duplicates("record")
    assert sorted(runs.groupby("series").size()) == [1, 3]


def test_the_slowest_rank_gates_the_speed(results):
    run = make_record(nodes=2, batch_per_rank=8, step_s=0.5, steps=4)
    run.ranks[1].phases_s["timed"] = 2.03
    save(run, results.folder)
    assert values(loading.local(results.folder), "images_per_s") == {2: 16 * 4 / 2.03}


def test_no_folder_has_no_records_and_an_empty_one_of_published_numbers_is_an_error(tmp_path):
    loaded = loading.local(tmp_path / "nothing")
    assert loaded.table.empty
    assert list(loaded.table) == [*tidy_columns.LOCAL_NAMES]
    assert (loaded.notices, loaded.records.get("a/record.json")) == ([], None)
    with pytest.raises(TableError, match="no CSV file"):
        loading.published(tmp_path)


def test_what_cannot_be_trusted_is_named_and_the_rest_is_read(results):
    good = results.add(nodes=1)
    reasons = {}
    for nodes, old, new, reason in (
        (2, b"}", b"", "not a whole"),
        (4, b'"repeat":0', b'"repeat":7', "edited"),
        (8, b'"schema_version":6', b'"schema_version":9', "version 9"),
    ):
        path = results.add(nodes=nodes)
        path.write_bytes(path.read_bytes().replace(old, new))
        reasons[str(path)] = reason
    reasons[str(save_unchanged(make_record(nodes=16, step_s=0.0), results.folder))] = "timed steps add up to 0 s"
    results.add(nodes=32, failure=Failure("rank 3 was killed", rank=3))
    loaded = results.study()
    assert loaded.local["record"].unique().tolist() == [str(good)]
    assert {notice.path for notice in loaded.left_out} == {*reasons}
    assert all(reasons[notice.path] in notice.reason for notice in loaded.left_out)
    assert [notice.reason for notice in loaded.failed] == ["rank 3 was killed (rank 3)"]


def test_a_later_success_settles_the_failures_of_its_run_in_one_line(results):
    broken = Failure("out of memory")
    for generation in (1, 2):
        results.add(nodes=1, generation=generation, failure=broken)
    results.add(nodes=1, generation=3)
    still = [results.add(nodes=1, generation=4, failure=broken), results.add(nodes=2, generation=1, failure=broken)]
    *failed, settled = results.study().failed
    assert [notice.path for notice in failed] == [*map(str, still)]
    assert str(settled) == f"{results.folder}/weak_scaling: 2 launches failed whose runs are complete since"
    assert len(results.study().records) == 5  # all are kept


def test_points_that_share_out_a_number_of_steps_share_a_series_but_others_do_not(results):
    for nodes in (1, 2):
        steps = {"name": "quick", "warm_up_steps": 2, "timed_steps": 16 // nodes, "repeats": 3, "total_steps": 16}
        results.add(experiment="fixed_work", nodes=nodes, steps=16 // nodes, measure=steps)
        results.add(experiment="weak_scaling", nodes=nodes, steps=16 // nodes)
    table = results.table()
    assert table.groupby("experiment")["series"].nunique().to_dict() == {"fixed_work": 1, "weak_scaling": 2}


@pytest.mark.slow
def test_many_records_read_in_parallel_are_those_read_alone(results, monkeypatch):
    for repeat in range(12):
        results.add(repeat=repeat, step_s=0.1 + repeat / 100)
    truncated, missing = results.add(nodes=2), results.folder / "gone"
    truncated.write_bytes(truncated.read_bytes()[:-20])
    monkeypatch.setattr(loading.record, "find", lambda folder: [*folder.glob("*/*/*/*/record.json"), missing])
    alone = loading.local(results.folder)
    assert [notice.path for notice in alone.notices] == [str(missing), str(truncated)]
    monkeypatch.setattr(loading, "FEW_BYTES", 10_000)
    together = loading.local(results.folder)
    assert together.table.equals(alone.table)
    assert together.notices == alone.notices
