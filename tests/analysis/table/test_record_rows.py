from dataclasses import replace

import pytest

from analysis.study import Study
from analysis.table import tidy_columns
from analysis.table.record_rows import Notice
from record.schema import Epoch, Failure
from tests.helpers.run_records import QUOTA, Arm, make_record, make_rounds, save, tabulate_file


def test_a_record_keeps_its_learning_rate_and_what_a_rank_takes_in_a_step(results):
    passes = {"distribution.backward_passes_per_step": 2}
    run = make_record(nodes=2, batch_per_rank=8, global_batch=32, step_s=0.5, **passes)
    run.config["optimizer"] |= {"learning_rate": 0.0615, "learning_rate_scaling": "linear"}
    run.learning_rate = 0.123
    [point] = tabulate_file(save(run, results.folder)).points
    cells = dict(zip(tidy_columns.LOCAL_NAMES, point.cells, strict=True))
    assert [cells[name] for name in ("learning_rate", "batch_per_rank", "global_batch")] == [0.123, 16, 32]
    assert dict(zip(point.values["quantity"], point.values["value"], strict=True))["images_per_s"] == 64


def test_an_impossible_number_is_no_measurement_and_a_run_without_ranks_none(results):
    path = save(make_record(epochs=[Epoch(1, 10, 2.0, 1.2, train_accuracy=1.2)]), results.folder)
    assert tabulate_file(path) == Notice(False, str(path), "impossible: train_accuracy = 1.2")
    assert str(tabulate_file(path)) == f"{path}: impossible: train_accuracy = 1.2"
    assert not tabulate_file(save(replace(make_record(nodes=2), ranks=[]), results.folder)).failed


def rates(table, nodes, kind="measured"):
    """Images/s by launch and round."""
    return table.query("quantity == 'images_per_s' and nodes == @nodes and kind == @kind")["value"].tolist()


def test_a_launch_in_rounds_has_the_throughputs_of_each_arm_round_by_round(results):
    # 8 images on one node in 0.5 s, 16 on two in 0.8 s, or 0.55 s without allreduce
    save(make_rounds([(0.5, 0.8, 0.55), (0.4, 0.64, 0.44)]), results.folder)
    table = results.table()
    assert set(table.loc[table["round"].notna(), "quantity"]) == {"images_per_s", "images_per_s_per_rank"}
    assert rates(table, 1) + rates(table, 2) == pytest.approx([16, 20, 20, 25])
    assert rates(table, 2, "control") == pytest.approx([16 / 0.55, 16 / 0.44])
    control = table[table["kind"].eq("control")][["arm", "ranks", "global_batch", "round"]].drop_duplicates()
    assert control.to_numpy().tolist() == [["without-allreduce", 2, 16, number] for number in (0, 1)]


def test_a_launch_in_rounds_has_the_times_of_a_job_of_its_largest_point(results):
    # Until the first step the launch is such a job; then 2 + 4 steps follow, of 0.8 and 0.64 s: 0.72 s in the mean.
    record = make_rounds([(0.5, 0.8, 0.55), (0.4, 0.64, 0.44)])
    save(record, results.folder)
    table = results.table()
    job = table[table["round"].isna()]
    assert set(zip(job["nodes"], job["kind"], strict=True)) == {(2, "measured")}
    values = job.set_index("quantity")["value"]
    phases_s = record.ranks[0].phases_s
    assert (values["phase_warm_up_s"], values["phase_timed_s"]) == pytest.approx((2 * 0.72, 4 * 0.72))
    assert values["wall_s"] == pytest.approx(phases_s["broadcast"] + phases_s["first_step"] + 6 * 0.72)
    before_s = sum(phases_s[name] for name in ("start", "import", "init", "data", "build"))
    assert values["job_s"] == pytest.approx(before_s + values["wall_s"] + phases_s["exit"])
    assert values["images"] == 7 * 16
    emulated = make_rounds([(0.5, 0.8, 0.55)], **QUOTA)
    failed = replace(make_rounds([(0.5, 0.8, 0.55)], repeat=1), status="failed", failure=Failure("broken"))
    for run in (emulated, failed):
        save(run, results.folder / "others")
    assert Study(results.folder / "others").local["round"].notna().all()


def test_an_arm_of_a_user_is_what_its_role_says_whatever_its_name(results):
    record = make_rounds([(0.5, 0.8, 0.55)], [Arm(1), Arm(2), Arm(2, allreduce=False, role="point")])
    assert record.config["rounds"][2]["arm"] == "without-allreduce"
    save(record, results.folder)
    results.add(experiment="mine", arm="without-allreduce", **QUOTA, **{"distribution.allreduce": False})
    assert set(results.table()["kind"]) == {"measured"}


def test_points_in_rounds_of_strong_scaling_share_a_series_although_their_batches_differ(results):
    arms = [Arm(1, batch_per_rank=8), Arm(2, batch_per_rank=4)]
    save(make_rounds([(0.5, 0.3)], arms, derived=["batch_per_rank", "threads_per_rank"]), results.folder)
    table = results.table()
    assert table["series"].nunique() == 1
    assert {*table["kept"], *table["global_batch"]} == {"global_batch", 8}


def test_the_whole_rounds_of_a_failed_launch_count_beside_the_launch_after_it(results):
    failed = make_rounds([(0.5, 0.8, 0.55)] * 3, failure=Failure("rank 1 was killed", rank=1))
    del failed.ranks[1].windows[-2:]  # the rank died before its windows of the third round
    path = save(failed, results.folder)
    save(make_rounds([(0.4, 0.64, 0.44)] * 2, generation=1), results.folder)
    study = Study(results.folder)
    assert rates(study.local, 1) == pytest.approx([16, 16, 20, 20])
    (notice,) = study.failed
    assert str(notice) == f"{path}: rank 1 was killed (rank 1); it counts with its 2 whole rounds"


def test_a_launch_without_a_whole_round_has_no_rows(results):
    run = make_rounds([(0.5, 0.8, 0.55)], failure=Failure("out of memory"))
    run.ranks[1].windows.clear()
    failed = save(run, results.folder)
    assert tabulate_file(failed) == Notice(True, str(failed), "out of memory")
    run = make_rounds([], repeat=1)
    assert "no whole round" in tabulate_file(save(run, results.folder)).reason
