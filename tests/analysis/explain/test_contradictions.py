import pandas as pd
import pytest

from analysis.explain import contradictions

# 10 s once, 0.1 s an image on any number of ranks.
IMAGES = {1: 1600, 2: 800, 4: 400, 8: 200, 16: 100}


def runs(speed=10.0, **changed):
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
    assert contradictions.check(runs()) == []


@pytest.mark.parametrize("off", [0.97, 1.03])
def test_noise_of_three_per_cent_is_no_finding(off):
    # Without a fixed cost the wall times are those of the images: 3 % of noise puts them below.
    assert contradictions.check(runs(wall_s={ranks: 0.1 * images * off for ranks, images in IMAGES.items()})) == []


def test_a_wall_time_shorter_than_its_images_is_impossible():
    (finding,) = contradictions.check(runs(wall_s={4: 30.0}))  # 400 images at 10 images/s take 40 s
    assert (finding.kind, finding.ranks, finding.leaves_out) == ("impossible", (4,), "runs")
    assert "400 images a rank take 40 s at the measured 10 images/s, and its wall time is 30 s" in finding.says
    assert list(contradictions.trusted(runs(wall_s={4: 30.0}), [finding])["ranks"]) == [1, 2, 8, 16]


def test_a_point_is_impossible_in_the_mean_over_its_repeats_and_only_the_short_ones_are_left_out():
    # 800 images at 10 images/s take 80 s.
    noisy, wrong = runs(wall_s={2: 70.0}), runs(wall_s={2: 20.0})
    assert contradictions.check(pd.concat([noisy, runs(), runs()], ignore_index=True)) == []
    (finding,) = contradictions.check(pd.concat([wrong, runs(wall_s={2: 85.0})], ignore_index=True))
    assert (finding.runs, finding.leaves_out) == ((1,), "runs")
    assert (finding.stated, finding.off) == ("20 s", pytest.approx(-0.75))


def test_a_speed_ten_times_too_low_makes_its_run_impossible():
    (finding,) = contradictions.check(runs(images_per_s_per_rank={8: 1.0}))
    assert (finding.kind, finding.ranks) == ("impossible", (8,))


def test_a_speed_ten_times_too_high_is_named_and_not_used():
    table = runs(images_per_s_per_rank={8: 100.0})
    (finding,) = contradictions.check(table)
    assert (finding.kind, finding.ranks, finding.leaves_out) == ("speed_off", (8,), "speeds")
    assert "100 images/s, is 10 times what its wall time allows" in finding.says
    assert contradictions.trusted(table, [finding])["images_per_s_per_rank"].isna().tolist() == [
        False,
        False,
        False,
        True,
        False,
    ]
    assert len(contradictions.trusted(table, [finding])) == 5


@pytest.mark.parametrize(("speed", "kind"), [(100.0, "speed_off"), (1.0, "impossible")])
def test_speeds_that_are_all_ten_times_off_are_one_finding(speed, kind):
    (finding,) = contradictions.check(runs(speed))
    assert (finding.kind, finding.leaves_out) == (kind, "speeds")
    assert finding.ranks == tuple(IMAGES)


def test_the_speed_of_the_whole_job_is_recognised():
    (finding,) = contradictions.check(runs(images_per_s_per_rank={ranks: 10.0 * ranks for ranks in IMAGES}))
    assert finding.kind == "whole_job"
    assert "from 10 images/s on 1 to 160 images/s on 16" in finding.says


def test_a_run_that_did_twice_its_work_is_not_blamed_on_its_speed():
    assert contradictions.check(runs(wall_s={16: 30.0})) == []


def test_without_speeds_nothing_contradicts():
    assert contradictions.check(runs(float("nan"))) == []
