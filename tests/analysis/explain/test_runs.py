import pandas as pd
import pytest

from analysis import TableError
from analysis.explain import runs
from analysis.explain.runs import phases
from analysis.table import loading
from analysis.user_table import table


def read(tmp_path, text):
    path = tmp_path / "points.csv"
    path.write_text(text)
    user = table.read(path)
    points, notes = runs.read(user)
    return points, [*user.notes, *notes]


def test_synonyms_and_unused_columns(tmp_path):
    points, notes = read(tmp_path, "gpus,steps_per_worker,batch_per_gpu,train_s,total_s\n1,10,8,3.5,9\n2,5,8,2,9\n")
    assert points["wall_s"].tolist() == [3.5, 2]
    assert notes == ["no measured speed is given: the time per image is known from the wall times alone"]


def test_a_column_that_is_needed_and_not_there_is_named_with_what_there_is(tmp_path):
    with pytest.raises(TableError) as error:
        read(tmp_path, "GPUs,time (s)\n1,10\n2,6\n")
    assert "columns that are needed are missing: steps_per_rank (also read as it: steps, " in str(error.value)
    assert "'time (s)' -> wall_s" in str(error.value)


def test_numbers_of_the_whole_job_are_divided_by_the_ranks(tmp_path):
    points, _ = read(tmp_path, "ranks,steps,global_batch,wall_s,images/s\n1,10,8,3,30\n4,10,32,3,100\n")
    assert points["batch_per_rank"].tolist() == [8, 8]
    assert points["images_per_s_per_rank"].tolist() == [30, 25]


def test_a_copied_row_is_named_and_counted_once_unless_it_is_numbered(tmp_path):
    header = "ranks,steps_per_rank,batch_per_rank,wall_s,images_per_s_per_rank"
    points, (note,) = read(tmp_path, f"{header}\n1,10,8,3,9\n1,10,8,3,9\n")
    assert len(points) == 1
    assert "line 3" in note
    assert "a copy?" in note
    points, notes = read(tmp_path, f"{header},repeat\n1,10,8,3,9,0\n1,10,8,3,9,1\n")
    assert (len(points), notes) == (2, [])


def test_several_works_at_one_number_of_ranks_are_separate_runs(tmp_path):
    points, _ = read(tmp_path, "ranks,steps_per_rank,batch_per_rank,wall_s\n4,10,8,3\n4,20,8,5\n4,40,8,9\n")
    assert points["steps_per_rank"].tolist() == [10, 20, 40]


def test_the_published_table_gives_three_curves():
    points, notes = runs.points(loading.published().query("report == '000'"), "report 000")
    assert {name.split()[-1]: len(rows) for name, rows in runs.curves(points)} == {
        "vgg19": 6,
        "resnet101v2": 6,
        "inceptionv4": 5,
    }
    assert notes == ["speed not used: inceptionv4, 16 ranks: 0 images/s beside 21.11 s of training"]


RUN = {"ranks": [2], "steps_per_rank": 14, "batch_per_rank": 64, "wall_s": 35.5, "images_per_s_per_rank": 32.0}


def test_phases_show_where_the_fixed_cost_went():
    # Steps of 64 / 32 = 2 s: of a first step of 5 s, 3 are tracing; of 3 warm-up and 10 timed steps, 29 s, 3 are extra.
    points = pd.DataFrame(RUN).assign(
        phase_broadcast_s=1.0, phase_first_step_s=5.0, phase_warm_up_s=9.0, phase_timed_s=20.0
    )
    split = phases(points).iloc[0]
    assert split[["broadcast_s", "first_step_s", "warm_up_s", "other_s", "fixed_s"]].tolist() == [1, 3, 3, 0.5, 7.5]


def test_published_numbers_have_no_phases():
    assert phases(pd.DataFrame(RUN)).empty
