import pytest

from record import rounds
from record.disturbance import Selection, run_selection, select, selection_text, window_disturbance
from record.schema import CoreUse
from tests.helpers.run_records import Arm, disturb, make_rounds

PRECISION = 0.025  # others may take as much of a core


def use(others_s: float = 0.0, steal_s: float = 0.0, delay_s: float | None = None) -> CoreUse:
    """A window of 2 s, of which the rank used 1.8 s on one core."""
    return CoreUse(2.0, 1.8, 1.8 + others_s, steal_s, delay_s)


@pytest.mark.parametrize(
    ("core_use", "cores", "shared", "fraction"),
    [
        (use(), 1, False, 0.0),
        (use(others_s=0.01), 1, False, 0.0),  # a tick
        (use(others_s=0.21), 1, False, 0.1),
        (use(others_s=0.22), 4, False, 0.1),  # four independent errors of a tick add up to two ticks
        (use(others_s=0.10, steal_s=0.11), 1, False, 0.1),
        (use(others_s=0.10, steal_s=0.11), 1, True, 0.05),  # other ranks are most of what else runs there
        (use(others_s=0.5, delay_s=0.01), 1, False, 0.0),  # they ran while the rank waited for other ranks
        (use(others_s=0.0, delay_s=0.5), 1, False, 0.0),  # its own threads waited for each other
        (None, 1, False, None),
        (CoreUse(0.0, 0.0, 0.0, 0.0), 1, False, None),
        (CoreUse(0.5, 0.4, 0.46, 0.0), 1, False, 0.1),
    ],
)
def test_others_take_what_the_kernel_counts_while_the_rank_wants_to_run(core_use, cores, shared, fraction):
    assert window_disturbance(core_use, cores, shared) == (None if fraction is None else pytest.approx(fraction))


@pytest.mark.parametrize(
    ("disturbances", "counting"),
    [
        ([0.0, 0.02, 0.03, 0.025], (0, 1, 3)),
        ([None] * 3, (0, 1, 2)),  # nothing is counted: all rounds count
        ([None, 0.3, 0.3], (0, 1)),  # fewer than half, and than three, are quiet: the least disturbed half
        ([0.1, 0.4, 0.2, 0.3], (0, 2)),  # never quiet
        ([None, 0.05, 0.06, 0.07, 0.3], (0, 1, 2)),
        ([0.3], (0,)),
        ([0.0] * 3 + [0.3] * 17, (0, 1, 2)),  # seldom quiet
        ([], ()),
    ],
)
def test_rounds_count_by_what_others_took_and_on_a_busy_machine_the_least_disturbed_half(disturbances, counting):
    assert select(dict(enumerate(disturbances)), PRECISION).counting == counting
    assert select(dict(enumerate(disturbances)), None).counting == tuple(range(len(disturbances)))
    twice = {number: disturbance and 2 * disturbance for number, disturbance in enumerate(disturbances)}
    assert select(twice, 2 * PRECISION).counting == counting  # the threshold follows from the precision


def test_the_text_says_how_many_rounds_are_left_out_and_why():
    quiet, busy = Selection((0, 1), {0: 0.0, 1: 0.015, 2: 0.034, 3: 0.48}), Selection((0,), {0: 0.11, 1: 0.2})
    assert selection_text([quiet]) == "2 of 4 rounds left out: others took 3.4 to 48 % of a core"
    assert selection_text([quiet, busy]) == (
        "3 of 6 rounds left out: others took 3.4 to 48 % of a core, and up to 11 % in those that count"
    )
    equal = Selection((0,), {0: 0.1, 1: 0.2})
    assert selection_text([equal]) == "1 of 2 rounds left out: others took 20 % of a core"  # 10 % is the bound
    assert selection_text([Selection((0,), {0: None})]) == selection_text([]) == ""
    assert Selection((0,), {0: None}).remaining == 0.0


def test_a_disturbed_round_that_counts_because_there_is_no_other_is_named_and_a_quiet_one_is_not():
    named = "others took up to 72 % of a core in rounds that count, as too few are quiet"
    assert selection_text([select({0: 0.72}, PRECISION)]) == named
    assert selection_text([select({0: 0.72}, PRECISION), select({0: 0.0, 1: 0.01}, PRECISION)]) == named
    assert selection_text([select({0: 0.025}, PRECISION), select({0: 0.72}, None)]) == ""


def test_a_disturbed_round_gives_no_rate_but_keeps_its_windows():
    """The second of four rounds is disturbed on rank 1, in the point and the control."""
    run = make_rounds([(1.0, 1.25, 1.0), (1.0, 2.5, 2.0), (1.0, 1.25, 1.0), (1.0, 1.25, 1.0)])
    assert len(rounds.arm_rates([run])[0]) == 4  # without counters
    disturb(run, {1: 0.5}, ranks=(1,))
    assert run_selection(run).counting == (0, 2, 3)
    assert [*rounds.arm_rates([run])[1].values()] == pytest.approx([12.8] * 3)
    assert [rate[1] for rate in rounds.run_rates(run)] == pytest.approx([12.8, 6.4, 12.8, 12.8])
    run.cores_shared = True  # other ranks took it
    assert run_selection(run).counting == (0, 1, 2, 3)
    run.cores_shared, run.config["system"]["cpu_quota_per_node"] = False, 0.4
    assert run_selection(run).counting == (0, 1, 2, 3)


def test_a_rank_without_a_list_of_its_cores_has_one():
    run = make_rounds([(1.0,)], [Arm(1)])
    run.ranks[0].cores, run.ranks[0].windows[0].cores = [], use(others_s=0.21)
    assert run_selection(run).disturbances == {0: pytest.approx(0.1)}
