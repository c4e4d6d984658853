from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.diagnose.paired_windows import Arm, Launch, PairedWindows
from analysis.diagnose.split import largest_loss, slowest_rank, splits
from tests.helpers.steps_apart import CONTROL, ONE, TWO, arm, curve, measured, noisy, paired_windows


def parts_of(*turns, launches=1):
    """The parts of the largest point, in s, means over turns."""
    [*_, largest] = splits(curve(turns, launches))
    return {part: largest.part(part).value for part in largest.parts}


@pytest.mark.parametrize("loss", ["slower", "waiting", "exchange", "shared"])
def test_each_cause_is_found_in_its_part_alone(loss):
    result = parts_of(paired_windows(**{loss: 0.3}))
    assert result == pytest.approx({"alone": 1.0, "slower": 0.0, "shared": 0.0, "waiting": 0.0, "exchange": 0.0,
                                   "rest": 0.0} | {loss: 0.3})  # fmt: skip


def test_a_delay_of_one_of_two_ranks_is_waiting_and_not_half_slower_computing():
    # Rank 1 sleeps 0.3 s in every step, whatever the arm.
    result = parts_of(paired_windows(waiting=0.3, exchange=0.1))
    assert result["waiting"] == pytest.approx(0.3)
    assert result["slower"] == pytest.approx(0.0)


def test_a_rank_that_updates_late_is_waited_for_in_the_exchange():
    # Rank 1 has its gradients 0.1 s after rank 0, and its update takes 0.4 s, not 0.1 s. The exchange takes 0.1 s.
    arms = {
        ONE: measured([1.0], [0.9]),
        TWO: measured([1.5, 1.5], [0.9, 1.0]),
        CONTROL: measured([1.0, 1.4], [0.9, 1.0]),
    }
    result = parts_of(PairedWindows(arms))
    assert result == pytest.approx({"alone": 1.0, "slower": 0.0, "waiting": 0.4, "exchange": 0.1, "rest": 0.0})


def test_input_is_the_step_that_reads_less_the_same_in_memory():
    held = paired_windows(exchange=0.1).arms
    arms = {ONE: measured([1.4]), TWO: measured([1.6, 1.6]), CONTROL: held[CONTROL]}
    arms |= {replace(point, role="in-memory"): held[point] for point in (ONE, TWO)}
    one, two = splits(curve([PairedWindows(arms)]))
    assert one.point == ONE
    assert {part: one.part(part).value for part in one.parts} == pytest.approx({"alone": 1.0, "input": 0.4, "rest": 0})
    assert two.part("input").value == pytest.approx(0.5)
    assert two.part("exchange").value == pytest.approx(0.1)
    assert two.measured.value == pytest.approx(1.6)
    assert two.efficiency_without("input").value == pytest.approx(1.0 / 1.1)  # of both without input
    assert two.step_without("input").value == pytest.approx(1.1)


def test_without_a_control_the_times_of_gradients_tell_computing_and_exchange_apart():
    rounds = paired_windows(slower=0.2, exchange=0.1, waiting=0.05)
    arms = {arm: of for arm, of in rounds.arms.items() if arm != CONTROL}
    result = parts_of(PairedWindows(arms))
    assert result == pytest.approx({"alone": 1.0, "slower": 0.2, "waiting": 0.05, "exchange": 0.1, "rest": 0.0})


def test_without_either_what_they_tell_apart_stays_together():
    arms = {ONE: measured([1.0]), TWO: measured([1.5, 1.5])}
    assert parts_of(PairedWindows(arms)) == pytest.approx({"alone": 1.0, "slower_or_exchange": 0.5, "rest": 0.0})


def test_ranks_that_never_wait_for_each_other_have_no_waiting():
    # Alone 1 s, gradients after 0.9. The ranks take 1.5 and 1.3, gradients after 1.1 and 0.9; all end after 3.2 s.
    two = replace(measured([1.5, 1.3], [1.1, 0.9], window_s=3.2), synchronous=False)
    result = parts_of(PairedWindows({ONE: measured([1.0], [0.9]), TWO: two}))
    assert result == pytest.approx({"alone": 1.0, "slower": 0.1, "exchange": 0.3, "rest": 0.2})
    untold = replace(two, computing_s=None)
    result = parts_of(PairedWindows({ONE: measured([1.0], [0.9]), TWO: untold}))
    assert result == pytest.approx({"alone": 1.0, "slower_or_exchange": 0.4, "rest": 0.2})


def test_without_a_control_the_time_alone_is_scaled_with_the_batch():
    # 8 images on one rank: 2 s, gradients after 1.8. Of 4 images that is 1 s and 0.9; the others take 0.95 and 1.0.
    arms = {Arm(1, 8): measured([2.0], [1.8]), Arm(2, 4): measured([1.3, 1.3], [0.95, 1.0])}
    result = parts_of(PairedWindows(arms))
    assert result == pytest.approx({"alone": 1.0, "slower": 0.05, "waiting": 0.05, "exchange": 0.2, "rest": 0.0})


