"""Rules on what is possible: no rate beyond the hardware, no efficiency beyond ideal, no impossible power."""

from collections.abc import Iterator

from analysis import metrics
from analysis.audit.findings import RECORD_RULES, Finding, finding, rule
from analysis.audit.launches import throughput
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.table.checks.check import core_uses
from analysis.table.hardware import COMPUTE, throughput_bounds
from analysis.thresholds import limit
from train.record import rounds
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
        if rates := [of_round[index] for of_round in measured if index in of_round]:
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
        speed = max(metrics.operations_per_s(one.rows, min(one.times_s)) for one in rank.matrix_products)
        if speed > bound:
            stated = f"rank {rank.rank}: {speed / 1e9:.0f} thousand million operations/s in products of matrices"
            follows = f"{bound / 1e9:.0f} at most, {per_cycle} a cycle on {len(rank.cores)} cores"
            meaning = "The products took longer, or the processor is another one: the limit of the rates is not right."
            yield finding(path, "serious", stated, follows, metrics.change_fraction(bound, speed), meaning)
            return


@rule(RECORD_RULES)
def impossible_memory(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a peak of memory below a sample of it, or below what the weights, gradients and the batch of a rank take.

    On CPUs, where each rank has all weights; half of what an image adds to the peak (conf/model) is a lower bound.
    """
    for rank in run.ranks:
        sampled = max(rank.usage.memory_bytes, default=0) if rank.usage else 0
        for least, what in ((sampled, "a sample of it"), (_least_bytes(run, rank), "its weights and its batch")):
            off = metrics.change_fraction(least, rank.peak_memory_bytes) if least else 0.0
            if off < -limit("memory_below"):
                stated = f"rank {rank.rank}: {rank.peak_memory_bytes / 2**20:.0f} MiB at most"
                follows = f"{least / 2**20:.0f} MiB or more, of {what}"
                meaning = "The memory, the batch or the model is not as the record says."
                yield finding(path, "serious", stated, follows, off, meaning)
                return


def _least_bytes(run: RunRecord, rank: Rank) -> float:
    """Return the memory that a rank needs at least; 0 where it is not known."""
    if run.config.get("device") != "cpu" or run.failure or run.config.get("program"):
        return 0.0
    process_bytes = limit("least_process_bytes")
    model, batch = run.config.get("model") or {}, run.config.get("batch_per_rank")
    trains = run.config["distribution"]["backend"] in ("horovod", "none") and model.get("train_layers") == "all"
    if not (run.work and batch and trains):
        return process_bytes
    arms = enumerate(run.config.get("rounds") or [])
    mine = [arm["batch_per_rank"] for index, arm in arms if any(window.arm == index for window in rank.windows)]
    activations = max(mine, default=batch) * model.get("activation_bytes_per_image", 0) / 2
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
    for rank, _, use in core_uses(run):
        for what, watts, most in _powers(use):
            if not 0 < watts <= most and (worst is None or abs(watts) > abs(worst[0])):
                worst = watts, f"rank {rank.rank} on {rank.host}: {what} at {watts:.4g} W", f"0 to {most:g} W"
    if worst:
        meaning = "The energy, or the time in which it was counted, is not right."
        yield finding(path, "serious", worst[1], worst[2], None, meaning)


def _powers(use: CoreUse) -> Iterator[tuple[str, float, float]]:
    """Yield what is powered, with how many watts, and how many at most. A counter that stands still counts nothing."""
    if use.wall_s > 0:
        if use.energy_j:
            yield "processors", use.energy_j / use.wall_s, limit("host_watts")
        if use.gpu_energy_j:
            yield "GPU", use.gpu_energy_j / use.wall_s, limit("gpu_watts")
