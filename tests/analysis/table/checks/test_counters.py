import numpy as np

from analysis.table.checks.every import contradictions
from tests.helpers import noisy_records
from tests.helpers.own_records import make_record, settle
from train.record.record import CoreUse


def found(use, cores=1):
    """What the two checks say of one rank that has so many cores."""
    run = settle(make_record())
    run.ranks[0].cores, run.ranks[0].timed_cores = [*range(cores)], use
    return [one for one in contradictions(run) if one.rule in ("counters_and_cores", "whole_ticks")]


def test_cores_do_not_work_for_longer_than_they_are_there():
    # 4 steps of 0.5 s
    assert not found(CoreUse(2.0, 1.99, 2.01, 0.02))
    (one,) = found(CoreUse(2.0, 2.5, 2.0, 0.0))
    assert (one.rule, one.off) == ("counters_and_cores", 0.25)
    assert one.stated == "rank 0: 2.5 s of core time for this rank"
    assert one.follows == "1 cores in 2 s have 2 s"
    assert not found(CoreUse(2.0, 2.5, 2.6, 0.0), cores=2)
    (one,) = found(CoreUse(2.0, 0.5, 0.5, 2.5))
    assert "for a hypervisor" in one.stated


def test_three_counters_are_each_cut_to_whole_ticks():
    # a window of 88 ms among processes of several priorities, as it was measured on a busy machine
    assert not found(CoreUse(0.0876, 0.0238, 0.11, 0.0))
    assert found(CoreUse(0.0876, 0.0238, 0.13, 0.0))


def test_the_kernel_counts_whole_ticks():
    (one,) = found(CoreUse(2.0, 1.5, 1.5035, 0.0))
    assert (one.rule, one.stated) == ("whole_ticks", "rank 0: busy_s 1.5035 s")
    assert not found(CoreUse(2.0, 1.5035, 0.1 + 0.2 + 1.2, 0.0))  # 1.5 but for the 16th digit


def test_nothing_is_alleged_of_counters_of_a_noisy_machine():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        runs = [noisy_records.launch(rng), noisy_records.rounds(rng)]
        assert [contradictions(noisy_records.counted(rng, run, others=0.05, stolen=0.04)) for run in runs] == [(), ()]
