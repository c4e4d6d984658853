"""Rules on the machine: what else ran while the timed steps ran, and whether emulated nodes were isolated."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from analysis import metrics
from analysis.audit.findings import RECORD_RULES, TABLE_RULES, Finding, called, rule
from analysis.curves import measured
from analysis.table import controls
from analysis.table.checks.check import Slack, delayed_s
from analysis.thresholds import limit
from train.record import backends
from train.record.record import CoreUse, Rank, RunRecord


def _spans(rank: Rank) -> list[CoreUse]:
    """What was counted of a rank's cores in each timed span, in the order of measurement."""
    spans = [rank.timed_cores, *(window.cores for window in rank.windows)]
    return [span for span in spans if span]


def _fraction(spans: Sequence[CoreUse], taken_s: Sequence[float], cores: int) -> float:
    """The least share of the cores' time that was taken, as far as the kernel's ticks can tell.

    Each count ends within a tick; the errors of several spans add up as their square root.
    """
    whole_s = cores * sum(span.wall_s for span in spans)
    unsure_s = limit("tick_s") * 2 * math.sqrt(len(spans) * cores)
    return (sum(taken_s) - unsure_s) / whole_s if whole_s > 0 else 0.0


@rule(RECORD_RULES)
def other_load(run: RunRecord, path: str) -> Iterator[Finding]:
    """Other processes ran on a rank's cores while it was timed: all ranks wait for the one that lost most.

    The core time of all processes less that of the rank. Where ranks share cores, or nodes are emulated, other ranks
    are most of it, and nothing is said.
    """
    if run.cores_shared or run.config["system"].get("cpus_per_node") is not None:
        return
    yield from _taken(run, path, "other_load", "other processes", lambda span: span.busy_s - span.own_s)


@rule(RECORD_RULES)
def stolen_time(run: RunRecord, path: str) -> Iterator[Finding]:
    """The hypervisor ran other machines on a rank's cores while it was timed (steal)."""
    yield from _taken(run, path, "stolen_time", "the hypervisor", lambda span: span.steal_s)


def _taken(run: RunRecord, path: str, name: str, by: str, taken: Callable[[CoreUse], float]) -> Iterator[Finding]:
    """A finding where so much was taken of a rank's cores; on the rank that lost most."""
    shares = {rank.rank: _fraction(spans, [taken(span) for span in spans], max(1, len(rank.cores)))
              for rank in run.ranks if (spans := _spans(rank))}  # fmt: skip
    if shares and max(shares.values()) > limit("other_load"):
        worst = max(shares, key=lambda rank: shares[rank])
        rank = run.ranks[worst]
        cores = ", ".join(map(str, rank.cores))
        yield Finding(
            "local", path, name, "warning",
            f"rank {worst} on {rank.host}, cores {cores}: {by} took {shares[worst]:.1%} of the timed windows",
            f"{limit('other_load'):.0%} or less", shares[worst],
            "The step times hold this load too. Measure again on a machine that does nothing else.",
        )  # fmt: skip


@rule(RECORD_RULES)
def slow_clocks(run: RunRecord, path: str) -> Iterator[Finding]:
    """A governor that saves power: clocks follow the load, so that short steps run at other clocks than long ones."""
    hosts = run.environment.hosts if run.environment else []
    for host in hosts:
        if host.state and host.state.governor and "powersave" in host.state.governor:
            yield Finding(
                "local", path, "slow_clocks", "warning", f"{host.host}: governor {host.state.governor}", "performance",
                None, "Set it before measuring: `cpupower frequency-set -g performance`, as root.",
            )  # fmt: skip


@rule(RECORD_RULES)
def clocks_fell(run: RunRecord, path: str) -> Iterator[Finding]:
    """The clocks of a rank's cores, or of its GPU, were lower at the end of a launch than at its begin: heat, or power.

    The median over the last third of the windows, against that over the first.
    """
    for what, clock in (("cores", "frequency_mhz"), ("GPU", "gpu_clock_mhz")):
        found = []
        for rank in run.ranks:
            clocks = [mhz for span in _spans(rank) if (mhz := getattr(span, clock)) is not None]
            third = len(clocks) // 3
            if third >= limit("clock_windows"):
                early, late = statistics.median(clocks[:third]), statistics.median(clocks[-third:])
                found.append((metrics.change_fraction(early, late), rank, early, late))
        worst = min(found, key=lambda one: one[0], default=None)
        if worst and worst[0] < -limit("clock_fell"):
            off, rank, early, late = worst
            yield Finding(
                "local", path, "clocks_fell", "warning",
                f"rank {rank.rank} on {rank.host}: {what} at {late:.0f} MHz in the last third of the windows",
                f"{early:.0f} MHz, as in the first", off,
                "Rates of early and of late rounds are of different machines; ratios within a round are not.",
            )  # fmt: skip


