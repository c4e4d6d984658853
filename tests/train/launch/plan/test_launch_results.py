import math

import pytest

from common.number import Number
from record import rounds
from record.schema import CoreUse
from tests.helpers.launched_curves import add, curve
from train.launch.plan import launch_results
from train.launch.plan.launch_results import CurveState, Shortfall


@pytest.fixture
def add_launches(tmp_path):
    """Return the records of launches with these speedups, each with two rounds just below and two just above it."""
    point = curve(tmp_path)
    return lambda *speedups, first=0: [
        add(point, repeat, [speedup * factor for factor in (0.99, 0.995, 1.005, 1.01)])
        for repeat, speedup in enumerate(speedups, first)
    ]


def number(half, n=12, **values):
    """Return 2 with an interval that allows for other launches. half: half its width, as a fraction."""
    return Number(2.0, lambda _: (2 - 2 * half, 2 + 2 * half), n, "between launches", **values)


def test_a_result_is_precise_if_each_speedup_has_a_narrow_interval_that_allows_for_other_launches(tmp_path):
    assert launch_results.is_precise({"2": number(0.125)}, 0.125)
    for other in (number(0.25), None):
        assert not launch_results.is_precise({"2": number(0.125), "4": other}, 0.125)
    alone = rounds.speedups([add(curve(tmp_path), 0, [1.59, 1.6, 1.61] * 3)])
    assert all(speedup.half_width_fraction() < 0.5 for speedup in alone.values())
    assert not launch_results.is_precise(alone, 0.5)  # it does not show how launches differ


def test_launches_that_agree_lack_nothing(tmp_path, add_launches):
    assert launch_results.shortfall(CurveState(curve(tmp_path), add_launches(*[1.6] * 3), 3)) is None


def test_a_result_has_an_interval_from_two_launches_on(tmp_path, add_launches):
    point = curve(tmp_path)
    assert launch_results.result(CurveState(point, add_launches(1.5), 3)) == (
        "tiny-rounds, 1 launch: 2 nodes 1.5x, 2 nodes without-allreduce 1.5x"
    )
    two = launch_results.result(CurveState(point, add_launches(1.5, 1.7, first=1), 3))
    assert two.startswith("tiny-rounds, 2 launches: 2 nodes 1.6x (1")
    assert two.endswith(" between launches)")
    none = add(point, 3, [])
    none.arms_left_out = {none.config["rounds"][2]["name"]: "no memory"}
    assert launch_results.result(CurveState(point, [none], 3)) == (
        "tiny-rounds, 1 launch: 2 nodes no complete round; left out: 2 nodes without-allreduce, no memory"
    )


@pytest.mark.parametrize(
    ("n", "reason"), [(6, "single rounds scatter by 30 %"), (5, "only 5 of 6 rounds that an interval needs")]
)
def test_ratios_of_different_widths_are_named(tmp_path, add_launches, monkeypatch, n, reason):
    """The wider interval is five times too wide: it needs 25 times the three launches, so 72 more of 30 s."""
    records = add_launches(1.5, 1.5, 1.5)
    numbers = (number(0.06, n, scatter=0.1), number(0.25, scatter=0.3, rounds_share=0.5))
    measured = dict(zip(rounds.speedups(records), numbers, strict=True))
    monkeypatch.setattr(rounds, "point_speedups", lambda _: measured)
    assert launch_results.shortfall(CurveState(curve(tmp_path), records, 3)) == Shortfall(
        "tiny-rounds: 2 nodes ± 6 %, 2 nodes without-allreduce ± 25 %", [reason], 72 * 30.0
    )


def test_a_curve_that_is_not_precise_says_how_wide_it_is_why_and_how_much_longer_it_takes(tmp_path, add_launches):
    point = curve(tmp_path)
    few = launch_results.shortfall(CurveState(point, [add(point, 0, [1.6], job_s=30.0)], 3))
    assert few == Shortfall(
        "tiny-rounds: no interval",
        ["only 1 of 6 rounds that an interval needs", "only 1 of 3 launches that show how launches differ"],
        60.0,
    )
    assert few.line() == f"tiny-rounds: no interval: {'; '.join(few.reasons)}; needs 60 s more"
    none = launch_results.shortfall(CurveState(point, [add(point, repeat, []) for repeat in (1, 2, 3)], 3))
    assert none == Shortfall("tiny-rounds: no interval", ["only 0 of 6 rounds that an interval needs"], 30.0)
    records = add_launches(1.4, 1.6, 1.8, first=1)
    [worst] = {i.half_width_fraction() for i in rounds.speedups(records).values()}
    wide = launch_results.shortfall(CurveState(point, records, 3))
    assert wide.text == f"tiny-rounds: ± {100 * worst:.2g} %"
    assert wide.reasons == ["launches differ by more than their rounds explain"]
    assert wide.more_s == 30.0 * math.ceil(3 * (worst / 0.05) ** 2 - 3)  # an interval narrows with the root of launches


def test_the_cause_that_is_named_is_the_one_that_widens_the_interval(tmp_path):
    point = curve(tmp_path)
    # Distances of 2 x 0.2 on the logarithm in each launch, over sqrt(4 3), times sqrt(pi / 2): 0.145.
    scattered = [math.exp(x) for x in (0.0, 0.0, 0.2, -0.2)]
    records = [add(point, repeat, scattered) for repeat in range(3)]
    assert launch_results.shortfall(CurveState(point, records, 3)).reasons == ["single rounds scatter by 14 %"]
    for record in records[:2]:
        disturb(record, 2)  # four rounds of twelve, half as many as count, are no cause
    [reason] = launch_results.shortfall(CurveState(point, records, 3)).reasons
    assert reason.startswith("single rounds scatter by ")
    disturb(records[2], 2)
    [others] = launch_results.shortfall(CurveState(point, records, 3)).reasons
    assert others == "6 of 12 rounds left out: others took 44 % of a core"  # without a tick of 0.01 s


def disturb(record, count):
    """Let others take 44 % of a core in the first rounds."""
    for window in record.ranks[1].windows:
        if window.round < count:
            window.cores = CoreUse(wall_s=1.0, own_s=0.5, busy_s=0.9, steal_s=0.05)
