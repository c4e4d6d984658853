import numpy as np
import pandas as pd
import pytest

from analysis import TableError
from analysis.explain import wall_time_runs
from analysis.explain.wall_time_runs import phases
from analysis.user_table import table_contract


def read(tmp_path, text):
    path = tmp_path / "points.csv"
    path.write_text(text)
    user = table_contract.read_table(path)
    points, notes = wall_time_runs.table_runs(user)
    return points, [*user.notes, *notes]


def test_a_column_that_is_needed_and_not_there_is_named_with_what_there_is(tmp_path):
    with pytest.raises(TableError, match=r"missing: steps_per_rank, batch_per_rank (?s:.*)'time \(s\)' -> wall_s"):
        read(tmp_path, "GPUs,time (s)\n1,10\n2,6\n")


def test_a_copied_row_is_named_and_counted_once_unless_it_is_numbered(tmp_path):
    header = "ranks,steps_per_rank,batch_per_rank,wall_s,images_per_s_per_rank"
    points, (note,) = read(tmp_path, f"{header}\n1,10,8,3,9\n1,10,8,3,9\n1,20,8,3,9\n")
    assert points["steps_per_rank"].tolist() == [10, 20]  # several works on one rank are separate runs
    assert "line 3" in note
    assert "a copy?" in note
    points, notes = read(tmp_path, f"{header},repeat\n1,10,8,3,9,0\n1,10,8,3,9,1\n")
    assert (len(points), notes) == (2, [])


RUN = {"ranks": [2], "steps_per_rank": 14, "batch_per_rank": 64, "wall_s": 35.5, "images_per_s_per_rank": 32.0}


def test_phases_show_where_the_fixed_cost_went():
    # Steps take 64 / 32 = 2 s: 3 of the 5 s of the first step are tracing; 3 of the 29 s of 13 other steps are extra.
    points = pd.DataFrame(RUN).assign(
        phase_broadcast_s=1.0, phase_first_step_s=5.0, phase_warm_up_s=9.0, phase_timed_s=20.0
    )
    split = phases(points).iloc[0]
    assert split[["broadcast_s", "first_step_s", "warm_up_s", "other_s", "fixed_s"]].tolist() == [1, 3, 3, 0.5, 7.5]
    assert phases(pd.DataFrame(RUN)).empty  # as published numbers


# 10 s once, 0.1 s an image on any number of ranks.
IMAGES = {1: 1600, 2: 800, 4: 400, 8: 200, 16: 100}


def curve(speed=10.0, **changed):
    ranks, images = list(IMAGES), np.array([*IMAGES.values()], float)
    columns = {"ranks": ranks, "images_per_rank": images, "wall_s": 10 + 0.1 * images, "images_per_s_per_rank": speed}
    table = pd.DataFrame(columns)
    for column, values in changed.items():
        table[column] = [values.get(n, value) for n, value in zip(ranks, table[column], strict=True)]
    return table


@pytest.mark.parametrize(
    "table",
    [
        curve(),
        # Without a fixed cost the wall times are those of the images: 3 % of noise puts them below.
        curve(wall_s={ranks: 0.1 * images * 0.97 for ranks, images in IMAGES.items()}),
        curve(wall_s={ranks: 0.1 * images * 1.03 for ranks, images in IMAGES.items()}),
        curve(wall_s={16: 30.0}),  # twice its work: its speed is not to blame
        curve(float("nan")),
        # In the mean over its repeats 800 images at 10 images/s take 80 s.
        pd.concat([curve(wall_s={2: 70.0}), curve(), curve()], ignore_index=True),
        # Three ranks on two cores: the wall times grow 4 times as fast as the speeds say, of work that is equal.
        curve(
            images_per_s_per_rank={16: 6.0},
            images_per_rank=dict.fromkeys(IMAGES, 400.0),
            wall_s={1: 50.0, 2: 50.0, 4: 50.0, 8: 50.0, 16: 160.0},
        ),
    ],
    ids=["clean", "3 % below", "3 % above", "twice its work", "no speeds", "a short repeat", "equal work"],
)
def test_no_contradiction(table):
    assert wall_time_runs.contradictions(table) == []


@pytest.mark.parametrize(
    ("table", "kind", "ranks", "leaves_out", "text"),
    [
        # 400 images at 10 images/s take 40 s.
        (curve(wall_s={4: 30.0}), "too_short", (4,), "runs", "400 images a rank take 40 s at the measured 10 images"),
        (curve(images_per_s_per_rank={8: 1.0}), "too_short", (8,), "runs", "and its wall time is 30 s"),
        (curve(images_per_s_per_rank={8: 100.0}), "speed_times_off", (8,), "speeds", "is 10 times what its wall time"),
        (curve(100.0), "speed_times_off", tuple(IMAGES), "speeds", "grow 10 times as fast"),
        (curve(1.0), "too_short", tuple(IMAGES), "speeds", "5 of 5 runs"),
        (curve(images_per_s_per_rank={n: 10 * n for n in IMAGES}), "speed_of_the_job", (*IMAGES,), "speeds", "to 160"),
    ],
)
def test_a_contradiction_is_one_finding_that_names_what_is_not_used(table, kind, ranks, leaves_out, text):
    (finding,) = wall_time_runs.contradictions(table)
    assert (finding.rule, finding.ranks, finding.leaves_out) == (kind, ranks, leaves_out)
    assert text in finding.meaning
    trusted = wall_time_runs.trusted_runs(table, [finding])
    assert set(IMAGES) - set(trusted["ranks"]) == (set(ranks) if leaves_out == "runs" else set())
    assert set(trusted.loc[trusted["images_per_s_per_rank"].isna(), "ranks"]) == set(ranks) & set(trusted["ranks"])


def test_only_the_repeats_that_are_too_short_are_left_out():
    table = pd.concat([curve(wall_s={2: 20.0}), curve(wall_s={2: 85.0})], ignore_index=True)
    (finding,) = wall_time_runs.contradictions(table)
    assert (finding.runs, finding.leaves_out) == ((1,), "runs")
    assert (finding.stated, finding.off) == ("20 s", pytest.approx(-0.75))
