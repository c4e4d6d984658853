"""Rules over single run records: what is needed to trust a number, beyond the number.

What contradicts itself in a record is not here: the table leaves such records out (`analysis.table.checks`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import chain

from analysis import metrics
from analysis.audit.findings import RECORD_RULES, Finding, graded, rule
from analysis.stats import repeats
from analysis.stats.repeats import MIN_VALUES
from analysis.stats.verdict import apart
from analysis.thresholds import limit
from train.record import rounds as of_rounds
from train.record.record import Rank, RunRecord


def ratios(run: RunRecord) -> dict[str, list[float]]:
    """Of a launch in rounds, for each arm but the base its rates over those of the base, round by round."""
    arms = run.config.get("rounds") or []
    if not arms:
        return {}
    measured = of_rounds.rates(of_rounds.arms(run.config), (rank.windows for rank in run.ranks))
    base = of_rounds.base_of(of_rounds.arms(run.config))
    found = {arm["name"]: of_rounds.ratios(measured, place, base) for place, arm in enumerate(arms) if place != base}
    return {name: values for name, values in found.items() if name not in run.arms_left_out}


def _arm(rank: Rank, place: int) -> tuple[list[float], list[float]]:
    """The times of steps and of computing of one rank in all windows of one arm."""
    windows = [window for window in rank.windows if window.arm == place]
    steps, computing = ([getattr(w, name) for w in windows] for name in ("step_times_s", "compute_times_s"))
    return list(chain.from_iterable(steps)), list(chain.from_iterable(computing))


def _steps(run: RunRecord) -> Iterator[tuple[str, list[float]]]:
    """The timed steps of each rank, of one point or of each arm of a launch in rounds, and whose they are."""
    arms = run.config.get("rounds") or []
    for rank in run.ranks:
        if rank.step_times_s:
            yield f"rank {rank.rank}", rank.step_times_s
        for place, arm in enumerate(arms):
            yield f"rank {rank.rank}, {arm['name']}", _arm(rank, place)[0]


def _computing(run: RunRecord) -> dict[int, list[float]]:
    """The times that each rank computed, or else its steps; in rounds those of the last arm, of which all are part."""
    last = len(run.config.get("rounds", [])) - 1
    times = {
        rank.rank: _arm(rank, last) if last >= 0 else (rank.step_times_s, rank.compute_times_s) for rank in run.ranks
    }
    return {rank: computing or steps for rank, (steps, computing) in times.items() if computing or steps}


@rule(RECORD_RULES)
def cores_shared(run: RunRecord, path: str) -> Iterator[Finding]:
    """Ranks that shared cores compete with each other: the run measures the scheduler, not how training scales."""
    if run.cores_shared:
        yield Finding(
            "local", path, "cores_shared", "serious", f"{run.workers} ranks", "a core or more for each rank", None,
            "No measurement of scaling; figures draw this point hollow.",
        )  # fmt: skip


@rule(RECORD_RULES)
def dirty_tree(run: RunRecord, path: str) -> Iterator[Finding]:
    """A run from a changed working tree cannot be repeated from the commit that it names."""
    environment = run.environment
    if environment and environment.git_dirty:
        yield Finding(
            "local", path, "dirty_tree", "warning", f"commit {(environment.git_commit or 'unknown')[:10]}",
            "the tree had changes", None, "The code that was run is not in that commit. Commit, then measure.",
        )  # fmt: skip


@rule(RECORD_RULES)
def unequal_hosts(run: RunRecord, path: str) -> Iterator[Finding]:
    """Ranks on heterogeneous hosts: the slowest host sets the pace of all, and the number is of none of them."""
    hosts = run.environment.hosts if run.environment else []
    kinds = {
        f"{host.cpu_model}, {host.cores} cores, {host.memory_bytes >> 30} GiB, {', '.join(host.gpus) or 'no GPU'}, "
        f"kernel {host.kernel}"
        for host in hosts
    }
    if len(kinds) > 1:
        yield Finding(
            "local", path, "unequal_hosts", "serious", f"{len(hosts)} hosts of {len(kinds)} kinds",
            "hosts of one kind", None, "; ".join(sorted(kinds)),
        )  # fmt: skip


@rule(RECORD_RULES)
def warm_up_drift(run: RunRecord, path: str) -> Iterator[Finding]:
    """The first timed steps are slower than the rest: the warm-up was too short, which the mean includes.

    The median of the first tenth of the steps (three or more) against the median of the others, on the rank where they
    differ most; and a rank-sum test says that the scatter of the steps does not explain it. In rounds an untimed step
    goes before each window, and `arm_drift` compares them.
    """
    found = [finding for rank in run.ranks for finding in _drift(rank, path)]
    yield from sorted(found, key=lambda finding: finding.off or 0)[-1:]


def _drift(rank: Rank, path: str) -> Iterator[Finding]:
    steps = rank.step_times_s
    if len(steps) >= limit("least_steps"):
        first = max(3, len(steps) // 10)
        early, late = statistics.median(steps[:first]), statistics.median(steps[first:])
        off = metrics.change_fraction(late, early)
        if off > limit("drift") and _larger_p(steps[:first], steps[first:]) < limit("drift_level"):
            yield Finding(
                "local", path, "warm_up_drift", graded(off, warning=limit("drift"), serious=limit("apart_serious")),
                f"rank {rank.rank}: first {first} steps {early:.4g} s", f"{late:.4g} s, as the others", off,
                "More warm-up steps are needed before the clock starts.",
            )  # fmt: skip


def _larger_p(some: list[float], others: list[float]) -> float:
    """How likely values of one kind are as much larger than the others (Mann and Whitney's test, one-sided)."""
    from scipy.stats import mannwhitneyu  # it takes longer to import than most commands to run

    return float(mannwhitneyu(some, others, alternative="greater").pvalue)


@rule(RECORD_RULES)
def arm_drift(run: RunRecord, path: str) -> Iterator[Finding]:
    """An arm whose ratio to the base changed during the launch: the machine's drift did not cancel.

    The 95 % interval of the median ratio in the first half of the rounds against that in the second half: they do not
    overlap. Then the interval of the whole launch, which takes rounds for repeats, is too narrow.
    """
    for name, values in ratios(run).items():
        halves = values[: len(values) // 2], values[len(values) // 2 :]
        early, late = (repeats.median([half]) for half in halves)
        if apart(early, late):
            off = metrics.change_fraction(early.value, late.value)
            yield Finding(
                "local", path, "arm_drift", graded(off), f"{name}: ratio {early.value:.3g} in the first rounds",
                f"{late.value:.3g} in the last", off,
                "Something changed that not all arms felt alike. Measure another launch, on an otherwise idle machine.",
            )  # fmt: skip


@rule(RECORD_RULES)
def few_rounds(run: RunRecord, path: str) -> Iterator[Finding]:
    """A launch with so few rounds that no interval can be given."""
    counts = [len(values) for values in ratios(run).values()]
    if counts and min(counts) < MIN_VALUES:
        yield Finding(
            "local", path, "few_rounds", "warning" if run.config["measure"]["name"] == "report" else "note",
            f"{min(counts)} rounds", f"{MIN_VALUES} or more", None,
            "No interval can be given, and no difference be called one: give the curve a larger measure.budget_s.",
        )  # fmt: skip


@rule(RECORD_RULES)
def step_outliers(run: RunRecord, path: str) -> Iterator[Finding]:
    """Steps that took more than twice the median: something else ran on the machine, or the input stalled.

    With their cost: the share of the timed window beyond that many median steps. Of the rank, and of a launch in rounds
    the arm, in which they cost most.
    """
    found = [finding for where, steps in _steps(run) for finding in _outliers(where, steps, path)]
    yield from sorted(found, key=lambda finding: finding.off or 0)[-1:]


def _outliers(where: str, steps: list[float], path: str) -> Iterator[Finding]:
    if len(steps) >= limit("least_steps"):
        median = statistics.median(steps)
        slow = [step for step in steps if step > limit("outlier") * median]
        if len(slow) > limit("outliers_share") * len(steps):
            cost = sum(step - median for step in slow) / sum(steps)
            yield Finding(
                "local", path, "step_outliers", graded(cost),
                f"{where}: {len(slow)} of {len(steps)} steps above {limit('outlier') * median:.3g} s",
                f"median {median:.3g} s", cost,
                f"They cost {cost:.1%} of the timed window; the longest took {max(slow):.3g} s.",
            )  # fmt: skip


@rule(RECORD_RULES)
def straggler(run: RunRecord, path: str) -> Iterator[Finding]:
    """A rank that computes more slowly than the others: all wait for it at every exchange.

    The mean time until the local gradients are ready, against the median of the other ranks; where the record has
    none (a GPU, epochs), the mean step, which tells ranks apart only without allreduce.
    """
    means = {rank: statistics.fmean(times) for rank, times in _computing(run).items()}
    if len(means) > 1:
        slowest = max(means, key=lambda rank: means[rank])
        others = statistics.median(mean for rank, mean in means.items() if rank != slowest)
        off = metrics.change_fraction(others, means[slowest])
        if off > limit("straggler"):
            host = next(rank.host for rank in run.ranks if rank.rank == slowest)
            yield Finding(
                "local", path, "straggler", "warning", f"rank {slowest} on {host}: {means[slowest]:.4g} s a step",
                f"{others:.4g} s, as the other ranks", off, "Check what else runs on that host, and its cores.",
            )  # fmt: skip


@rule(RECORD_RULES)
def weights_differ(run: RunRecord, path: str) -> Iterator[Finding]:
    """Ranks that ended with different weights did not train one model: the gradients were not exchanged."""
    if run.weights_differ and run.config["distribution"]["allreduce"]:
        yield Finding(
            "local", path, "weights_differ", "serious", "one model", "weights differ between ranks", None,
            "The allreduce did not work; no speed of this run is one of distributed training.",
        )  # fmt: skip