def test_without_the_times_of_gradients_waiting_stays_in_the_exchange():
    arms = {ONE: measured([1.0]), TWO: measured([1.5, 1.5]), CONTROL: measured([1.1, 1.1])}
    assert parts_of(PairedWindows(arms)) == pytest.approx({"alone": 1.0, "slower": 0.1, "exchange": 0.4, "rest": 0.0})


def test_what_follows_the_last_step_of_a_window_is_the_rest():
    arms = paired_windows(exchange=0.2).arms | {TWO: measured([1.2, 1.2], [0.9, 0.9], [0.0, 0.0], window_s=2.5)}
    result = parts_of(PairedWindows(arms))
    assert result["rest"] == pytest.approx(0.05)  # (2.5 - 2 x 1.2) / 2 steps
    assert result["exchange"] == pytest.approx(0.2)


def test_the_batch_of_one_rank_alone_is_scaled_to_that_of_the_point():
    # Strong scaling: 8 images on one rank take 2 s, so 4 would take 1 s.
    half = Arm(2, 4)
    arms = {Arm(1, 8): measured([2.0]), half: measured([1.2, 1.2])}
    [_, two] = splits(curve([PairedWindows(arms)]))
    assert two.part("alone").value == pytest.approx(1.0)
    assert two.efficiency.value == pytest.approx(1 / 1.2)


def test_a_load_that_is_there_on_one_node_too_is_no_loss():
    arms = paired_windows().arms | {
        ONE: measured([1.2], [1.1], [0.2]),
        CONTROL: measured([1.2, 1.2], [1.1, 1.1], [0.2, 0.2]),
        TWO: measured([1.3, 1.3], [1.1, 1.1], [0.2, 0.2]),
    }
    result = parts_of(PairedWindows(arms))
    assert (result["shared"], result["slower"], result["exchange"]) == pytest.approx((0.0, 0.0, 0.1))


def test_the_slowest_rank_is_chosen_launch_by_launch():
    first = paired_windows(waiting=0.3)
    swapped = PairedWindows(
        {
            arm: replace(times, steps_s=times.steps_s[::-1], computing_s=times.computing_s[::-1])
            for arm, times in first.arms.items()
        }
    )
    assert parts_of(first, swapped, launches=2)["waiting"] == pytest.approx(0.3)


def test_hidden_is_what_the_exchange_takes_by_itself_beyond_what_is_exposed():
    [_, two] = splits(curve([paired_windows(exchange=0.1, whole_exchange=0.25)]))
    assert two.exchange_alone.value == pytest.approx(0.25)
    assert two.hidden.value == pytest.approx(0.15)
    [_, two] = splits(curve([paired_windows(exchange=0.1)]))
    assert (two.exchange_alone, two.hidden) == (None, None)


seconds = st.floats(0.01, 10)


@given(st.lists(st.tuples(*[seconds] * 12), min_size=1, max_size=8))
def test_the_parts_add_up_to_the_measured_step_whatever_was_measured(rounds):
    turns = []
    for a, b, c, d, e, f, g, h, i, j, k, m in rounds:
        arms = {
            ONE: measured([a], [a / 2], [i]),
            TWO: measured([b, c], [d, e], [j, k], window_s=2 * max(b, c) + m),
            CONTROL: measured([f, g], [f / 2, g / 2], [h, i]),
        }
        turns.append(PairedWindows(arms))
    for split in splits(curve(turns)):
        assert sum(split.part(part).value for part in split.parts) == pytest.approx(split.measured.value)
        assert split.measured.value == pytest.approx(np.mean([paired.arms[split.point].measured_s for paired in turns]))


def test_intervals_of_rounds_cover_rounds_and_those_of_six_repeats_cover_launches():
    turns = [paired_windows(exchange=0.1 + 0.01 * k) for k in range(6)]
    rounds, (_, repeats) = splits(curve(turns))[-1], arm("a", turns)
    assert rounds.measured.covers == "rounds"
    assert repeats[-1].measured.covers == "launches"
    assert repeats[-1].measured.interval == rounds.measured.interval


def test_a_rank_that_is_late_in_every_round_is_named_with_its_location():
    result = slowest_rank(curve([paired_windows(waiting=0.3 + 0.01 * k) for k in range(12)]), TWO)
    assert (result.host, result.rank, result.cores) == ("host0", 1, (1,))
    assert result.behind_s.value == pytest.approx(0.355)
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
    one_curve = curve([PairedWindows({four: measured([1.0] * 4, [0.5, 0.6, 0.7, 1.2])})] * 6)
    launches = [Launch(one_curve.launches[0].paired_windows, [(f"n{k}", [0]) for k in range(4)])]
    result = slowest_rank(type(one_curve)(**(vars(one_curve) | {"launches": launches})), four)
    assert result.host == "n3"
    assert result.behind_s.value == pytest.approx(1.2 - np.mean([0.5, 0.6, 0.7]))


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
