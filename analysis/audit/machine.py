"""Rules on the machine: its limits, the other load on it, and the isolation of emulated nodes."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from analysis import metrics
from analysis.audit.findings import RECORD_RULES, TABLE_RULES, Finding, finding, rule
from analysis.audit.launches import throughput
from analysis.curves import measured
from analysis.stats import Number, repeats
from analysis.table import controls
from analysis.table.checks.check import Slack, core_uses, delayed_s
from analysis.table.hardware import COMPUTE, throughput_bounds
from analysis.thresholds import limit
from train.record import recorded_config, rounds
from train.record.record import CoreUse, Rank, RunRecord


@rule(RECORD_RULES)
def beyond_limits(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a throughput that the processors or links of the record cannot do: batch, steps or times are wrong."""
    for name, rate, bounds in _rates(run):
        for quantity, bound in bounds.items():
            off = metrics.change_fraction(bound, rate)
            if off > limit("beyond_limits"):
                by = "its processors multiply" if quantity == COMPUTE else "its links carry"
                stated = f"{name}: {rate:.4g} images/s"
                meaning = "The limit was measured in the same launch. The batch, the steps or the times are not right."
                yield finding(path, "serious", stated, f"{bound:.4g} at most, as {by}", off, meaning)


def _rates(run: RunRecord) -> Iterator[tuple[str, float, dict[str, float]]]:
    """Yield the name, the throughput and its bounds, of a launch or of each arm."""
    arms = run.config.get("rounds") or []
    if not arms and run.status == "complete" and not run.epochs and (rate := throughput(run)):
        yield run.point, rate, throughput_bounds(run)
    measured = rounds.rates(rounds.arms(run.config), (rank.windows for rank in run.ranks)) if arms else []
    for index, arm in enumerate(arms):
        if rates := [rates_by_arm[index] for rates_by_arm in measured if index in rates_by_arm]:
            yield arm["name"], repeats.median([rates]).value, throughput_bounds(run, index)


# Multiplications and additions of a core in one cycle, in fp32: two units, each as wide as the vectors.
_PER_CYCLE = {"avx512f": 64, "avx2": 32, "avx": 16}


