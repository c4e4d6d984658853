"""Rules on what is possible: no rate beyond the hardware, no efficiency beyond ideal, no impossible power."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import metrics
from analysis.audit.findings import RECORD_RULES, Finding, finding, rule
from analysis.audit.launches import throughput
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.table.hardware import COMPUTE, throughput_bounds
from analysis.thresholds import limit
from train.record import rounds
from train.record.record import CoreUse, RunRecord


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
        if rates := [of_round[index] for of_round in measured if index in of_round]:
            yield arm["name"], repeats.median([rates]).value, throughput_bounds(run, index)


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
    base = rounds.base_of(measured)
    rates = rounds.rates(measured, (rank.windows for rank in run.ranks))
    for index, arm in enumerate(arms):
        more = arm["rank_group"] == arms[base]["rank_group"] and arm["ranks"] > arms[base]["ranks"]
        if arm["role"] != "control" or not more or not _same_work(arms[base], arm):
            continue
        speedup = repeats.median([rounds.ratios(rates, index, base)])
        efficiency: Number = speedup.scaled(arms[base]["ranks"] / arm["ranks"])
        if efficiency.has_interval and efficiency.low > 1 + limit("above_ideal"):
            meaning = (
                "More ranks do no more each. The windows of the base are too long, or those of this arm too short."
            )
            stated = f"{arm['name']}: efficiency {efficiency.text('.3g')}"
            yield finding(path, "serious", stated, "1 at most", efficiency.value - 1, meaning)


def _same_work(base: dict[str, object], arm: dict[str, object]) -> bool:
    """Return whether an arm keeps the batch of a rank, or the global batch."""
    batches = [int(str(one["batch_per_rank"])) for one in (base, arm)]
    ranks = [int(str(one["ranks"])) for one in (base, arm)]
    return batches[0] == batches[1] or batches[0] * ranks[0] == batches[1] * ranks[1]


@rule(RECORD_RULES)
def impossible_power(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report energy that no processor takes, or gives, in the time in which it was counted."""
    worst: tuple[float, str, str] | None = None
    for rank in run.ranks:
        for use in [rank.timed_cores, *(window.cores for window in rank.windows)]:
            for what, watts, most in _powers(use):
                if not 0 < watts <= most and (worst is None or abs(watts) > abs(worst[0])):
                    worst = watts, f"rank {rank.rank} on {rank.host}: {what} at {watts:.4g} W", f"0 to {most:g} W"
    if worst:
        meaning = "The energy, or the time in which it was counted, is not right."
        yield finding(path, "serious", worst[1], worst[2], None, meaning)


def _powers(use: CoreUse | None) -> Iterator[tuple[str, float, float]]:
    """Yield what is powered, with how many watts, and how many at most. A counter that stands still counts nothing."""
    if use and use.wall_s > 0:
        if use.energy_j:
            yield "processors", use.energy_j / use.wall_s, limit("host_watts")
        if use.gpu_energy_j:
            yield "GPU", use.gpu_energy_j / use.wall_s, limit("gpu_watts")
