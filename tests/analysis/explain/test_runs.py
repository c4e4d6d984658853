import pandas as pd
import pytest

from analysis import TableError
from analysis.explain import runs
from analysis.explain.runs import phases
from analysis.study import Study
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
    points, notes = runs.points(Study().published.query("report == '000'"), "report 000")
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


# 10 s once, 0.1 s an image on any number of ranks.
IMAGES = {1: 1600, 2: 800, 4: 400, 8: 200, 16: 100}


def curve(speed=10.0, **changed):
    table = pd.DataFrame(
        {
            "ranks": list(IMAGES),
            "images_per_rank": [float(images) for images in IMAGES.values()],
            "wall_s": [10 + 0.1 * images for images in IMAGES.values()],
            "images_per_s_per_rank": speed,
        }
    )
    for column, values in changed.items():
        for ranks, value in values.items():
            table.loc[table["ranks"] == ranks, column] = value
    return table


def test_a_clean_curve_has_no_finding():
    assert runs.contradictions(curve()) == []


@pytest.mark.parametrize("off", [0.97, 1.03])
def test_noise_of_three_per_cent_is_no_finding(off):
    # Without a fixed cost the wall times are those of the images: 3 % of noise puts them below.
    assert runs.contradictions(curve(wall_s={ranks: 0.1 * images * off for ranks, images in IMAGES.items()})) == []


def test_a_wall_time_shorter_than_its_images_is_impossible():
    (finding,) = runs.contradictions(curve(wall_s={4: 30.0}))  # 400 images at 10 images/s take 40 s
    assert (finding.kind, finding.ranks, finding.leaves_out) == ("impossible", (4,), "runs")
    assert "400 images a rank take 40 s at the measured 10 images/s, and its wall time is 30 s" in finding.says
    assert list(runs.trusted_runs(curve(wall_s={4: 30.0}), [finding])["ranks"]) == [1, 2, 8, 16]


def test_a_point_is_impossible_in_the_mean_over_its_repeats_and_only_the_short_ones_are_left_out():
    # 800 images at 10 images/s take 80 s.
    noisy, wrong = curve(wall_s={2: 70.0}), curve(wall_s={2: 20.0})
    assert runs.contradictions(pd.concat([noisy, curve(), curve()], ignore_index=True)) == []
    (finding,) = runs.contradictions(pd.concat([wrong, curve(wall_s={2: 85.0})], ignore_index=True))
    assert (finding.runs, finding.leaves_out) == ((1,), "runs")
    assert (finding.stated, finding.off) == ("20 s", pytest.approx(-0.75))


def test_a_speed_ten_times_too_low_makes_its_run_impossible():
    (finding,) = runs.contradictions(curve(images_per_s_per_rank={8: 1.0}))
    assert (finding.kind, finding.ranks) == ("impossible", (8,))


def test_a_speed_ten_times_too_high_is_named_and_not_used():
    table = curve(images_per_s_per_rank={8: 100.0})
    (finding,) = runs.contradictions(table)
    assert (finding.kind, finding.ranks, finding.leaves_out) == ("speed_off", (8,), "speeds")
    assert "100 images/s, is 10 times what its wall time allows" in finding.says
    trusted = runs.trusted_runs(table, [finding])
    assert trusted.loc[trusted["images_per_s_per_rank"].isna(), "ranks"].tolist() == [8]
    assert len(trusted) == 5


@pytest.mark.parametrize(("speed", "kind"), [(100.0, "speed_off"), (1.0, "impossible")])
def test_speeds_that_are_all_ten_times_off_are_one_finding(speed, kind):
    (finding,) = runs.contradictions(curve(speed))
    assert (finding.kind, finding.leaves_out) == (kind, "speeds")
    assert finding.ranks == tuple(IMAGES)


def test_the_speed_of_the_whole_job_is_recognised():
    (finding,) = runs.contradictions(curve(images_per_s_per_rank={ranks: 10.0 * ranks for ranks in IMAGES}))
    assert finding.kind == "whole_job"
    assert "from 10 images/s on 1 to 160 images/s on 16" in finding.says


def test_a_run_that_did_twice_its_work_is_not_blamed_on_its_speed():
    assert runs.contradictions(curve(wall_s={16: 30.0})) == []


def test_without_speeds_nothing_contradicts():
    assert runs.contradictions(curve(float("nan"))) == []
