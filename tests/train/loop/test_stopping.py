from train.loop.stopping import is_over


def test_rounds_that_do_not_count_are_not_among_the_enough():
    assert not is_over(4, 2, 3, 0.0, 40.0, 1000.0)
    assert is_over(4, 3, 3, 0.0, 40.0, 1000.0)
    assert not is_over(4, 4, None, 0.0, 40.0, 1000.0)


def test_half_of_the_next_round_may_be_beyond_the_end():
    # Two rounds from 10 to 30 s took 10 s each: half of the next one ends at 35 s.
    assert is_over(2, 2, None, 10.0, 30.0, 34.9)
    assert not is_over(2, 2, None, 10.0, 30.0, 35.1)
