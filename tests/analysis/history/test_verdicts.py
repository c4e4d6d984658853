import math

import pytest

from analysis.history import verdicts
from analysis.history.sessions import Key
from analysis.stats.student import ratio_of_means


def words(ratios, within=0.05):
    return [verdicts.verdict_name(verdict, False) for verdict in verdicts.judge_ratios(ratios, within)]


def test_two_launches_or_more_on_either_side_are_compared_as_two_sets_are():
    result = verdicts.mean_ratio([10, 12], [20, 24])
    assert (result.value, result.interval) == (2, pytest.approx(ratio_of_means([10, 12], [20, 24]).interval))


def test_a_single_launch_scatters_as_those_before_worked_by_hand():
    # before: the logarithms have the standard deviation 0.1; the error of the ratio is 0.1 x sqrt(1 + 1/3), 2 degrees
    before = [10 * math.exp(x) for x in (-0.1, 0, 0.1)]
    mean = 10 * (1 + 2 * math.cosh(0.1)) / 3
    result = verdicts.mean_ratio(before, [12])
    apart = math.exp(4.302653 * 0.1 * math.sqrt(4 / 3))  # t(0.975, 2)
    assert (result.value, result.low, result.high) == pytest.approx((12 / mean, 12 / mean / apart, 12 / mean * apart))


def test_a_single_launch_before_scatters_as_those_now():
    there, back = verdicts.mean_ratio([9, 10, 11], [12]), verdicts.mean_ratio([12], [9, 10, 11])
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low))


def test_one_launch_on_each_side_has_no_interval():
    assert math.isnan(verdicts.mean_ratio([10], [5]).low)


def test_launches_that_agree_to_the_digit_decide():
    assert words([verdicts.mean_ratio([10, 10], [8, 8])]) == ["slower"]


@pytest.mark.parametrize(
    ("now", "verdict"),
    [
        ([100.1, 99.9, 100.2], "as before"),
        ([80.0, 80.3, 79.8], "slower"),
        ([125.0, 124.6, 125.2], "faster"),
        ([95.0, 95.2, 94.9], "not decidable"),  # at the limit itself
        ([70.0, 130.0], "not decidable"),
    ],
)
def test_verdicts(now, verdict):
    assert words([verdicts.mean_ratio([100.0, 100.3, 99.8], now)]) == [verdict]


def test_a_time_that_is_larger_is_slower():
    longer, shorter = (verdicts.mean_ratio([100.0, 100.3, 99.8], [x + 0.1, x, x - 0.2]) for x in (120, 80))
    judged = verdicts.judge_ratios([longer, shorter], 0.05)
    assert [verdicts.verdict_name(one, True) for one in judged] == ["slower", "faster"]
    assert [verdicts.verdict_name(one, False) for one in judged] == ["faster", "slower"]


def test_verdicts_are_corrected_for_their_number():
    ratio = verdicts.mean_ratio([100.0, 101.5, 98.5], [86.0, 87.5, 84.5])
    (alone,), many = verdicts.judge_ratios([ratio], 0.05), verdicts.judge_ratios([ratio] * 40, 0.05)
    assert words([ratio]) == ["slower"]
    assert set(words([ratio] * 40)) == {"not decidable"}
    assert many[0].p == pytest.approx(40 * alone.p)


def test_a_smaller_tolerance_finds_less_to_be_as_before():
    ratio = verdicts.mean_ratio([100.0, 100.3, 99.8], [98.0, 98.2, 97.9])
    assert [words([ratio], within) for within in (0.05, 0.01)] == [["as before"], ["slower"]]


def test_older_launches_tell_how_far_launches_scatter_worked_by_hand():
    # logs about the mean of their group: 0 before and now, ±0.01 in two older ones: s = 0.01 sqrt(4 / 4), 4 degrees
    e = math.exp
    older = [[e(0.01), e(-0.01)], [100 * e(0.01), 100 * e(-0.01)]]
    result = verdicts.mean_ratio([10, 10], [9, 9], older)
    apart = math.exp(2.776445 * 0.01)  # t(0.975, 4), times sqrt(1/2 + 1/2)
    assert (result.value, result.low, result.high) == pytest.approx((0.9, 0.9 / apart, 0.9 * apart))


def test_one_launch_on_each_side_scatters_as_the_launches_of_other_curves_worked_by_hand():
    def change(model, before, now, ranks=2):
        key = Key("weak_scaling", model, ranks, f"{ranks} nodes", "images_per_s", model, "m")
        return verdicts.Change(key, tuple(before), tuple(now))

    several = [10 * math.exp(x) for x in (-0.02, 0, 0.02)]  # their logarithms have the standard deviation 0.02
    one, other, smaller, _ = verdicts.verdict_rows(
        [
            change("resnet50", [10], [8]),
            change("vgg16", several, several),
            change("resnet50", [10], [8], ranks=1),
            change("resnet50", [10], [8], ranks=4),
        ],
        0.05,
    )
    # the error of the ratio is 0.02 x root 2, with the 4 degrees of freedom of the other curve; t(0.975, 4) = 2.776
    assert one.ratio.high / one.ratio.value == pytest.approx(math.exp(2.776445 * 0.02 * math.sqrt(2)))
    assert one.verdict == "slower"
    assert one.note == "1 launch: with the variance between launches of 1 other curve"
    assert (other.curves, other.note) == (0, "")
    assert smaller.note == "one launch before and one now: how far launches differ is not known"
