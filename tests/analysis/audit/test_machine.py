import random

import pytest

from analysis.audit.machine import emulated_nodes_disturbed
from tests.helpers.findings import record_findings
from tests.helpers.own_records import NO_ALLREDUCE, QUOTA, make_record, make_rounds, settle
from train.record.record import CoreUse, HostState, MatrixProduct, Usage, Work

RULES = ("other_load", "stolen_time", "slow_clocks", "clocks_fell")


def rounds(others=0.0, stolen=0.0, clocks=lambda number: None, of_gpu=lambda number: None):
    """Twelve rounds of three arms, 2 s each; rank 1 lost these shares of its core; all had these clocks."""
    run = make_rounds([(1.0, 1.0, 1.0)] * 12)
    for rank in run.ranks:
        late = rank.rank == 1
        for window in rank.windows:
            busy_s = 1.9 + 2 * others * late
            window.cores = CoreUse(2.0, 1.9, busy_s, 2 * stolen * late, frequency_mhz=clocks(window.round))
            window.cores.gpu_clock_mhz = of_gpu(window.round)
    return run


def test_nothing_is_reported_of_a_machine_that_does_nothing_else():
    """1 % of other load, and ticks that are off by one either way: no finding in ten launches."""
    for seed in range(10):
        draw = random.Random(seed)
        run = rounds()
        for rank in run.ranks:
            for window in rank.windows:
                window.cores.busy_s = 1.92 + draw.uniform(-0.01, 0.01)
                window.cores.frequency_mhz = 3000.0 * draw.uniform(0.97, 1.0)
                window.cores.gpu_clock_mhz = 1980.0 * draw.uniform(0.97, 1.0)
        assert [name for name in RULES if record_findings(name, run)] == []


@pytest.mark.parametrize(("share", "said"), [(0.05, True), (0.01, False)])
def test_other_processes_on_the_cores_of_a_rank(share, said):
    findings = record_findings("other_load", rounds(others=share))
    assert bool(findings) == said
    if said:
        assert "rank 1 on host0, cores 1: other processes took 4" in findings[0].stated


def test_ranks_that_share_cores_are_no_other_load():
    run = rounds(others=0.5)
    run.cores_shared = True
    assert not record_findings("other_load", run)


def test_a_hypervisor_that_steals():
    (finding,) = record_findings("stolen_time", rounds(stolen=0.04))
    assert finding.off == pytest.approx(0.04, abs=0.003)
    assert not record_findings("stolen_time", rounds(stolen=0.01))


def test_short_windows_in_which_a_tick_is_much_are_no_evidence():
    run = make_record(steps=1)
    run.ranks[0].timed_cores = CoreUse(0.1, 0.09, 0.1, 0.01)  # one tick of steal: 10 %
    assert not record_findings("stolen_time", run)


def test_a_governor_that_saves_power():
    run = make_record()
    state = HostState("powersave", 800.0, 3500.0, True, 1, "madvise", 0.1, ["avx2"], [], None)
    run.environment.hosts[0].state = state
    (finding,) = record_findings("slow_clocks", run)
    assert finding.stated == "host0: governor powersave"
    run.environment.hosts[0].state.governor = "performance"
    assert not record_findings("slow_clocks", run)


def test_clocks_that_fell_during_the_launch():
    (finding,) = record_findings("clocks_fell", rounds(clocks=lambda number: 3000.0 - 50 * number))
    # 12 rounds of 3 arms on rank 0, of 2 on rank 1: first and last third are four rounds each.
    assert finding.off == pytest.approx((2525 - 2925) / 2925, abs=0.005)
    assert not record_findings("clocks_fell", rounds(clocks=lambda number: 3000.0 - 5 * number))
    assert not record_findings("clocks_fell", rounds())


def test_clocks_of_a_gpu_that_fell():
    (finding,) = record_findings("clocks_fell", rounds(of_gpu=lambda number: 1980.0 - 30 * number))
    assert "GPU at 1695 MHz in the last third of the windows" in finding.stated
    assert not record_findings("clocks_fell", rounds(of_gpu=lambda number: 1980.0 - 3 * number))


def test_windows_that_were_cut_are_shorter_than_the_counting_around_them():
    assert not record_findings("cut_windows", rounds())
    run = rounds()
    for rank in run.ranks:
        for window in rank.windows[-2:]:
            window.cores.wall_s = 2.4
    run.ranks[1].windows[-1].cores.wall_s = 2.05  # it came last: all others waited for it, in the barrier
    (finding,) = record_findings("cut_windows", run)
    assert finding.stated == f"round 11, arm {run.ranks[0].windows[-2].arm}: 2 s"
    assert finding.follows.startswith("about 2.4 s")
    assert finding.off == pytest.approx(2 / 2.4 - 1)


def test_one_point_that_was_cut_and_one_whose_cores_were_not_counted_on_all_ranks():
    run = make_record(nodes=2)  # 4 steps of 0.5 s
    for rank in run.ranks:
        rank.timed_cores = CoreUse(2.5, 1.9, 1.9, 0.0)
    (finding,) = record_findings("cut_windows", run)
    assert finding.stated == "timed: 2 s"
    run.ranks[1].timed_cores = None
    assert not record_findings("cut_windows", run)


def disturbed(results) -> list:
    return list(emulated_nodes_disturbed(results.table()))


def test_a_control_beyond_its_bound_is_serious(results):
    for nodes, control_s in ((1, 0.5), (2, 0.52), (4, 0.625)):
        results.add(nodes=nodes, step_s=0.7, **QUOTA)
        results.add(nodes=nodes, step_s=control_s, **QUOTA, **NO_ALLREDUCE)
    (finding,) = disturbed(results)
    assert (finding.severity, round(finding.off, 6)) == ("serious", -0.2)
    assert finding.stated == "weak_scaling: without allreduce, 4 nodes -20.0% off one alone"
    assert finding.meaning.startswith("This machine cannot emulate 4 nodes")


