import pytest

from tests.helpers.findings import check, record_findings
from tests.helpers.run_records import make_record, make_rounds, update_derived
from train.record.record import CoreUse, Failure, Order, Usage

EVEN, SHORT = (0.5, 0.8, 0.55), (0.41, 0.8, 0.45)
FIRST = Order(0, 0, 1)
SECONDS = [float(at_s) for at_s in range(4, 17)]


def in_rounds(rounds=12, times_s=EVEN, others=None, failure=None):
    """A launch in rounds of base, point and control. Other processes had the share `others` of its cores."""
    run = update_derived(make_rounds([times_s] * rounds, failure=failure))
    run.config["measure"] |= {"precision_fraction": 0.05}
    for window in (window for rank in run.ranks for window in rank.windows if others is not None):
        window.cores = CoreUse(window.window_s, window.window_s * (1 - others), window.window_s, 0.0)
    return run


def late(late_s=1.3, others=0.0, host="host0", order=FIRST):
    """Rank 1 builds its model for longer."""
    run = in_rounds(6, others=others)
    run.order, run.ranks[1].host = order, host
    run.ranks[1].phases_s["build"] += late_s
    return run


def longer(added_s, in_turn=False, **rounds):
    """The timed phase is longer. 12 rounds of 1.0, 1.6 and 1.1 s, and 50 ms for the barriers of each window: 46.2 s."""
    run = in_rounds(**rounds)
    run.config["join_in_turn"] = in_turn
    for rank in run.ranks:
        rank.phases_s["timed"] += added_s
    return run


def end_at(end_s, **rounds):
    """12 rounds of 3.7 s from 13.5 s on: the last ends after 57.9 s, and half of a round more after 59.75 s.

    The round before ended after 54.2 s, half of a round before 56.05 s. Up to 1.19 s more may lie between the windows
    of the last round, so that a finding needs less than 54.81 s.
    """
    run = in_rounds(**rounds)
    run.rounds_end_s = end_s
    return run


def sampled(at_s, rate=1.0, cores=(0,), gpu=None):
    """A rank that ends after 15.5 s and takes `rate` s of CPU time a second. Samples may be 2.5 s apart."""
    run, nothing = update_derived(make_record()), [None] * len(at_s)
    run.ranks[0].usage = Usage(at_s, [4 + (t - 4) * rate for t in at_s], [2**20] * len(at_s), nothing, nothing)
    run.ranks[0].cores, run.ranks[0].gpu = [*cores], gpu
    return run


def base_windows(wall=1.0, cpu=1.0):
    """The base counts `wall` times as long windows, and `cpu` times as much CPU time of its steps."""
    run = in_rounds(others=0.0)
    for window in (window for rank in run.ranks for window in rank.windows):
        window.cores.wall_s *= wall if window.arm == 0 else 1
        window.cores.own_s = 0.9 * (cpu if window.arm == 0 else 1) * (1 + window.round % 3 / 100)
    return run


CASES = {
    "in time": ("barriers_together", late(0.0), ()),
    "late": ("barriers_together", late(), ("serious", None, "1.30 s away from another rank")),
    "late, started by hand": ("barriers_together", late(order=None), ()),  # its ranks did not begin together
    "late by the clock of another host": ("barriers_together", late(host="host1"), ()),
    "late because others had the cores": ("barriers_together", late(others=0.45), ()),
    "a full timed phase": ("timed_phase_filled", longer(0), ()),
    "40 s more": ("timed_phase_filled", longer(40), ("serious", 84.4 / 46.2 - 1, "'84.4 s in the timed phase'")),
    # Ranks that join before each of 36 windows take half a second for it.
    "18 s more": ("timed_phase_filled", longer(18), ("serious", 62.4 / 46.2 - 1, "'62.4 s in")),
    "18 s more to join": ("timed_phase_filled", longer(18, in_turn=True), ()),
    # Steps of 0.41 and 0.45 s have no untimed step before them; alone they may take 0.23 and 0.25 s, and have one.
    "short": ("timed_phase_filled", longer(10.32, times_s=SHORT, others=0.0), ("serious", 50.16 / 41.64 - 1)),
    "shorter alone": ("timed_phase_filled", longer(10.32, times_s=SHORT, others=0.45), ()),
    "no end of rounds": ("stopping_rule", end_at(None), ()),
    "early": ("stopping_rule", end_at(59.8), ("serious", None, "'12 rounds, the last of which ended after 57.9 s'")),
    "hardly early": ("stopping_rule", end_at(59.7), ()),
    "hardly late": ("stopping_rule", end_at(56.1), ()),
    "too late": ("stopping_rule", end_at(54.8), ("serious", None, "'round 12, begun after 53.0 s'")),
    "interrupted": ("stopping_rule", end_at(54.8, failure=Failure("interrupted by SIGINT")), ()),
    "one round, whatever the end": ("stopping_rule", end_at(1.0, rounds=1), ()),
    "each second": ("sampled_throughout", sampled(SECONDS), ()),
    "until 2.5 s before its end": ("sampled_throughout", sampled(SECONDS[:-3]), ()),
    "until 3.5 s before": ("sampled_throughout", sampled(SECONDS[:-4]), ("serious", None, "for 3.5 s after 12.0 s'")),
    "a gap": ("sampled_throughout", sampled(SECONDS[:3] + SECONDS[7:]), ("serious", None, "for 5.0 s after 6.0 s'")),
    "a GPU, whose driver hangs": ("sampled_throughout", sampled(SECONDS[:-5], gpu="NVIDIA A100"), ()),
    "1 s a second": ("cpu_of_samples", sampled(SECONDS), ()),
    "1.005 s a second": ("cpu_of_samples", sampled(SECONDS, 1.005), ()),
    "1.18 s a second": ("cpu_of_samples", sampled(SECONDS, 1.18), ("serious", None, "2.16 s more CPU time")),
    "1.18 s a second of two cores": ("cpu_of_samples", sampled(SECONDS, 1.18, (0, 1)), ()),
    "full windows": ("idle_cores", base_windows(), ()),
    "windows 5 % longer": ("idle_cores", base_windows(wall=1.05), ()),
    "windows 20 % longer": ("idle_cores", base_windows(wall=1.2), ("serious", -1 / 6)),
    "equal steps": ("cpu_of_steps", base_windows(), ()),
    "4 % more": ("cpu_of_steps", base_windows(cpu=1.04), ()),
    "less, for neighbours share caches": ("cpu_of_steps", base_windows(cpu=0.8), ()),
    "20 % more": ("cpu_of_steps", base_windows(cpu=1.2), ("serious", 0.2)),
}


@pytest.mark.parametrize(("rule", "run", "expected"), CASES.values(), ids=CASES)
def test_the_time_of_a_launch_is_accounted_for(rule, run, expected):
    check(record_findings(rule, run), expected)
