import math
from itertools import islice

import pytest

from record import rounds
from record.intervals import Turn
from record.rounds import Arm
from record.schema import Window
from tests.helpers.run_records import disturb, make_rounds

ONE_RANK, TWO_RANKS = Arm(1, 4, "base"), Arm(2, 4, "point")


def window(number: int, arm: int, window_s: float, steps: int = 2) -> Window:
    return Window(number, arm, window_s, [window_s / steps] * steps)


def test_a_rate_is_that_of_all_ranks_in_the_time_of_the_slowest_if_all_have_finished():
    # 1 rank x 4 images x 2 steps in 2 s; 2 ranks x 4 images x 2 steps in the 4 s of the slower one.
    first = [window(0, 0, 2.0), window(0, 1, 3.0), window(1, 1, 4.0), window(1, 0, 1.0)]
    assert rounds.rates([ONE_RANK, TWO_RANKS], [first, [window(0, 1, 4.0)]]) == [{0: 4.0, 1: 4.0}, {0: 8.0}]
    assert rounds.rates([ONE_RANK, TWO_RANKS], [[], []]) == []


def test_the_rates_of_a_curve_are_those_of_the_rounds_that_count_of_all_its_launches():
    """Rounds of 1 s for the base; two ranks take 2 / 1.5 s as long for twice the images. The second is disturbed."""
    first, second = (make_rounds([(1.0, 2 / x, 1.0) for x in ratios], repeat=repeat)
                     for repeat, ratios in enumerate(([1.5, 1.2], [1.6])))  # fmt: skip
    disturb(first, {1: 0.5})
    [(point, base), _] = rounds.over_base([first, second]).values()
    turns = [Turn("r0", 0, 0), Turn("r1", 0, 0)]
    assert ([*point], [*base]) == (turns, turns)
    assert [point[turn] / base[turn] for turn in turns] == pytest.approx([1.5, 1.6])
    assert next(iter(rounds.speedups([first, second]).values())).value == pytest.approx(math.sqrt(1.5 * 1.6))


def test_each_round_has_its_windows_in_an_order_that_the_launch_determines():
    first, again, other = ([*islice(rounds.orders(3, repeat, 4), 5)] for repeat in (0, 0, 1))
    assert first == again != other
    assert [sorted(order) for order in first] == [[0, 1, 2, 3]] * 5


def test_speedups_are_over_the_base_or_else_over_the_control():
    point, base, control = (Arm(1, 4, role) for role in ("point", "base", "control"))
    assert rounds.base_of([control, point, base]) == 2
    assert rounds.base_of([point, control, control]) == 1
    with pytest.raises(ValueError, match="control"):
        rounds.base_of([point])


BASE = {"nodes": 1, "ranks": 1, "batch_per_rank": 8, "allreduce": True, "role": "base", "rank_group": 0}
CONTROL = {"nodes": 1, "ranks": 2, "batch_per_rank": 4, "allreduce": False, "role": "control", "rank_group": 1}
CONFIG = {
    **{"nodes": 1, "batch_per_rank": 8, "global_batch": 8, "threads_per_rank": 2},
    "distribution": {"backend": "horovod", "allreduce": True, "cycle_time_ms": 20.0},
    "system": {"link_mbit_per_s": None},
    "rounds": [BASE | {"link_mbit_per_s": None}, CONTROL | {"link_mbit_per_s": 5.0}],
    "rank_groups": [
        {"settings": {}, "first_rank": 0},
        {"settings": {"threads_per_rank": 1, "distribution.cycle_time_ms": 5.0}, "first_rank": 1},
    ],
}


