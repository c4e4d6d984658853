from train.record import rounds
from train.record.record import Window
from train.record.rounds import Arm

ONE, TWO = Arm(ranks=1, batch_per_rank=4), Arm(ranks=2, batch_per_rank=4)


def window(number: int, arm: int, window_s: float, steps: int = 2) -> Window:
    return Window(number, arm, window_s, [window_s / steps] * steps)


def test_a_rate_is_of_all_ranks_of_an_arm_gated_by_the_slowest():
    first = [window(0, 0, 2.0), window(0, 1, 3.0)]
    second = [window(0, 1, 4.0)]
    # 1 rank x 4 images x 2 steps in 2 s; 2 ranks x 4 images x 2 steps in the 4 s of the slower one.
    assert rounds.rates([ONE, TWO], [first, second]) == [{0: 4.0, 1: 4.0}]


def test_a_window_that_a_rank_did_not_finish_does_not_count():
    first = [window(0, 0, 2.0), window(0, 1, 4.0), window(1, 1, 4.0), window(1, 0, 1.0)]
    assert rounds.rates([ONE, TWO], [first, [window(0, 1, 4.0)]]) == [{0: 4.0, 1: 4.0}, {0: 8.0}]
    assert rounds.rates([ONE, TWO], [[], []]) == []


def test_a_speedup_is_a_ratio_within_a_round():
    assert rounds.ratios([{0: 4.0, 1: 6.0}, {0: 8.0}, {0: 2.0, 1: 3.6}], arm=1) == [1.5, 1.8]
