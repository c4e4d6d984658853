import numpy as np
import pytest

from analysis.diagnose import straggler
from analysis.diagnose.turns import Turn
from tests.helpers.steps_apart import ONE, TWO, curve, measured, noisy, turn


def test_a_rank_that_is_late_in_every_round_is_named_with_its_place():
    found = straggler.find(curve([turn(waiting=0.3 + 0.01 * k) for k in range(12)]), TWO)
    assert (found.host, found.rank, found.cores) == ("host0", 1, (1,))
    assert found.behind.value == pytest.approx(0.355)
    assert found.certain


def test_what_took_its_cores_is_a_share_of_the_step_without_allreduce():
    found = straggler.find(curve([turn(shared=1.0)] * 6), TWO)
    assert found.others_fraction == pytest.approx(0.5)  # 1 s of a step of 2 s
    assert found.stolen_fraction == 0.0


def test_ranks_that_are_late_in_turn_are_not_certain():
    def of_round(random):
        late = random.normal(0, 0.1)
        ready = [0.9 + max(0, late), 0.9 + max(0, -late)]
        return Turn({ONE: measured([1.0], [0.9]), TWO: measured([1.2, 1.2], ready)})

    alleged = [straggler.find(noisy(of_round, 24, seed), TWO).certain for seed in range(100)]
    assert sum(alleged) <= 5


def test_none_where_one_rank_computes_or_nothing_tells_when_gradients_are_ready():
    assert straggler.find(curve([turn()] * 6), ONE) is None
    untold = Turn({ONE: measured([1.0]), TWO: measured([1.0, 1.3])})
    assert straggler.find(curve([untold] * 6), TWO) is None


def test_of_four_ranks_the_mean_of_the_three_others_counts():
    from analysis.diagnose.turns import Arm, Launch

    four = Arm(4, 4)
    made = curve([Turn({four: measured([1.0] * 4, [0.5, 0.6, 0.7, 1.2])})] * 6)
    launches = [Launch(made.launches[0].turns, [(f"n{k}", [0]) for k in range(4)])]
    found = straggler.find(type(made)(**(vars(made) | {"launches": launches})), four)
    assert found.host == "n3"
    assert found.behind.value == pytest.approx(1.2 - np.mean([0.5, 0.6, 0.7]))
