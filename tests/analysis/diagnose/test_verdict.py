import pytest

from analysis.diagnose.split import splits
from analysis.diagnose.verdict import judge
from tests.helpers.steps_apart import curve, noisy, turn


def verdict(made):
    return judge(splits(made)[-1])


def test_the_part_that_is_surely_larger_than_all_others_is_named():
    rounds = [turn(exchange=0.30 + 0.01 * k, slower=0.10 - 0.01 * k) for k in range(8)]
    assert verdict(curve(rounds)).largest == "exchange"


def test_two_parts_of_which_now_one_now_the_other_is_larger_are_both_candidates():
    rounds = [turn(exchange=0.2 + 0.01 * (-1) ** k, slower=0.2) for k in range(12)]
    found = verdict(curve(rounds))
    assert found.largest is None
    assert set(found.parts) == {"exchange", "slower"}


def test_nothing_is_named_of_a_step_that_lost_nothing():
    rounds = [turn(exchange=0.01 * (-1) ** k, slower=0.01 * (-1) ** (k // 2)) for k in range(16)]
    assert verdict(curve(rounds)).parts == []


def test_few_rounds_decide_nothing():
    found = verdict(curve([turn(exchange=0.5)] * 5))
    assert not found.enough
    assert found.largest is None


def test_a_single_point_has_no_losses():
    from analysis.diagnose.turns import Turn

    one = curve([Turn(dict(list(turn().arms.items())[:1]))] * 6)
    assert verdict(one).parts == ()


@pytest.mark.slow
@pytest.mark.parametrize(("slower", "often"), [(0.2, 0), (0.1, 95)])
def test_how_often_equal_parts_are_told_apart_and_different_ones_are(slower, often):
    """Exchange takes 0.2 s; both scatter by 0.05 s. Equal parts: each is named at most 5 times in 100."""

    def of_round(random):
        return turn(exchange=0.2 + random.normal(0, 0.05), slower=slower + random.normal(0, 0.05))

    found = [verdict(noisy(of_round, 24, seed)).largest for seed in range(100)]
    assert found.count("slower") <= 5
    if often:
        assert found.count("exchange") >= often
    else:
        assert found.count("exchange") <= 5
