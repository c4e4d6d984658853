import numpy as np
import pytest

from analysis.diagnose.paired_windows import Arm, Launch, PairedWindows
from analysis.diagnose.split import splits
from analysis.diagnose.verdicts import largest_loss, slowest_rank
from tests.helpers.steps_apart import ONE, TWO, curve, measured, noisy, paired_windows


def test_a_rank_that_is_late_in_every_round_is_named_with_its_location():
    result = slowest_rank(curve([paired_windows(waiting=0.3 + 0.01 * k) for k in range(12)]), TWO)
    assert (result.host, result.rank, result.cores) == ("host0", 1, (1,))
    assert result.behind.value == pytest.approx(0.355)
    assert result.certain


def test_what_took_its_cores_is_a_share_of_the_step_without_allreduce():
    result = slowest_rank(curve([paired_windows(shared=1.0)] * 6), TWO)
    assert result.others_fraction == pytest.approx(0.5)  # 1 s of a step of 2 s
    assert result.stolen_fraction == 0.0


def test_ranks_that_are_late_in_turn_are_not_certain():
    def in_round(random):
        late = random.normal(0, 0.1)
        ready = [0.9 + max(0, late), 0.9 + max(0, -late)]
        return PairedWindows({ONE: measured([1.0], [0.9]), TWO: measured([1.2, 1.2], ready)})

    alleged = [slowest_rank(noisy(in_round, 24, seed), TWO).certain for seed in range(20)]
    assert sum(alleged) <= 2


def test_no_slowest_rank_where_one_computes_or_gradient_times_are_not_known():
    assert slowest_rank(curve([paired_windows()] * 6), ONE) is None
    untold = PairedWindows({ONE: measured([1.0]), TWO: measured([1.0, 1.3])})
    assert slowest_rank(curve([untold] * 6), TWO) is None


def test_of_four_ranks_the_mean_of_the_three_others_counts():
    four = Arm(4, 4)
    made = curve([PairedWindows({four: measured([1.0] * 4, [0.5, 0.6, 0.7, 1.2])})] * 6)
    launches = [Launch(made.launches[0].paired_windows, [(f"n{k}", [0]) for k in range(4)])]
    result = slowest_rank(type(made)(**(vars(made) | {"launches": launches})), four)
    assert result.host == "n3"
    assert result.behind.value == pytest.approx(1.2 - np.mean([0.5, 0.6, 0.7]))


def loss(curve):
    return largest_loss(splits(curve)[-1])


def test_the_part_that_is_significantly_larger_than_all_others_is_named():
    rounds = [paired_windows(exchange=0.30 + 0.01 * k, slower=0.10 - 0.01 * k) for k in range(8)]
    assert loss(curve(rounds)).part == "exchange"


def test_two_parts_of_which_now_one_now_the_other_is_larger_are_both_candidates():
    rounds = [paired_windows(exchange=0.2 + 0.01 * (-1) ** k, slower=0.2) for k in range(12)]
    result = loss(curve(rounds))
    assert result.part is None
    assert set(result.candidates) == {"exchange", "slower"}


def test_nothing_is_named_of_a_step_that_lost_nothing():
    rounds = [paired_windows(exchange=0.01 * (-1) ** k, slower=0.01 * (-1) ** (k // 2)) for k in range(16)]
    assert loss(curve(rounds)).candidates == []


def test_few_rounds_decide_nothing():
    result = loss(curve([paired_windows(exchange=0.5)] * 5))
    assert not result.enough
    assert result.part is None


def test_a_single_point_has_no_losses():
    one = curve([PairedWindows(dict(list(paired_windows().arms.items())[:1]))] * 6)
    assert loss(one).candidates == ()


@pytest.mark.slow
@pytest.mark.parametrize(("slower", "often"), [(0.2, 0), (0.1, 95)])
def test_how_often_equal_parts_are_separated_and_different_ones_are(slower, often):
    """Exchange takes 0.2 s; both scatter by 0.05 s. Equal parts: each is named at most 5 times in 100."""

    def in_round(random):
        return paired_windows(exchange=0.2 + random.normal(0, 0.05), slower=slower + random.normal(0, 0.05))

    result = [loss(noisy(in_round, 24, seed)).part for seed in range(100)]
    assert result.count("slower") <= 5
    if often:
        assert result.count("exchange") >= often
    else:
        assert result.count("exchange") <= 5
