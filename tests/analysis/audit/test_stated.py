import pytest

from analysis.audit import stated as rules
from tests.helpers.findings import row_findings
from tests.helpers.tidy_rows import curve, row


def test_a_speedup_that_its_base_does_not_give():
    # 312.17 / 6.6 = 47.3, where 44.4 stands: 7.03x
    rates = [row("images_per_s", 44.4, 1, experiment="batch_sweep", place="figure 4"), row("images_per_s", 312.17, 8)]
    (finding,) = row_findings(rules.stated_speedup, *rates, row("speedup_throughput", 6.6, 8, kind="stated"))
    assert finding.off == pytest.approx(6.6 / (312.17 / 44.4) - 1)
    assert finding.severity == "note"  # that base may be of another run
    assert "not decidable" in finding.meaning
    assert "base of 47.3 images/s; figure 4 states 44.4" in finding.meaning


def test_a_base_of_the_same_curve_decides():
    rates = curve("images_per_s", {1: 44.4, 8: 312.17})
    (finding,) = row_findings(rules.stated_speedup, *rates, row("speedup_throughput", 6.6, 8, kind="stated"))
    assert finding.severity == "warning"
    assert "not decidable" not in finding.meaning


@pytest.mark.parametrize("stated", [7, 7.0, 7.03, 7.031])
def test_a_speedup_rounded_to_the_digits_it_prints_follows(stated):
    rates = curve("images_per_s", {1: 44.4, 8: 312.17})
    assert not row_findings(rules.stated_speedup, *rates, row("speedup_throughput", stated, 8, kind="stated"))


def test_a_speedup_without_a_base_is_not_judged():
    rows = [row("images_per_s", 312, 8), row("speedup_throughput", 9, 8, kind="stated")]
    assert not row_findings(rules.stated_speedup, *rows)


def test_the_base_of_the_same_experiment_comes_first():
    rows = [
        row("images_per_s", 19.46, 1, experiment="ranks_threads"),
        *curve("images_per_s", {1: 19.4, 8: 136.51}),
        row("speedup_throughput", 7.037, 8, kind="stated"),
    ]
    assert not row_findings(rules.stated_speedup, *rows)


def test_an_efficiency_that_does_not_follow():
    rates = curve("images_per_s", {1: 100, 4: 380})
    assert not row_findings(rules.stated_efficiency, *rates, row("efficiency_throughput", 0.95, 4, kind="stated"))
    (finding,) = row_findings(rules.stated_efficiency, *rates, row("efficiency_throughput", 0.98, 4, kind="stated"))
    assert finding.follows == "95.00%"


def batches(printed):
    """Batch 64 is 10 % faster at 1 rank, and scales 3.8x; batch 32 scales 3.7x: raw 1.13, of speedups 1.03."""
    return [
        *curve("images_per_s", {1: 110, 4: 418}, batch=64),
        *curve("images_per_s", {1: 100, 4: 370}, batch=32),
        *(
            row("ratio_batch_64_to_32", value, ranks, kind="stated", half_unit=0.005)
            for ranks, value in printed.items()
        ),
    ]


def test_a_ratio_of_speedups_under_the_name_of_a_ratio():
    (finding,) = row_findings(rules.normalised_ratio, *batches({1: 1.00, 4: 1.03}))
    assert "2 of 2 cells do not follow from the throughputs; all follow from speedups" in finding.meaning
    assert "1.10 to 1.13" in finding.meaning


def test_a_ratio_of_throughputs_is_what_it_says():
    assert not row_findings(rules.normalised_ratio, *batches({1: 1.10, 4: 1.13}))


def test_a_ratio_of_nothing():
    (finding,) = row_findings(rules.normalised_ratio, *batches({1: 1.10, 4: 2.00}))
    assert finding.meaning == "1 of 2 cells do not follow from the throughputs, nor from speedups."
    assert finding.severity == "serious"