@rule(RECORD_RULES)
def cut_windows(run: RunRecord, path: str) -> Iterator[Finding]:
    """Timed windows that are shorter than the counting of their cores, on every rank: they were cut afterwards.

    Each rank reads its counters before the first barrier of a window and after the last one. Others wait in the first
    barrier, but not the rank that comes last. Ranks of parameter servers meet in no barrier.
    """
    if run.config["distribution"]["backend"] in backends.ASYNCHRONOUS:
        return
    cut, slack = {}, Slack.from_run(run)
    for where, spans in _timed(run).items():
        if all(use for _, use in spans):
            longest_s = max(window_s for window_s, _ in spans)
            around_s = min(use.wall_s - window_s for window_s, use in spans if use)
            slack_s = max(1, len(run.config.get("worlds") or [])) * slack.barrier_s(longest_s, len(spans))
            slack_s += delayed_s(use for _, use in spans) + limit("counted_around") * longest_s
            if around_s > slack_s:
                cut[where] = longest_s, around_s
    if cut:
        where, (window_s, around_s) = max(cut.items(), key=lambda one: one[1][1] / one[1][0])
        yield Finding(
            "local", path, "cut_windows", "serious", f"{where}: {window_s:.4g} s{_more(len(cut) - 1)}",
            f"about {window_s + around_s:.4g} s, in which every rank counted what its cores did",
            metrics.change_fraction(window_s + around_s, window_s),
            "The steps took longer than the record says, or something else ran between the counters and the steps.",
        )  # fmt: skip


def _more(number: int) -> str:
    return f", and {number} more windows" if number else ""


def _timed(run: RunRecord) -> dict[str, list[tuple[float, CoreUse | None]]]:
    """The timed steps, or each window, with what was counted around them on each rank."""
    found: dict[str, list[tuple[float, CoreUse | None]]] = {}
    for rank in run.ranks:
        for window in rank.windows:
            where = f"round {window.round}, arm {window.arm}"
            found.setdefault(where, []).append((window.window_s, window.cores))
        if not run.config.get("rounds"):
            found.setdefault("timed", []).append((rank.phases_s.get("timed", 0.0), rank.timed_cores))
    return found


@rule(TABLE_RULES)
def emulated_nodes_disturbed(table: pd.DataFrame) -> Iterator[Finding]:
    """Emulated nodes that are slower, or faster, among others than alone although they exchange nothing.

    Then they compete for something that their quotas do not divide (caches, memory, a core that others use), and the
    loss of the points with allreduce is not caused by the allreduce alone. One finding an experiment, on the largest
    deviation; one where points have no control.
    """
    if "control_off" not in table:
        return
    emulated = measured(table, "images_per_s")
    emulated = emulated[emulated["cpus_per_node"].notna()]
    for experiment, rows in emulated.groupby("experiment", sort=False):
        beyond = rows[rows["control_off"].abs() > rows["flat_within_fraction"]]
        if not beyond.empty:
            worst = max(beyond.to_dict("records"), key=lambda row: (abs(row["control_off"]), row["nodes"]))
            of_control = f"{worst['control_nodes']} nodes {worst['control_off']:+.1%} off one alone"
            yield Finding(
                "local", f"{worst['place']}: {called(worst)}", "emulated_nodes_disturbed", "serious",
                f"{experiment}: without allreduce, {of_control}",
                f"within {worst['flat_within_fraction']:.0%}", worst["control_off"],
                f"This machine cannot emulate {controls.numbers(beyond['nodes'])}; figures draw those points hollow. "
                "Is it otherwise idle? Try fewer nodes, or a smaller launcher.cores_fraction.",
            )  # fmt: skip
        missing = rows[rows["control_off"].isna()]
        if not missing.empty:
            one = missing.to_dict("records")[0]
            yield Finding(
                "local", f"{one['place']}: {called(one)}", "emulated_nodes_disturbed", "serious",
                f"{experiment}: no control on {one['nodes']} nodes",
                "a run without allreduce, and one on one node", None,
                "It is not known whether the nodes disturbed each other. The same command measures what is missing.",
            )  # fmt: skip