@rule(RECORD_RULES)
def beyond_instructions(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report products of matrices that are faster than the instruction sets of the processor allow at any clock.

    They are the limit of `beyond_limits`. In fp32 on CPUs with x86's vectors; others have no bound here.
    """
    hosts = {host.host: host.state for host in (run.environment.hosts if run.environment else []) if host.state}
    for rank in run.ranks if run.config.get("precision") == "fp32" and run.config.get("device") == "cpu" else ():
        state = hosts.get(rank.host)
        per_cycle = next((n for flag, n in _PER_CYCLE.items() if state and flag in state.cpu_flags), None)
        if not (state and per_cycle and rank.matrix_products) or any(
            flag.startswith("amx") for flag in state.cpu_flags
        ):
            continue
        clock_hz = 1e6 * max(limit("most_mhz"), state.frequency_max_mhz or 0.0)
        bound = per_cycle * clock_hz * max(1, len(rank.cores))
        speed = max(metrics.operations_per_s(product.rows, min(product.times_s)) for product in rank.matrix_products)
        if speed > bound:
            stated = f"rank {rank.rank}: {speed / 1e9:.0f} thousand million operations/s in products of matrices"
            follows = f"{bound / 1e9:.0f} at most, {per_cycle} a cycle on {len(rank.cores)} cores"
            meaning = "The products took longer, or the processor is another one: the limit of the rates is not right."
            yield finding(path, "serious", stated, follows, metrics.change_fraction(bound, speed), meaning)
            return


@rule(RECORD_RULES)
def impossible_memory(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a peak of memory below a sample of it, or below the size of a rank's weights, gradients and batch.

    Only on CPUs, where each rank has all weights. Half of an image's bytes at the peak (conf/model) is a lower bound.
    """
    for rank in run.ranks:
        sampled = max(rank.usage.memory_bytes, default=0) if rank.usage else 0
        for least, reason in ((sampled, "a sample of it"), (_least_bytes(run, rank), "its weights and its batch")):
            off = metrics.change_fraction(least, rank.peak_memory_bytes) if least else 0.0
            if off < -limit("memory_below"):
                stated = f"rank {rank.rank}: {rank.peak_memory_bytes / 2**20:.0f} MiB at most"
                follows = f"{least / 2**20:.0f} MiB or more, of {reason}"
                meaning = "The memory, the batch or the model is not as the record says."
                yield finding(path, "serious", stated, follows, off, meaning)
                return


def _least_bytes(run: RunRecord, rank: Rank) -> float:
    """Return the memory that a rank needs at least; 0 if it is not known."""
    if run.config.get("device") != "cpu" or run.failure or run.config.get("program"):
        return 0.0
    process_bytes = limit("least_process_bytes")
    model, batch = run.config.get("model") or {}, run.config.get("batch_per_rank")
    trains = run.config["distribution"]["backend"] in ("horovod", "none") and model.get("train_layers") == "all"
    if not (run.work and batch and trains):
        return process_bytes
    arms = enumerate(run.config.get("rounds") or [])
    batches = [arm["batch_per_rank"] for index, arm in arms if any(window.arm == index for window in rank.windows)]
    activations = max(batches, default=batch) * model.get("activation_bytes_per_image", 0) / 2
    if run.config.get("precision") != "fp32":
        activations /= 2
    return process_bytes + 2 * run.work.gradient_bytes + activations


@rule(RECORD_RULES)
def above_ideal(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a control that is faster than its ranks over the base allow: its whole interval is above 1.

    Controls count that do the same with more ranks: with the batch of a rank, or the global batch, of the base. Points
    are those of the rule `beyond_ideal` over tables.
    """
    arms = run.config.get("rounds") or []
    measured = rounds.arms(run.config) if arms else []
    if not measured or not any(arm.role in ("base", "control") for arm in measured):
        return
    first = arms[base := rounds.base_of(measured)]
    rates = rounds.rates(measured, (rank.windows for rank in run.ranks))
    for index, arm in enumerate(arms):
        more = arm["rank_group"] == first["rank_group"] and arm["ranks"] > first["ranks"]
        if arm["role"] != "control" or not more:
            continue
        ratio = first["batch_per_rank"] / arm["batch_per_rank"]
        if ratio not in (1, arm["ranks"] / first["ranks"]):
            continue
        speedup = repeats.median([rounds.ratios(rates, index, base)])
        efficiency: Number = speedup.scaled(first["ranks"] / arm["ranks"])
        if efficiency.has_interval and efficiency.low > 1 + limit("above_ideal"):
            meaning = (
                "More ranks do no more each. The windows of the base are too long, or those of this arm too short."
            )
            stated = f"{arm['name']}: efficiency {efficiency.text('.3g')}"
            yield finding(path, "serious", stated, "1 at most", efficiency.value - 1, meaning)


@rule(RECORD_RULES)
def impossible_power(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report energy that no processor takes, or gives, in the time in which it was counted."""
    worst: tuple[float, str, str] | None = None
    for rank, _, core_use in core_uses(run):
        for device, watts, most in _powers(core_use):
            if not 0 < watts <= most and (worst is None or abs(watts) > abs(worst[0])):
                worst = watts, f"rank {rank.rank} on {rank.host}: {device} at {watts:.4g} W", f"0 to {most:g} W"
    if worst:
        meaning = "The energy, or the time in which it was counted, is not right."
        yield finding(path, "serious", worst[1], worst[2], None, meaning)


def _powers(core_use: CoreUse) -> Iterator[tuple[str, float, float]]:
    """Yield the devices, their power and the largest possible power, in watts, without counters that stand still."""
    if core_use.wall_s > 0:
        if core_use.energy_j:
            yield "processors", core_use.energy_j / core_use.wall_s, limit("host_watts")
        if core_use.gpu_energy_j:
            yield "GPU", core_use.gpu_energy_j / core_use.wall_s, limit("gpu_watts")


def _spans(rank: Rank) -> list[CoreUse]:
    """Return the use of a rank's cores in each timed span, in the order of measurement."""
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
    for device, clock in (("cores", "frequency_mhz"), ("GPU", "gpu_clock_mhz")):
        changes = []
        for rank in run.ranks:
            clocks = [mhz for span in _spans(rank) if (mhz := getattr(span, clock)) is not None]
            third = len(clocks) // 3
            if third >= limit("clock_windows"):
                early, late = statistics.median(clocks[:third]), statistics.median(clocks[-third:])
                changes.append((metrics.change_fraction(early, late), rank, early, late))
        worst = min(changes, key=lambda change: change[0], default=None)
        if worst and worst[0] < -limit("clock_fell"):
            off, rank, early, late = worst
            stated = f"rank {rank.rank} on {rank.host}: {device} at {late:.0f} MHz in the last third of the windows"
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
    shortened, slack = {}, Slack.from_run(run)
    for window, spans in _timed(run).items():
        if all(core_use for _, core_use in spans):
            longest_s = max(window_s for window_s, _ in spans)
            around_s = min(core_use.wall_s - window_s for window_s, core_use in spans if core_use)
            slack_s = max(1, len(run.config.get("rank_groups") or [])) * slack.barrier_s(longest_s, len(spans))
            slack_s += delayed_s(core_use for _, core_use in spans) + limit("counted_around") * longest_s
            if around_s > slack_s:
                shortened[window] = longest_s, around_s
    if shortened:
        window, (window_s, around_s) = max(shortened.items(), key=lambda item: item[1][1] / item[1][0])
        more = f", and {len(shortened) - 1} more windows" if len(shortened) > 1 else ""
        follows = f"about {window_s + around_s:.4g} s, in which every rank counted what its cores did"
        off = metrics.change_fraction(window_s + around_s, window_s)
        meaning = (
            "The steps took longer than the record says, or something else ran between the counters and the steps."
        )
        yield finding(path, "serious", f"{window}: {window_s:.4g} s{more}", follows, off, meaning)


def _timed(run: RunRecord) -> dict[str, list[tuple[float, CoreUse | None]]]:
    """Return the time of the timed steps, or of each window, with the use of the cores around them on each rank."""
    timed: dict[str, list[tuple[float, CoreUse | None]]] = {}
    for rank in run.ranks:
        for window in rank.windows:
            name = f"round {window.round}, arm {window.arm}"
            timed.setdefault(name, []).append((window.window_s, window.cores))
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