def medians(values):
    cells = [
        row("ratio_resnet50_to_inceptionv3", value, ranks, kind="stated", gpu=gpu, place=f"{gpu} {ranks}")
        for gpu, ranks, value in values
    ]
    return [*cells, row("median_ratio_resnet50_to_inceptionv3", 1.6, None, None, kind="stated", model="", gpu="")]


def test_a_median_between_two_groups_stands_for_neither():
    two = [
        ("P100", 1, 1.48),
        ("P100", 2, 1.50),
        ("P100", 4, 1.54),
        ("K80", 1, 1.66),
        ("K80", 2, 1.69),
        ("K80", 4, 1.70),
    ]
    (finding,) = row_findings(rules.median_of_two_groups, *medians(two))
    assert "P100 (1.48 to 1.54) and K80 (1.66 to 1.70)" in finding.meaning


def test_a_median_amid_its_values():
    one = [("P100", 1, 1.5), ("P100", 2, 1.55), ("P100", 4, 1.59), ("K80", 1, 1.61), ("K80", 2, 1.65), ("K80", 4, 1.7)]
    assert not row_findings(rules.median_of_two_groups, *medians(one))


def percentage(value):
    times = [row("epoch_s", seconds, ranks) for ranks, seconds in ((1, 20), (2, 11), (4, 5))]
    return [*times, row("epoch_s_decrease_fraction", value, 4, kind="stated")]


def test_a_percentage_on_another_base_than_the_one_named():
    # From 11 to 5 s is 54.5 % less; 75 % is from 20 s.
    (finding,) = row_findings(rules.percentage_base, *percentage(0.75))
    assert finding.meaning == "Its base is another point: the time falls from 20 to 5 s, over 1 rank."


def test_a_percentage_on_no_base():
    (finding,) = row_findings(rules.percentage_base, *percentage(0.87))
    assert finding.meaning.startswith("No base gives it: 54.5% (the time falls from 11 to 5 s, over 2 ranks)")


@pytest.mark.parametrize("right", [0.55, 0.545])
def test_a_percentage_that_is_right(right):
    assert not row_findings(rules.percentage_base, *percentage(right))


def test_a_label_that_its_values_contradict():
    rates = curve("images_per_s", {1: 100, 4: 380})
    printed = row("ranks_as_printed", 3, 4, None, kind="stated", model="")
    (finding,) = row_findings(rules.label, *rates, printed)
    assert "1 of 1 cells would be beyond ideal, by 27%" in finding.meaning  # 3.8 / 3
    assert not row_findings(rules.label, *rates, printed | {"value": 4})


def test_a_copied_number_with_two_digits_swapped():
    rates = curve("images_per_s", {1: 142, 4: 596})
    source = curve("images_per_s", {1: 142, 4: 569}, run="primary source", place="the page")
    (finding,) = row_findings(rules.primary_source, *rates, *source)
    assert finding.off == pytest.approx(596 / 569 - 1)
    assert finding.meaning == "Two digits were swapped in copying. Its speedup is 4.01x, not 4.20x."


def test_a_copied_number_that_was_rounded():
    source = curve("images_per_s", {1: 30.5, 2: 57.8}, run="primary source", place="the page")
    (finding,) = row_findings(rules.primary_source, *curve("images_per_s", {1: 30, 2: 58}, half_unit=0.5), *source)
    assert finding.meaning.startswith("2 cells were rounded")
    assert finding.severity == "warning"
    assert not row_findings(rules.primary_source, *curve("images_per_s", {1: 30.5, 2: 57.8}), *source)


def test_megabytes_that_are_mebibytes():
    parameters = row("parameters", 138_357_544, None, None, kind="setup")
    (finding,) = row_findings(rules.size_in_bytes, parameters, row("model_bytes", 528e6, None, None, half_unit=5e5))
    assert "right in MiB" in finding.meaning
    assert not row_findings(rules.size_in_bytes, parameters, row("model_bytes", 553.4e6, None, None, half_unit=5e4))
