from dataclasses import replace

import numpy as np
import pytest

from analysis.diagnose.paired_windows import ArmKey, LaunchWindows, PairedWindows
from analysis.diagnose.split import jobs, largest_loss, slowest_rank, splits
from tests.helpers.diagnosis_curves import (
    CONTROL,
    ONE_NODE,
    TWO_NODES,
    arm,
    arm_times,
    curve,
    paired_windows,
    without_gradient_times,
)
from tests.helpers.run_records import NO_ALLREDUCE


def mean_parts(*turns, launches=1):
    """Return the parts of a step at the largest point, in s, as means over turns."""
    [*_, largest] = splits(curve(turns, launches))
    return {part: largest.part(part).value for part in largest.parts}


@pytest.mark.parametrize("loss", ["slower", "waiting", "exchange", "shared"])
def test_each_cause_is_found_in_its_part_alone(loss):
    nothing = dict.fromkeys(("slower", "shared", "waiting", "exchange", "rest"), 0.0)
    assert mean_parts(paired_windows(**{loss: 0.3})) == pytest.approx({"alone": 1.0, **nothing, loss: 0.3})


LATE = replace(arm_times([1.5, 1.3], [1.1, 0.9], window_s=3.2), synchronous=False)
# The times of arms, and the parts of the step of the last point; alone it takes 1 s.
ARMS = {
    # Rank 1 has its gradients 0.1 s after rank 0, and its update takes 0.4 s, not 0.1 s. The exchange takes 0.1 s.
    "a rank that updates late is waited for in the exchange": (
        {ONE_NODE: arm_times([1.0], [0.9]), TWO_NODES: arm_times([1.5, 1.5], [0.9, 1.0]),
         CONTROL: arm_times([1.0, 1.4], [0.9, 1.0])}, {"slower": 0.0, "waiting": 0.4, "exchange": 0.1}),
    "without a control the times of gradients separate computing and exchange": (
        {ONE_NODE: arm_times([1.0], [0.9]), TWO_NODES: arm_times([1.35, 1.35], [1.1, 1.15])},
        {"slower": 0.2, "waiting": 0.05, "exchange": 0.1}),
    "without the times of gradients waiting stays in the exchange": (
        {ONE_NODE: arm_times([1.0]), TWO_NODES: arm_times([1.5, 1.5]), CONTROL: arm_times([1.1, 1.1])},
        {"slower": 0.1, "exchange": 0.4}),
    "without either they stay together": (
        {ONE_NODE: arm_times([1.0]), TWO_NODES: arm_times([1.5, 1.5])}, {"slower_or_exchange": 0.5}),
    # Alone 1 s, gradients after 0.9. The ranks take 1.5 and 1.3, gradients after 1.1 and 0.9; all end after 3.2 s.
    "ranks that never wait for each other have no waiting": (
        {ONE_NODE: arm_times([1.0], [0.9]), TWO_NODES: LATE}, {"slower": 0.1, "exchange": 0.3, "rest": 0.2}),
    "without their gradients nothing is separated": (
        {ONE_NODE: arm_times([1.0], [0.9]), TWO_NODES: replace(LATE, computing_s=None)},
        {"slower_or_exchange": 0.4, "rest": 0.2}),
    # 8 images on one rank: 2 s, gradients after 1.8. For 4 images that is 1 s and 0.9; the others take 0.95 and 1.0.
    "the time alone is scaled with the batch": (
        {ArmKey(1, 8): arm_times([2.0], [1.8]), ArmKey(2, 4): arm_times([1.3, 1.3], [0.95, 1.0])},
        {"slower": 0.05, "waiting": 0.05, "exchange": 0.2}),
    "a load that is there on one node too is no loss": (
        {ONE_NODE: arm_times([1.0], [0.9], [0.2]), TWO_NODES: arm_times([1.1, 1.1], [0.9, 0.9], [0.2, 0.2]),
         CONTROL: arm_times([1.0, 1.0], [0.9, 0.9], [0.2, 0.2])},
        {"shared": 0.0, "slower": 0.0, "waiting": 0.0, "exchange": 0.1}),
}  # fmt: skip


@pytest.mark.parametrize(("arms", "parts"), ARMS.values(), ids=ARMS)
def test_the_parts_of_a_step_worked_by_hand(arms, parts):
    assert mean_parts(PairedWindows(arms)) == pytest.approx({"alone": 1.0, "rest": 0.0} | parts)
    [first, *_, largest] = splits(curve([PairedWindows(arms)]))
    assert first.efficiency.value == 1
    assert largest.efficiency.value == pytest.approx(1.0 / arms[largest.point].measured_s)


def test_a_part_that_one_round_does_not_have_is_not_known():
    [*_, largest] = splits(curve([paired_windows(), *without_gradient_times([paired_windows()])]))
    assert largest.parts == ["alone", "slower", "exchange", "rest"]


