"""Rules on the machine: what else ran while the timed steps ran, and whether emulated nodes were isolated."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from analysis import metrics
from analysis.audit.findings import RECORD_RULES, TABLE_RULES, Finding, finding, rule
from analysis.curves import measured
from analysis.table import controls
from analysis.table.checks.check import Slack, delayed_s
from analysis.thresholds import limit
from train.record import recorded_config
from train.record.record import CoreUse, Rank, RunRecord


def _spans(rank: Rank) -> list[CoreUse]:
    """Return what was counted of a rank's cores in each timed span, in the order of measurement."""
    spans = [rank.timed_cores, *(window.cores for window in rank.windows)]
    return [span for span in spans if span]


def _fraction(spans: Sequence[CoreUse], taken_s: Sequence[float], cores: int) -> float:
    """Return the least share of the cores' time that was taken, given the resolution of the kernel's ticks.

    Each count ends within a tick; the errors of several spans add up as their square root.
    """
    whole_s = cores * sum(span.wall_s for span in spans)
    unsure_s = limit("tick_s") * 2 * math.sqrt(len(spans) * cores)
    return (sum(taken_s) - unsure_s) / whole_s if whole_s > 0 else 0.0


@rule(RECORD_RULES)
def other_load(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report other processes on a rank's cores while it was timed: all ranks wait for the one that lost most.

    Their time is the core time of all processes less that of the rank. Launches whose ranks share cores, or whose nodes
    are emulated, are left out: there other ranks are most of it.
    """
    if not run.cores_shared and run.config["system"].get("cpus_per_node") is None:
        yield from _taken(run, path, "other processes", lambda span: span.busy_s - span.own_s)


@rule(RECORD_RULES)
def stolen_time(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report time in which the hypervisor ran other machines on a rank's cores while it was timed (steal)."""
    yield from _taken(run, path, "the hypervisor", lambda span: span.steal_s)


def _taken(run: RunRecord, path: str, by: str, taken: Callable[[CoreUse], float]) -> Iterator[Finding]:
    """Yield a finding on the rank whose cores lost most, if that is too much."""
    shares = {
        rank.rank: _fraction(spans, [taken(span) for span in spans], max(1, len(rank.cores)))
        for rank in run.ranks
        if (spans := _spans(rank))
    }
    if shares and max(shares.values()) > limit("other_load"):
        worst = max(shares, key=lambda rank: shares[rank])
        rank = run.ranks[worst]
        cores = f"rank {worst} on {rank.host}, cores {', '.join(map(str, rank.cores))}"
        stated = f"{cores}: {by} took {shares[worst]:.1%} of the timed windows"
        meaning = "The step times hold this load too. Measure again on a machine that does nothing else."
        yield finding(path, "warning", stated, f"{limit('other_load'):.0%} or less", shares[worst], meaning)


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
    for what, clock in (("cores", "frequency_mhz"), ("GPU", "gpu_clock_mhz")):
        changes = []
        for rank in run.ranks:
            clocks = [mhz for span in _spans(rank) if (mhz := getattr(span, clock)) is not None]
            third = len(clocks) // 3
            if third >= limit("clock_windows"):
                early, late = statistics.median(clocks[:third]), statistics.median(clocks[-third:])
                changes.append((metrics.change_fraction(early, late), rank, early, late))
        worst = min(changes, key=lambda one: one[0], default=None)
        if worst and worst[0] < -limit("clock_fell"):
            off, rank, early, late = worst
            stated = f"rank {rank.rank} on {rank.host}: {what} at {late:.0f} MHz in the last third of the windows"
            meaning = "Rates of early and of late rounds are of different machines; ratios within a round are not."
            yield finding(path, "warning", stated, f"{early:.0f} MHz, as in the first", off, meaning)


@rule(RECORD_RULES)
def cut_windows(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report timed windows that are shorter than the counting of their cores, on every rank: they were cut afterwards.

    Each rank reads its counters before the first barrier of a window and after the last one. Others wait in the first
    barrier, but not the rank that comes last. Ranks of parameter servers have no barrier.
    """
    if run.config["distribution"]["backend"] in recorded_config.ASYNCHRONOUS:
        return
    cut, slack = {}, Slack.from_run(run)
    for where, spans in _timed(run).items():
        if all(use for _, use in spans):
            longest_s = max(window_s for window_s, _ in spans)
            around_s = min(use.wall_s - window_s for window_s, use in spans if use)
            slack_s = max(1, len(run.config.get("rank_groups") or [])) * slack.barrier_s(longest_s, len(spans))
            slack_s += delayed_s(use for _, use in spans) + limit("counted_around") * longest_s
            if around_s > slack_s:
                cut[where] = longest_s, around_s
    if cut:
        where, (window_s, around_s) = max(cut.items(), key=lambda one: one[1][1] / one[1][0])
        more = f", and {len(cut) - 1} more windows" if len(cut) > 1 else ""
        follows = f"about {window_s + around_s:.4g} s, in which every rank counted what its cores did"
        off = metrics.change_fraction(window_s + around_s, window_s)
        meaning = (
            "The steps took longer than the record says, or something else ran between the counters and the steps."
        )
        yield finding(path, "serious", f"{where}: {window_s:.4g} s{more}", follows, off, meaning)


def _timed(run: RunRecord) -> dict[str, list[tuple[float, CoreUse | None]]]:
    """Return the time of the timed steps, or of each window, with what was counted around them on each rank."""
    timed: dict[str, list[tuple[float, CoreUse | None]]] = {}
    for rank in run.ranks:
        for window in rank.windows:
            where = f"round {window.round}, arm {window.arm}"
            timed.setdefault(where, []).append((window.window_s, window.cores))
        if not run.config.get("rounds"):
            timed.setdefault("timed", []).append((rank.phases_s.get("timed", 0.0), rank.timed_cores))
    return timed


@rule(TABLE_RULES)
def emulated_nodes_disturbed(table: pd.DataFrame) -> Iterator[Finding]:
    """Report emulated nodes that are slower, or faster, among others than alone although they exchange nothing.

    Then they compete for something that their quotas do not divide (caches, memory, a core that others use), and the
    loss of the points with allreduce is not caused by the allreduce alone. One finding an experiment, on the largest
    deviation; one if points have no control.
    """
    if "control_off" not in table:
        return
    emulated = measured(table, "images_per_s")
    emulated = emulated[emulated["cpus_per_node"].notna()]
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
