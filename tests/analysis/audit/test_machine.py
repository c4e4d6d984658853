import pytest

from analysis.audit.audited_table import AuditedTable
from analysis.audit.machine import emulated_nodes_disturbed
from record.schema import CoreUse, HostState, MatrixProduct, Operations, Transfer
from tests.helpers.rule_findings import check, record_findings
from tests.helpers.run_records import NO_ALLREDUCE, QUOTA, make_record, make_rounds


def rounds(others=0.0, stolen=0.0, clocks=lambda number: None, gpu=lambda number: None, **run):
    """Twelve rounds of three arms, 2 s each; rank 1 lost these shares of its core; all had these clocks."""
    record = make_rounds([(1.0, 1.0, 1.0)] * 12)
    for rank in record.ranks:
        late = rank.rank == 1
        for window in rank.windows:
            busy_s = 1.9 + 2 * others * late
            window.cores = CoreUse(2.0, 1.9, busy_s, 2 * stolen * late, frequency_mhz=clocks(window.round))
            window.cores.gpu_clock_mhz = gpu(window.round)
    vars(record).update(run)
    return record


def one_tick():
    """Of a window of 0.1 s."""
    record = make_record(steps=1)
    record.ranks[0].timed_cores = CoreUse(0.1, 0.09, 0.1, 0.01)
    return record


def governed(governor):
    record = make_record()
    record.environment.hosts[0].state = HostState(governor, 800.0, 3500.0, True, 1, "madvise", 0.1, ["avx2"], [], None)
    return record


# Two ticks of 10 ms a window may be missing: 0.02 x sqrt(24) s of 48 s are 0.2 %.
CASES = {
    "5 % of others": ("other_load", rounds(others=0.05), ("warning", 0.048, "rank 1 on host0, cores 1: other", "4.8%")),
    "1 % of others": ("other_load", rounds(others=0.01), ()),
    "shared cores": ("other_load", rounds(others=0.5, cores_shared=True), ()),
    "4 % stolen": ("stolen_time", rounds(stolen=0.04), ("warning", 0.038)),
    "1 % stolen": ("stolen_time", rounds(stolen=0.01), ()),
    "one tick": ("stolen_time", one_tick(), ()),
    "powersave": ("slow_clocks", governed("powersave"), ("warning", None, "'host0: governor powersave'")),
    "performance": ("slow_clocks", governed("performance"), ()),
    # 12 rounds of 3 arms on rank 0, of 2 on rank 1: first and last third are four rounds each.
    "slower": ("clocks_fell", rounds(clocks=lambda number: 3000.0 - 50 * number), ("warning", -400 / 2925, "2525 MHz")),
    "hardly slower": ("clocks_fell", rounds(clocks=lambda number: 3000.0 - 5 * number), ()),
    "slower GPU": ("clocks_fell", rounds(gpu=lambda number: 1980.0 - 30 * number), ("warning", -240 / 1935, "GPU at")),
    "hardly slower GPU": ("clocks_fell", rounds(gpu=lambda number: 1980.0 - 3 * number), ()),
}


@pytest.mark.parametrize(("rule", "run", "expected"), CASES.values(), ids=CASES)
def test_other_load_and_clocks(rule, run, expected):
    check(record_findings(rule, run), expected)


@pytest.mark.parametrize(
    ("points", "controls", "expected"),
    [
        ((1, 2, 4), {1: 0.5, 2: 0.52, 4: 0.625}, ("serious", -0.2, "allreduce, 4 nodes -20.0% off", "emulate 4 n")),
        # The control on the most nodes counts for those between.
        ((1, 4, 8), {1: 0.5, 8: 0.625}, ("serious", -0.2, "allreduce, 8 nodes -20.0% off", "emulate 4, 8", "8 ranks")),
        ((1, 2), {1: 0.5, 2: 0.5}, ()),
        ((1, 2, 8), {1: 0.5, 2: 0.5}, ("serious", None, "'weak_scaling: no control on 8 nodes'")),
    ],
)
def test_controls_of_emulated_nodes(results, points, controls, expected):
    for nodes in points:
        results.add(nodes=nodes, step_s=0.7, **QUOTA)
    for nodes, step_s in controls.items():
        results.add(nodes=nodes, step_s=step_s, **QUOTA, **NO_ALLREDUCE)
    check(list(emulated_nodes_disturbed(AuditedTable(results.table()))), expected)


@pytest.mark.parametrize(("rows", "alleged"), [(1000, False), (100, True)])
def test_no_rate_beyond_what_the_processors_multiply(rows, alleged):
    """16 images/s of 10^8 operations. A product of 1000 x 1000 in 0.1 s: 2 x 10^10 a second, 200 images/s."""
    run = make_record(batch_per_rank=8, step_s=0.5)
    run.work = Operations(10**8, 4)
    run.ranks[0].matrix_products = [MatrixProduct(rows, [0.1])]
    assert bool(record_findings("beyond_limits", run)) is alleged


def test_the_limit_of_the_links_counts_too():
    run = make_record(nodes=2)
    run.work = Operations(None, 10**6)
    for rank in run.ranks:
        rank.transfers = [Transfer("tcp_ring", "x", 1000, 1.0)]
    (finding,) = record_findings("beyond_limits", run)
    assert "as its links carry" in finding.follows