def test_a_control_on_the_most_nodes_is_stated_of_these(results):
    for nodes in (1, 4, 8):
        results.add(nodes=nodes, step_s=0.7, **QUOTA)
    for nodes, control_s in ((1, 0.5), (8, 0.625)):
        results.add(nodes=nodes, step_s=control_s, **QUOTA, **NO_ALLREDUCE)
    (finding,) = disturbed(results)
    assert finding.stated == "weak_scaling: without allreduce, 8 nodes -20.0% off one alone"
    assert finding.place.endswith("8 ranks")
    assert finding.meaning.startswith("This machine cannot emulate 4, 8 nodes")


def test_a_flat_control_is_no_finding_and_a_missing_one_is(results):
    for nodes in (1, 2):
        results.add(nodes=nodes, step_s=0.5, **QUOTA)
        results.add(nodes=nodes, step_s=0.5, **QUOTA, **NO_ALLREDUCE)
    assert disturbed(results) == []
    results.add(nodes=8, step_s=0.5, **QUOTA)
    (finding,) = disturbed(results)
    assert finding.stated == "weak_scaling: no control on 8 nodes"


@pytest.mark.parametrize(("rows", "alleged"), [(1000, False), (100, True)])
def test_no_rate_beyond_what_the_processors_multiply(rows, alleged):
    """16 images/s of 10^8 operations. A product of 1000 x 1000 in 0.1 s: 2 x 10^10 a second, 200 images/s."""
    run = make_record(batch_per_rank=8, step_s=0.5)
    run.work = Work(10**8, 4)
    run.ranks[0].matrix_products = [MatrixProduct(rows, [0.1])]
    assert bool(record_findings("beyond_limits", run)) is alleged


def test_the_limit_of_the_links_counts_too():
    run = make_record(nodes=2)
    run.work = Work(None, 10**6)
    from train.record.record import Transfer

    for rank in run.ranks:
        rank.transfers = [Transfer("tcp_ring", "x", 1000, 1.0)]
    (finding,) = record_findings("beyond_limits", run)
    assert "as its links carry" in finding.follows


@pytest.mark.parametrize(
    ("flags", "time_s", "alleged"),
    [
        (["avx", "avx2", "avx512f"], 0.1, False),
        (["avx", "avx2", "avx512f"], 0.04, True),
        (["avx", "avx2"], 0.1, False),
        (["avx", "avx2"], 0.08, True),
        (["neon"], 0.001, False),
        (["avx512f", "amx_bf16"], 0.001, False),
    ],
)
def test_products_are_no_faster_than_the_instruction_sets_allow(flags, time_s, alleged):
    """2048 x 2048 are 1.72e10 operations: at 6.5 GHz, 64 and 32 a cycle, 0.0413 and 0.0826 s on one core."""
    run = make_record()
    run.environment.hosts[0].state.cpu_flags = flags
    run.ranks[0].matrix_products = [MatrixProduct(2048, [0.2, time_s])]
    assert bool(record_findings("beyond_instructions", run)) is alleged
    run.config["precision"] = "bf16"
    assert not record_findings("beyond_instructions", run)


@pytest.mark.parametrize(("peak", "sampled", "alleged"), [(900, 890, False), (900, 905, False), (900, 920, True)])
def test_the_peak_of_memory_is_no_less_than_a_sample(peak, sampled, alleged):
    run = make_record()
    run.ranks[0].peak_memory_bytes = peak * 10**6
    run.ranks[0].usage = Usage([4.0], [1.0], [sampled * 10**6], [None], [None])
    assert bool(record_findings("impossible_memory", run)) is alleged


@pytest.mark.parametrize(("batch", "peak", "alleged"), [(8, 930, False), (8, 910, True), (32, 930, True)])
def test_weights_gradients_and_half_of_what_images_add_are_in_memory(batch, peak, alleged):
    """250 MB of the process, 2 x 100 MB of weights and gradients, 8 x 60 MB of images: 930 MB, 1 % may lack."""
    of_model = {"name": "resnet50", "train_layers": "all", "activation_bytes_per_image": 120 * 10**6}
    run = make_record(batch_per_rank=batch, of_model=of_model)
    run.work, run.ranks[0].peak_memory_bytes = Work(None, 10**8), peak * 10**6
    assert bool(record_findings("impossible_memory", run)) is alleged
    run.config["model"]["train_layers"] = "last"  # then the process alone counts
    assert not record_findings("impossible_memory", run)


def test_no_control_above_ideal():
    """With the batch kept, two ranks take 0.5 s as one does, or less: 0.4 s are an efficiency of 1.25."""
    scatter = [1 + i % 3 / 1000 for i in range(12)]

    def rounds(base, point, control):
        return settle(make_rounds([(base * s, point, control) for s in scatter]))

    assert not record_findings("above_ideal", rounds(0.5, 0.5, 0.5))
    (finding,) = record_findings("above_ideal", rounds(0.5, 0.8, 0.4))
    assert "efficiency 1.25" in finding.stated
    assert not record_findings("above_ideal", rounds(0.5, 0.4, 0.5))  # the point: `beyond_ideal` names it


@pytest.mark.parametrize(("joules", "alleged"), [(None, False), (0.0, False), (600, False), (9000, True), (-5, True)])
def test_no_power_that_processors_cannot_take(joules, alleged):
    run = make_record()
    run.ranks[0].timed_cores = CoreUse(2.0, 1.9, 1.9, 0.0, energy_j=joules)
    assert bool(record_findings("impossible_power", run)) is alleged