def test_a_part_that_is_longer_than_the_step_is_no_loss_to_rely_on():
    """The step without allreduce takes 3 s, that with it 1.2 s, one node alone 1 s: slower by 2 s of 1.2 s."""
    arms = {ONE_NODE: arm_times([1.0]), TWO_NODES: arm_times([1.2, 1.2]), CONTROL: arm_times([3.0, 3.0])}
    [*_, largest] = splits(curve([PairedWindows(arms)] * 24))
    assert largest.part("slower").value == pytest.approx(2.0)
    assert (largest.losses, largest.too_long, largest.negative) == (["exchange"], ["slower"], ["exchange"])
    assert largest_loss(largest).candidates == []


def test_input_is_the_step_that_reads_less_the_same_in_memory():
    in_memory = paired_windows(exchange=0.1).arms
    arms = {ONE_NODE: arm_times([1.4]), TWO_NODES: arm_times([1.6, 1.6]), CONTROL: in_memory[CONTROL]}
    arms |= {replace(point, role="in-memory"): in_memory[point] for point in (ONE_NODE, TWO_NODES)}
    one, two = splits(curve([PairedWindows(arms)]))
    assert one.point == ONE_NODE
    assert {part: one.part(part).value for part in one.parts} == pytest.approx({"alone": 1.0, "input": 0.4, "rest": 0})
    numbers = two.part("input"), two.part("exchange"), two.measured, two.step_without("input")
    assert [number.value for number in numbers] == pytest.approx([0.5, 0.1, 1.6, 1.1])
    assert two.efficiency_without("input").value == pytest.approx(1.0 / 1.1)  # of both without input


def test_the_slowest_rank_is_chosen_launch_by_launch():
    first = paired_windows(waiting=0.3)
    swapped = {
        arm: replace(times, steps_s=times.steps_s[::-1], computing_s=times.computing_s[::-1])
        for arm, times in first.arms.items()
    }
    assert mean_parts(first, PairedWindows(swapped), launches=2)["waiting"] == pytest.approx(0.3)


def test_intervals_of_rounds_cover_rounds_and_those_of_six_repeats_cover_launches():
    turns = [paired_windows(exchange=0.1 + 0.01 * (-1) ** k) for k in range(24)]
    rounds, (_, repeats) = splits(curve(turns))[-1], arm("a", turns)
    assert rounds.measured.variation == "between rounds"
    assert repeats[-1].measured.variation == "between launches"


def test_a_share_is_the_ratio_of_the_means_and_never_above_all_of_the_step():
    """Rounds of 1.1 and 1.3 s, of which the exchange takes 0.1 and 0.3 s: 0.2 of 1.2 s."""
    [*_, largest] = splits(curve([paired_windows(exchange=0.1 + 0.2 * (k % 2)) for k in range(24)]))
    share = largest.share("exchange")
    residuals = np.array([0.1 - 1.1 / 6, 0.3 - 1.3 / 6] * 12) / 1.2
    half = 2.3646 * residuals.std(ddof=1) / 8**0.5  # t(0.975, 7): three rounds count as one
    assert (share.value, share.high) == pytest.approx((1 / 6, 1 / 6 + half), rel=1e-3)


def test_ranks_that_are_late_in_turn_are_not_certain():
    one, *two = arm_times([1.0], [0.9]), arm_times([1.2, 1.2], [0.9, 1.0]), arm_times([1.2, 1.2], [1.0, 0.9])
    turns = [PairedWindows({ONE_NODE: one, TWO_NODES: times}) for times in two] * 12
    assert not slowest_rank(curve(turns), TWO_NODES).certain


def test_no_slowest_rank_and_no_loss_where_one_computes_or_gradient_times_are_not_known():
    alone = curve([PairedWindows({ONE_NODE: arm_times([1.0], [0.9])})] * 6)
    assert slowest_rank(alone, ONE_NODE) is None
    assert largest_loss(splits(alone)[-1]).candidates == []
    unknown = PairedWindows({ONE_NODE: arm_times([1.0]), TWO_NODES: arm_times([1.0, 1.3])})
    assert slowest_rank(curve([unknown] * 6), TWO_NODES) is None


def test_one_of_four_ranks_is_compared_with_the_mean_of_the_three_others():
    four = ArmKey(4, 4)
    rounds = [PairedWindows({four: arm_times([1.0] * 4, [0.5, 0.6, 0.7, 1.2])})] * 6
    launches = [LaunchWindows(rounds, [(f"n{k}", [0]) for k in range(4)])]
    result = slowest_rank(replace(curve(rounds), launches=launches), four)
    assert result.host == "n3"
    assert result.behind_s.value == pytest.approx(1.2 - np.mean([0.5, 0.6, 0.7]))


def test_a_job_has_its_phases_in_groups(results):
    results.add(nodes=2)
    results.add(nodes=2, **NO_ALLREDUCE)
    [job] = jobs(results.table())
    assert (job.model, job.nodes, job.batch_per_rank) == ("resnet50", 2, 8)
    # 0.5 + 3 + 0.5 + 0.1 + 2 + 0.4 + 6 s until the end of the first step, then six steps of 0.5 s
    parts_s = {name: number.value for name, number in job.parts_s.items()}
    assert parts_s == pytest.approx({"start-up": 12.5, "steps": 3.0, "exit": 0.5})
    assert job.job_s.value == pytest.approx(16.0)