def test_an_arm_of_a_rank_group_has_its_settings_and_its_ranks():
    assert rounds.arms(CONFIG) == [Arm(1, 8, "base"), Arm(2, 4, "control")]
    assert [list(rounds.ranks_of(CONFIG, arm)) for arm in (0, 1)] == [[0], [1, 2]]
    changed = {"batch_per_rank": 4, "threads_per_rank": 1, "system": {"link_mbit_per_s": 5.0}}
    changed |= {"distribution": {"backend": "horovod", "allreduce": False, "cycle_time_ms": 5.0}}
    assert rounds.config_of(CONFIG, 1) == CONFIG | changed | {"rounds": [], "rank_groups": []}
    assert CONFIG["distribution"] == {"backend": "horovod", "allreduce": True, "cycle_time_ms": 20.0}
    alone = CONFIG | {"rank_groups": []}
    assert list(rounds.ranks_of(alone, 1)) == [0, 1]
    assert rounds.config_of(alone, 1)["threads_per_rank"] == 2


def test_an_arm_of_several_passes_counts_the_images_of_each():
    passes = CONFIG["rounds"][1] | {"backward_passes_per_step": 3}
    several = CONFIG["rank_groups"][1] | {"settings": {"distribution.backward_passes_per_step": 3}}
    config = CONFIG | {"rounds": [CONFIG["rounds"][0], passes], "rank_groups": [CONFIG["rank_groups"][0], several]}
    assert rounds.arms(config) == [Arm(1, 8, "base"), Arm(2, 12, "control")]
    alone = rounds.config_of(config, 1)
    assert (alone["global_batch"], alone["distribution"]["backward_passes_per_step"]) == (24, 3)


def test_a_round_is_whole_with_all_arms_but_controls():
    """A base, two nodes and their control, which the second round left out; the third broke off before two nodes."""
    run = make_rounds([(1.0, 1.25, 1.0)] * 3)
    for rank in run.ranks:
        rank.windows = [w for w in rank.windows if (w.round, w.arm) != (1, 2) and not (w.round == 2 and w.arm > 0)]
    assert [*rounds.complete_rounds(run)] == [0, 1]
    run.arms_left_out = {run.config["rounds"][1]["name"]: "its batch is too large"}
    assert [*rounds.complete_rounds(run)] == [0, 1, 2]
    assert rounds.speedups([run]).keys() == {run.config["rounds"][2]["name"]}
    assert rounds.point_speedups([run]) == {}
    assert len(rounds.point_speedups([make_rounds([(1.0, 1.25, 1.0)] * 3), run])) == 1  # the first launch measured it


@pytest.mark.parametrize(
    ("arms", "labels"),
    [
        ([(1, None, "nodes"), (2, None, "nodes"), (2, "alone", "nodes")], ["1 node", "2 nodes", "2 nodes alone"]),
        ([(1, None, "batch_per_rank"), (2, None, "batch_per_rank")], ["arm 0", "arm 1"]),
        ([(1, None, "nodes"), (2, None, "batch_per_rank")], ["arm 0", "arm 1"]),
        ([(2, None, "nodes"), (2, None, "nodes")], ["arm 0", "arm 1"]),  # ambiguous
    ],
)
def test_arms_over_nodes_are_called_by_their_nodes_others_by_their_names(arms, labels):
    listed = [
        {"name": f"arm {index}", "nodes": nodes, "arm": arm, "swept": {swept: nodes}}
        for index, (nodes, arm, swept) in enumerate(arms)
    ]
    assert list(rounds.labels({"rounds": listed}).values()) == labels


def test_the_time_of_a_step_is_the_median_over_the_rounds_of_each_arm_that_was_measured():
    """Steps of 1 s of the base and the control; of 1.25, 1.75 and 1.5 s on two nodes."""
    run = make_rounds([(1.0, 1.25, 1.0), (1.0, 1.75, 1.0), (1.0, 1.5, 1.0)])
    assert rounds.step_times_s(run) == pytest.approx({0: 1.0, 1: 1.5, 2: 1.0})
    for rank in run.ranks:
        rank.windows = [window for window in rank.windows if window.arm < 2]
    assert rounds.step_times_s(run).keys() == {0, 1}
