"""Rules on the machine: its limits, the other load on it, and the isolation of emulated nodes."""

import math
import statistics
from collections.abc import Callable, Iterator

import pandas as pd

from analysis import metrics
from analysis.audit.compared_launches import throughput
from analysis.audit.findings import RECORD_RULES, finding, rows_rule, rule
from analysis.audit.records import timed_spans
from analysis.curves import measured
from analysis.finding import Finding
from analysis.table import controls
from analysis.table.hardware import COMPUTE, throughput_bounds
from analysis.thresholds import limit
from record import intervals, rounds
from record.schema import CoreUse, Rank, RunRecord

_TICK_S = 0.01  # USER_HZ: the kernel counts the time of cores in ticks, 100 a second on x86 (proc(5), /proc/stat)


@rule(RECORD_RULES)
def beyond_limits(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a throughput that the processors or links of the record cannot do: batch, steps or times are wrong."""
    for name, rate, bounds in _rates(run):
        for quantity, bound in bounds.items():
            off = metrics.change_fraction(bound, rate)
            if off > limit("single_runs"):
                by = "its processors multiply" if quantity == COMPUTE else "its links carry"
                stated = f"{name}: {rate:.4g} images/s"
                meaning = "The limit was measured in the same launch. The batch, the steps or the times are not right."
                yield finding(path, "serious", stated, f"{bound:.4g} at most, as {by}", off, meaning)


def _rates(run: RunRecord) -> Iterator[tuple[str, float, dict[str, float]]]:
    """Yield the name, the throughput and its bounds, of a launch or of each arm."""
    arms = run.config.get("rounds") or []
    if not arms and run.status == "complete" and not run.epochs and (rate := throughput(run)):
        yield run.point, rate, throughput_bounds(run)
    for index, rates in enumerate(rounds.arm_rates([run]) if arms else []):
        if typical := intervals.rate(rates):
            yield arms[index]["name"], typical.value, throughput_bounds(run, index)


@rule(RECORD_RULES)
def other_load(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report other processes on a rank's cores while it was timed: all ranks wait for the one that lost most.

    Their time is the core time of all processes less that of the rank. Launches whose ranks share cores, or whose nodes
    are emulated, are left out: there other ranks are most of it.
    """
    if not (run.cores_shared or run.emulated):
        yield from _taken(run, path, "other processes", lambda span: span.busy_s - span.own_s)


@rule(RECORD_RULES)
def stolen_time(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report time in which the hypervisor ran other machines on a rank's cores while it was timed (steal)."""
    yield from _taken(run, path, "the hypervisor", lambda span: span.steal_s)


def _taken(run: RunRecord, path: str, by: str, taken: Callable[[CoreUse], float]) -> Iterator[Finding]:
    """Yield a finding on the rank whose cores lost the largest share of their time, if that is too much.

    It is the least share, given the resolution of the kernel's ticks: each count ends within a tick, and the errors of
    several spans add up as their square root.
    """
    shares: list[tuple[float, Rank]] = []
    for rank in run.ranks:
        spans, cores = timed_spans(rank), max(1, len(rank.cores))
        unsure_s = _TICK_S * 2 * math.sqrt(len(spans) * cores)
        if (whole_s := cores * sum(span.wall_s for span in spans)) > 0:
            shares.append(((sum(map(taken, spans)) - unsure_s) / whole_s, rank))
    share, rank = max(shares, key=lambda each: each[0], default=(0.0, run.ranks[0]))
    if share > limit("graded_warning"):
        cores_text = f"rank {rank.rank} on {rank.host}, cores {', '.join(map(str, rank.cores))}"
        stated = f"{cores_text}: {by} took {share:.1%} of the timed windows"
        meaning = "The step times hold this load too. Measure again on a machine that does nothing else."
        yield finding(path, "warning", stated, f"{limit('graded_warning'):.0%} or less", share, meaning)


@rule(RECORD_RULES)
def slow_clocks(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a governor that saves power: clocks follow the load, so short steps run at other clocks than long ones."""
    for host in run.environment.hosts if run.environment else []:
        if host.state and host.state.governor and "powersave" in host.state.governor:
            meaning = "Set it before measuring: `cpupower frequency-set -g performance`, as root."
            stated = f"{host.host}: governor {host.state.governor}"
            yield finding(path, "warning", stated, "performance", None, meaning)


@rule(RECORD_RULES)
def clocks_fell(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report clocks of a rank's cores, or of its GPU, that fell during a launch because of heat or power limits.

    The median over the last third of the windows is compared with that over the first.
    """
    for device, clock in (("cores", "frequency_mhz"), ("GPU", "gpu_clock_mhz")):
        changes = []
        for rank in run.ranks:
            clocks = [mhz for span in timed_spans(rank) if (mhz := getattr(span, clock)) is not None]
            third = len(clocks) // 3
            if third >= limit("clock_windows"):
                early, late = statistics.median(clocks[:third]), statistics.median(clocks[-third:])
                changes.append((metrics.change_fraction(early, late), rank, early, late))
        worst = min(changes, key=lambda change: change[0], default=None)
        if worst and worst[0] < -limit("same"):
            off, rank, early, late = worst
            stated = f"rank {rank.rank} on {rank.host}: {device} at {late:.0f} MHz in the last third of the windows"
            meaning = "Rates of early and of late rounds are of different machines; ratios within a round are not."
            yield finding(path, "warning", stated, f"{early:.0f} MHz, as in the first", off, meaning)


@rows_rule
def emulated_nodes_disturbed(table: pd.DataFrame) -> Iterator[Finding]:
    """Report emulated nodes that are slower, or faster, among others than alone although they exchange nothing.

    Then they compete for something that their quotas do not divide (caches, memory, a core that others use), and the
    loss of the points with allreduce is not caused by the allreduce alone. One finding an experiment, on the largest
    deviation; one if points have no control.
    """
    if "control_off" not in table:
        return
    emulated = controls.emulated(measured(table, "images_per_s"))
    for experiment, rows in emulated.groupby("experiment", sort=False):
        beyond = rows[rows["control_off"].abs() > rows["flat_within_fraction"]]
        if not beyond.empty:
            worst = max(beyond.to_dict("records"), key=lambda row: (abs(row["control_off"]), row["nodes"]))
            off, nodes = worst["control_off"], f"{worst['control_nodes']} nodes"
            stated = f"{experiment}: without allreduce, {nodes} {off:+.1%} off one alone"
            counts = controls.node_counts(beyond["nodes"])
            meaning = (
                f"This machine cannot emulate {counts}; figures draw those points hollow. "
                "Is it otherwise idle? Try fewer nodes, or a smaller launcher.cores_fraction."
            )
            yield finding(worst, "serious", stated, f"within {worst['flat_within_fraction']:.0%}", off, meaning)
        for row in rows[rows["control_off"].isna()].head(1).to_dict("records"):
            stated = f"{experiment}: no control on {row['nodes']} nodes"
            follows = "a run without allreduce, and one on one node"
            meaning = (
                "It is not known whether the nodes disturbed each other. The same command measures what is missing."
            )
            yield finding(row, "serious", stated, follows, None, meaning)
