import pytest

from analysis.audit import measuring as rules
from tests.helpers.findings import row_findings
from tests.helpers.tidy_rows import curve, row


def test_one_configuration_measured_twice_is_the_noise_floor():
    rows = [row("images_per_s", 8.57, 4, experiment="ranks_threads", place="figure 2"), row("images_per_s", 8.82, 4)]
    (finding,) = row_findings(rules.measured_twice, *rows)
    assert finding.off == pytest.approx(8.82 / 8.57 - 1)
    assert not row_findings(rules.measured_twice, rows[0], rows[1] | {"batch_per_rank": 32, "global_batch": 128})


def test_a_speed_of_zero_is_no_measurement():
    rows = [
        row("images_per_s_per_rank", 0, 16),
        row("wall_s", 21.11, 16),
        row("steps_per_rank_planned", 12, 16, kind="planned"),
    ]
    (finding,) = row_findings(rules.zero_speed, *rows)
    assert finding.follows == "36.4 images/s or more"  # 12 x 64 / 21.11
    assert finding.severity == "serious"
    assert not row_findings(rules.zero_speed, rows[0] | {"value": 98.0})


def test_a_window_of_few_steps():
    (finding,) = row_findings(
        rules.few_steps, *curve("steps_per_rank_planned", {8: 62, 16: 29, 32: 15}, kind="planned")
    )
    assert finding.stated == "15 steps"
    assert finding.place.endswith("32 ranks, and 1 more")
    assert not row_findings(rules.few_steps, *curve("steps_per_rank_planned", {8: 62, 16: 30}, kind="planned"))


@pytest.mark.parametrize(
    ("beside", "length"),
    [
        (("images_per_s_per_rank", 32), "They took about 40 s. "),  # 20 steps of 64 images
        (("images_per_s", 128), "They took about 40 s. "),
        (("wall_s", 54.2), "They took at most 54.2 s, the wall time. "),
        (("init_s", 3), ""),
    ],
)
def test_few_steps_may_take_long(beside, length):
    (finding,) = row_findings(rules.few_steps, row("steps_per_rank", 20, 4), row(*beside, 4))
    assert finding.meaning == f"{length}The mean over so few steps still includes the first, slower ones."


def test_a_clock_of_whole_seconds():
    (finding,) = row_findings(rules.coarse_clock, *curve("epoch_s", {1: 20, 2: 11, 4: 5}))
    assert finding.off == pytest.approx(0.1)  # 0.5 of 5 s
    assert not row_findings(rules.coarse_clock, *curve("epoch_s", {1: 20.5, 2: 11, 4: 5}))
    assert not row_findings(rules.coarse_clock, *curve("epoch_s", {1: 209, 2: 81}))


def test_a_total_that_its_parts_do_not_add_up_to():
    rows = [row("init_s", 32, 1), row("wall_s", 193.45, 1), row("job_s", 225.45, 1)]
    assert not row_findings(rules.parts_and_total, *rows)
    (finding,) = row_findings(rules.parts_and_total, *rows[:2], rows[2] | {"value": 235.45})
    assert finding.off == pytest.approx(235.45 / 225.45 - 1)


def epochs(epoch_s, job_s):
    return [row("epoch_s", epoch_s, 2), row("job_s", job_s, 2), row("epochs_planned", 30, 2, kind="setup")]


def test_epochs_that_take_longer_than_the_job():
    (finding,) = row_findings(rules.epochs_and_job, *epochs(209, 5910))  # 6270 s
    assert finding.off == pytest.approx(6270 / 5910 - 1)
    assert finding.severity == "serious"


def test_epochs_that_are_a_small_part_of_the_job():
    (finding,) = row_findings(rules.epochs_and_job, *epochs(20, 1986))  # 600 s
    assert "30% of the job; 1386 s went elsewhere" in finding.meaning


def test_epochs_that_fit_the_job():
    assert not row_findings(rules.epochs_and_job, *epochs(81, 2594))
    # 30 epochs of 87 s are 2610 s, 10 too many, but each may be 0.5 s shorter than printed.
    assert not row_findings(rules.epochs_and_job, *epochs(87, 2600))


def test_a_faster_device_that_is_not_faster():
    rows = [row("epoch_s", 81, 4, gpu="T4"), row("epoch_s", 80, 4, gpu="V100")]
    (finding,) = row_findings(rules.faster_device, *rows)
    assert finding.stated == "1.01x (81 and 80 s)"
    assert finding.follows.startswith("1.9x or more")  # 15.7 / 8.1 of peak arithmetic, 2.8 of bandwidth
    assert not row_findings(rules.faster_device, rows[0], rows[1] | {"value": 41.0})


def test_the_faster_device_may_be_in_another_machine():
    rows = [row("images_per_s", 52, 1, gpu="K80", machine="gce"), row("images_per_s", 219, 1, machine="dgx-1")]
    assert not row_findings(rules.faster_device, *rows)
    (finding,) = row_findings(rules.faster_device, rows[0], rows[1] | {"value": 55})
    assert "P100" in finding.place


def test_a_device_as_its_machine_names_it():
    rows = [row("images_per_s", 60, 4, gpu="Tesla T4"), row("images_per_s", 62, 4, gpu="Tesla V100-SXM2-16GB")]
    (finding,) = row_findings(rules.faster_device, *rows)
    assert finding.stated == "1.03x (60 and 62 images/s)"


def test_two_measurements_that_agree_in_all_digits():
    (finding,) = row_findings(rules.copied_values, *curve("images_per_s", {1: 101.23, 2: 190.77, 4: 190.77}))
    assert finding.stated == "images_per_s 190.77 images/s"
    assert "2 ranks" in finding.follows
    assert not row_findings(rules.copied_values, *curve("images_per_s", {1: 101.23, 2: 190.7, 4: 190.7}))  # four digits
    assert not row_findings(rules.copied_values, *curve("images_per_s", {1: 101.23, 2: 190.77, 4: 190.78}))


def test_two_curves_that_agree_in_all_digits_under_two_names():
    rates = {1: 101.23, 2: 190.77, 4: 377.19}
    one, other = curve("images_per_s", rates), curve("images_per_s", rates | {4: 370.02}, model="vgg16")
    (finding,) = row_findings(rules.copied_curves, *one, *other)
    assert finding.stated == "images_per_s 101.23 images/s, and 1 more"
    assert (finding.severity, "resnet50" in finding.follows, "vgg16" in finding.place) == ("serious", True, True)
    assert not row_findings(rules.copied_curves, *one, *curve("images_per_s", {1: 101.23, 2: 180.41}, model="vgg16"))
    # The same numbers in two tables of one report are the same measurement.
    assert not row_findings(rules.copied_curves, *one, *curve("images_per_s", rates, experiment="strong_scaling"))


def test_repeats_that_are_numbered_are_no_configuration_measured_twice():
    twice = [row("images_per_s", value, 1, repeat=i) for i, value in enumerate((50, 52))]
    assert not row_findings(rules.measured_twice, *twice)
    assert row_findings(
        rules.measured_twice, *(one | {"repeat": None, "experiment": str(one["value"])} for one in twice)
    )
