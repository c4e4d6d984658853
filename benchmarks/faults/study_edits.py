"""Edits of the launches of one experiment that keep every sum, as by somebody who knows the audit's comparisons.

Each changes launches in place and returns whether there was something to change. They work on records of any origin.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice

import numpy as np

from benchmarks.common import Rng
from train.record import recorded_config, rounds, summary
from train.record.record import PHASES, CoreUse, Rank, RunRecord, Window

Launches = list[RunRecord]
Edit = Callable[[Launches, Rng], bool]
Change = Callable[[RunRecord, Rng], bool | None]  # False: there was nothing to change


def settle(run: RunRecord) -> None:
    """Compute what follows from the rest: the hash, the exit of each rank, the summary."""
    run.config_hash = recorded_config.values_hash(run.config)
    busy_s = [sum(run_s for name, run_s in rank.phases_s.items() if name != "exit") for rank in run.ranks]
    run.job_s = max(run.job_s, max(busy_s, default=0.0))
    for rank, rank_busy_s in zip(run.ranks, busy_s, strict=True):
        rank.phases_s["exit"] = run.job_s - rank_busy_s
    run.summary = summary.record_summary(run)


def scale(window: Window, factor: float, spans: bool = True, counts: bool = True) -> None:
    """Make a window so many times as long, with its steps; also the span of its counters, and their values."""
    window.window_s *= factor
    window.step_times_s = [time_s * factor for time_s in window.step_times_s]
    window.compute_times_s = [time_s * factor for time_s in window.compute_times_s]
    if counters := window.cores:
        counters.wall_s *= factor if spans else 1.0
        if counts:
            scale_counts(counters, factor)


def scale_counts(counters: CoreUse, factor: float) -> None:
    """Multiply the counters of the kernel, in whole ticks."""
    counters.own_s *= factor
    counters.busy_s, counters.steal_s = round(counters.busy_s * factor, 2), round(counters.steal_s * factor, 2)


def windows_of(run: RunRecord) -> dict[tuple[int, int], list[Window]]:
    """Return the windows of all ranks by round and arm."""
    return rounds.windows_by_turn(rank.windows for rank in run.ranks)


def random_in_rounds(launches: Launches, rng: Rng, least: int = 1) -> RunRecord | None:
    """Return one of the launches with so many rounds or more."""
    in_rounds = [run for run in launches if run.config.get("rounds") and len({n for n, _ in windows_of(run)}) >= least]
    return in_rounds[int(rng.integers(len(in_rounds)))] if in_rounds else None


def random_alone(launches: Launches, rng: Rng, ranks: int = 1, steps: int = 1) -> RunRecord | None:
    """Return one of the complete launches of one point with so many ranks and steps or more."""
    alone = [
        run
        for run in launches
        if not run.config.get("rounds") and not run.failure and len(run.ranks) >= ranks
        and len(run.ranks[0].step_times_s) >= steps and not run.epochs
    ]  # fmt: skip
    return alone[int(rng.integers(len(alone)))] if alone else None


def in_rounds(change: Change, least: int = 1, at_once: bool = False) -> Edit:
    """Return the edit that changes one of the launches with so many rounds or more.

    at_once: also where rank groups run at once.
    """

    def edit(launches: Launches, rng: Rng) -> bool:
        run = random_in_rounds(launches, rng, least)
        if run is None or (not at_once and run.config.get("rank_groups_at_once")) or change(run, rng) is False:
            return False
        settle(run)
        return True

    return edit


def longer_base(counts: bool) -> Edit:
    """Make the windows of the base 1.2 times as long, with spans, phases and job, with or without the counters."""

    def change(run: RunRecord, rng: Rng) -> None:
        base = next((n for n, arm in enumerate(run.config["rounds"]) if arm["role"] == "base"), 0)
        more_s = 0.0
        for (_, arm), windows in windows_of(run).items():
            if arm == base:
                more_s += 0.2 * max(window.window_s for window in windows)
                for window in windows:
                    scale(window, 1.2, counts=counts)
        for rank in run.ranks:
            rank.phases_s["timed"] += more_s
        run.job_s += more_s

    return in_rounds(change, 2)


def larger_batch(launches: Launches, rng: Rng) -> bool:
    run = random_alone(launches, rng) if rng.random() < 0.5 else random_in_rounds(launches, rng)
    run = run or random_alone(launches, rng)
    if run is None or not run.config.get("batch_per_rank"):
        return False
    for config in (run.config, *run.config.get("rounds", [])):
        for name in ("batch_per_rank", "global_batch"):
            if name in config:
                config[name] *= 4
    run.command = [argument for argument in run.command if "batch" not in argument]
    settle(run)
    return True


def trailing_rounds(phases: bool) -> Edit:
    """Remove the last third of the rounds, with or without their part of the timed phase, the job and the samples."""

    def change(run: RunRecord, rng: Rng) -> None:
        count = len({number for number, _ in windows_of(run)})
        _end_after(run, count - count // 3, phases)

    return in_rounds(change, 6)


def _end_after(run: RunRecord, rounds: int, phases: bool = True) -> float:
    """Remove all but so many rounds, and the time of the others; return the time of the last round that remains."""
    by_turn = windows_of(run)
    count = len({number for number, _ in by_turn})
    windows_s = {turn: max(window.window_s for window in windows) for turn, windows in by_turn.items()}
    between_s = max(rank.phases_s["timed"] for rank in run.ranks) - sum(windows_s.values())
    removed_s = sum(window_s for (number, _), window_s in windows_s.items() if number >= rounds)
    removed_s += between_s * (1 - rounds / count)  # each round has barriers and untimed steps
    for rank in run.ranks:
        rank.windows = [window for window in rank.windows if window.round < rounds]
        rank.exchanges = [window for window in rank.exchanges if window.round < rounds]
    if phases:
        later(run, {"timed": -removed_s})
    settle(run)
    return between_s / count + sum(window_s for (number, _), window_s in windows_s.items() if number == rounds - 1)


def later(run: RunRecord, more_s: dict[str, float]) -> None:
    """Make phases longer or shorter on all ranks, with the job, and remove samples after the end."""
    for rank in run.ranks:
        for name, time_s in more_s.items():
            rank.phases_s[name] += time_s
        _sampled_until(rank, sum(rank.phases_s.values()) - rank.phases_s.get("exit", 0.0))
    times = 1 + sum(more_s.values()) / run.job_s
    for quota in run.node_quotas:
        quota.periods, quota.throttled_periods = int(quota.periods * times), int(quota.throttled_periods * times)
    run.job_s *= times


def more_rounds(run: RunRecord, rng: Rng) -> None:
    """Add a third more rounds, copied from those of each arm and rank, in a timed phase that is as much longer."""
    arms = [index for index, arm in enumerate(run.config["rounds"]) if arm["name"] not in run.arms_left_out]
    count = len({number for number, _ in windows_of(run)})
    orders = [[arms[n] for n in order] for order in islice(rounds.orders(run.config["seed"], run.repeat, len(arms)),
                                                           count + count // 3)]  # fmt: skip
    round_s = max(rank.phases_s["timed"] for rank in run.ranks) / count
    for rank in run.ranks:
        by_arm = {arm: [window for window in rank.windows if window.arm == arm] for arm in arms}
        for number in range(count, len(orders)):
            for arm in orders[number]:
                if by_arm[arm]:
                    duplicate = copy.deepcopy(by_arm[arm][number % len(by_arm[arm])])
                    duplicate.round = number
                    scale(duplicate, float(rng.uniform(0.97, 1.03)))
                    rank.windows.append(duplicate)
    later(run, {"timed": round_s * (count // 3)})


def jittered_launch(rounds: bool, least: float = 0.05, most: float = 0.10) -> Edit:
    """Add a copy of a launch as a further repeat, with each step and window longer or shorter by random 5 to 10 %."""

    def edit(launches: Launches, rng: Rng) -> bool:
        source = random_in_rounds(launches, rng, 6) if rounds else random_alone(launches, rng, steps=20)
        if source is None:
            return False
        duplicate = copy.deepcopy(source)
        duplicate.repeat = 1 + max(run.repeat for run in launches if run.config_hash == source.config_hash)
        started_at = datetime.fromisoformat(source.started_at) + timedelta(hours=3)
        duplicate.started_at = started_at.isoformat(timespec="seconds")

        def jitter() -> float:
            return float(1 + rng.choice([-1, 1]) * rng.uniform(least, most))

        for rank in duplicate.ranks:
            rank.step_times_s = [time_s * jitter() for time_s in rank.step_times_s]
            for window in rank.windows:
                scale(window, jitter())
                window.step_times_s = [time_s * jitter() for time_s in window.step_times_s]
            rank.phases_s = {name: time_s * jitter() for name, time_s in rank.phases_s.items()}
        settle(duplicate)
        launches.append(duplicate)
        return True

    return edit


def jittered_round(launches: Launches, rng: Rng) -> bool:
    """Replace a round by another one, with each step longer or shorter by up to 5 %."""
    run = random_in_rounds(launches, rng, 6)
    if run is None:
        return False
    by_turn = windows_of(run)
    replacing, replaced = (int(n) for n in rng.permutation(sorted({number for number, _ in by_turn}))[:2])
    for (number, arm), windows in by_turn.items():
        if number == replaced and (replacing, arm) in by_turn:
            for window, source in zip(windows, by_turn[replacing, arm], strict=True):
                window.step_times_s = [s * float(rng.uniform(0.95, 1.05)) for s in source.step_times_s]
                window.window_s = sum(window.step_times_s) + 0.001
    return True


def other_machine(part: str) -> Edit:
    """Change the memory, kernel, or set of instructions of one launch, but not the name of its processor."""

    def edit(launches: Launches, rng: Rng) -> bool:
        run = launches[int(rng.integers(len(launches)))]
        if len(launches) < 2 or not run.environment:
            return False
        for host in run.environment.hosts:
            if part == "memory":
                host.memory_bytes *= 2
            elif part == "kernel":
                host.kernel = "4.18.0-el8"
            elif host.state:
                host.state.cpu_flags = host.state.cpu_flags[:2]
        return True

    return edit


def no_provenance(launches: Launches, rng: Rng) -> bool:
    for run in launches:
        run.environment, run.source_digest, run.command = None, "", []
    return True


def other_command(key: str, value: str) -> Edit:

    def edit(launches: Launches, rng: Rng) -> bool:
        run = launches[int(rng.integers(len(launches)))]
        run.command = [*(argument for argument in run.command if not argument.startswith(f"{key}=")), f"{key}={value}"]
        return value != run.config["model"]["name"]

    return edit


def other_variable(launches: Launches, rng: Rng) -> bool:
    candidates = [run for run in launches if run.environment and "HOROVOD_CYCLE_TIME" in run.environment.variables]
    for run in candidates[:1]:
        assert run.environment
        run.environment.variables["HOROVOD_CYCLE_TIME"] = "3.5"
    return bool(candidates) and candidates[0].config["distribution"]["backend"] == "horovod"


def late_rank(launches: Launches, rng: Rng) -> bool:
    """Delay a rank at a common barrier by 2.5 s, with as much less in its exit."""
    candidates = [run for run in launches if len(run.ranks) > 1 and not run.failure]
    if not candidates:
        return False
    run = candidates[int(rng.integers(len(candidates)))]
    rank = run.ranks[-1]
    late = rng.choice([name for name in ("build", "broadcast", "first_step") if name in rank.phases_s])
    rank.phases_s[str(late)] += 2.5
    run.job_s += 2.5
    settle(run)
    return True


def arms_exchanged(run: RunRecord, rng: Rng) -> bool:
    arms = run.config["rounds"]
    controls = [n for n, arm in enumerate(arms) if arm["role"] == "control"]
    points = [n for n, arm in enumerate(arms) if controls and arm["ranks"] == arms[controls[0]]["ranks"]]
    if len(points) < 2:
        return False
    first, second = (arms[n] for n in points[:2])
    first["allreduce"], second["allreduce"] = second["allreduce"], first["allreduce"]
    first["role"], second["role"] = second["role"], first["role"]
    return True


def shorter_control(run: RunRecord, rng: Rng) -> bool:
    """Shorten the windows of the control to 0.6 of their time, with their counters."""
    controls = {n for n, arm in enumerate(run.config["rounds"]) if arm["role"] == "control"}
    for (_, arm), windows in windows_of(run).items():
        for window in windows if arm in controls else ():
            scale(window, 0.6)
    return bool(controls)


def energy(launches: Launches, rng: Rng) -> bool:
    for run in launches:
        for cores in [rank.timed_cores for rank in run.ranks] + [w.cores for rank in run.ranks for w in rank.windows]:
            if cores:
                cores.energy_j = 20_000 * cores.wall_s
                return True
    return False


def more_gradients(launches: Launches, rng: Rng) -> bool:
    candidates = [run for run in launches if run.work]
    for run in candidates[:1]:
        assert run.work
        run.work.gradient_bytes *= 2
    return len(candidates) > 1


def slow_windows(run: RunRecord, rng: Rng) -> None:
    """Shorten the windows of each arm that are slower than its median to that, with a scatter of some thousandths."""
    by_turn, removed_s = windows_of(run), 0.0
    for arm in range(len(run.config["rounds"])):
        longest_s = {turn: max(w.window_s for w in windows) for turn, windows in by_turn.items() if turn[1] == arm}
        for turn, window_s in longest_s.items():
            factor = float(np.median([*longest_s.values()]) / window_s * rng.uniform(0.997, 1.003))
            if factor < 1:
                removed_s += window_s * (1 - factor)
                for window in by_turn[turn]:
                    scale(window, factor)
    later(run, {"timed": -removed_s})


def faster_launch(launches: Launches, rng: Rng) -> bool:
    """Shorten all timed steps of a launch of one point to 0.85 of their time, with counters and samples."""
    run = random_alone(launches, rng, steps=4)
    if run is None:
        return False
    timed_s = {rank.rank: rank.phases_s["timed"] for rank in run.ranks}
    for rank in run.ranks:
        began_s = sum(rank.phases_s.get(name, 0.0) for name in PHASES[: PHASES.index("timed")])
        rank.step_times_s = [time_s * 0.85 for time_s in rank.step_times_s]
        rank.compute_times_s = [time_s * 0.85 for time_s in rank.compute_times_s]
        if counters := rank.timed_cores:
            counters.wall_s *= 0.85
            scale_counts(counters, 0.85)
        if rank.usage:
            shift_s = 0.15 * timed_s[rank.rank]
            rank.usage.at_s = [at - min(shift_s, max(0.0, 0.15 * (at - began_s))) for at in rank.usage.at_s]
    later(run, {"timed": -0.15 * max(timed_s.values())})
    for rank in run.ranks:
        rank.phases_s["timed"] = timed_s[rank.rank] * 0.85
    settle(run)
    return True


def halved_phases(launches: Launches, rng: Rng) -> bool:
    """Halve broadcast and first step of a launch on all ranks, and remove the samples after the end."""
    run = launches[int(rng.integers(len(launches)))]
    if run.failure or not all("first_step" in rank.phases_s for rank in run.ranks):
        return False
    later(run, {name: -run.ranks[0].phases_s.get(name, 0.0) / 2 for name in ("broadcast", "first_step")})
    settle(run)
    return True


def moved_phase(launches: Launches, rng: Rng) -> bool:
    """Move 3 s of the import of all ranks to the broadcast."""
    run = launches[int(rng.integers(len(launches)))]
    if run.failure or not all("broadcast" in rank.phases_s and rank.phases_s["import"] > 3 for rank in run.ranks):
        return False
    later(run, {"import": -3.0, "broadcast": 3.0})
    settle(run)
    return True


def larger_limits(launches: Launches, rng: Rng) -> bool:
    for rank in (rank for run in launches for rank in run.ranks):
        for product in rank.matrix_products:
            product.times_s = [time_s / 5 for time_s in product.times_s]
        for transfer in rank.transfers:
            transfer.time_s /= 5
    return any(rank.matrix_products for run in launches for rank in run.ranks)


def less_memory(launches: Launches, rng: Rng) -> bool:
    run = launches[int(rng.integers(len(launches)))]
    for rank in run.ranks:
        rank.peak_memory_bytes //= 3
        if rank.usage:
            rank.usage.memory_bytes = [value // 3 for value in rank.usage.memory_bytes]
    return bool(run.ranks) and not run.failure


def gpus_added(launches: Launches, rng: Rng) -> bool:
    for run in launches:
        for host in run.environment.hosts if run.environment else []:
            host.gpus = ["NVIDIA A100"] * 8
        for rank in run.ranks:
            rank.gpu = "NVIDIA A100"
    return True


def other_software(commit: bool) -> Edit:

    def edit(launches: Launches, rng: Rng) -> bool:
        for run in launches:
            if run.environment is None:
                return False
            if commit:
                run.source_digest = "5" * 64
            else:
                run.environment.versions = dict.fromkeys(run.environment.versions, "9.9.9")
        return True

    return edit


def shorten_to_budget(run: RunRecord, rounds: int, rng: Rng) -> bool:
    """Change a launch in rounds into that of a smaller budget, with so many rounds: a clean record.

    The end of its rounds is a random time at which its launcher would have stopped there.
    """
    count = len({number for number, _ in windows_of(run)})
    if not 0 < rounds < count or run.config.get("rank_groups_at_once"):
        return False
    last_s = _end_after(run, rounds)
    if run.rounds_end_s is not None:
        timed_s = run.ranks[0].phases_s["timed"]
        stopped_s = sum(run.ranks[0].phases_s.get(name, 0.0) for name in PHASES[: PHASES.index("timed") + 1])
        latest_s = stopped_s + timed_s / rounds / 2
        earliest_s = stopped_s - last_s + (timed_s - last_s) / (rounds - 1) / 2 if rounds > 1 else 0.0
        run.rounds_end_s = float(rng.uniform(min(earliest_s, latest_s), latest_s))
    return True


def _sampled_until(rank: Rank, end_s: float) -> None:
    if usage := rank.usage:
        count = sum(at_s <= end_s for at_s in usage.at_s)
        for name in ("at_s", "cpu_s", "memory_bytes", "gpu_fraction", "gpu_memory_bytes"):
            setattr(usage, name, getattr(usage, name)[:count])


# Each edit, and the rules that can see it; without any, it passes.
EDITS: dict[str, tuple[Edit, Sequence[str]]] = {
    "windows of the base 1.2 times longer": (longer_base(False), ("idle_cores", "above_ideal")),
    "the same, and what was counted": (longer_base(True), ("cpu_of_steps", "above_ideal")),
    "batch four times as large": (larger_batch, ("beyond_limits", "names_and_settings", "one_plan")),
    "the last third of the rounds removed": (trailing_rounds(False), ("timed_phase_filled",)),
    "the same, and the phases shorter": (trailing_rounds(True), ("stopping_rule",)),
    "a third more rounds, and the phases longer": (in_rounds(more_rounds, 6), ("stopping_rule", "sampled_throughout")),
    "slow windows cut to the median, and what was counted": (in_rounds(slow_windows, 6), ("stopping_rule",)),
    "a launch of one point 15 % faster, and what was counted": (faster_launch, ("cpu_of_samples",)),
    "broadcast and first step halved": (halved_phases, ("stopping_rule", "clocks_forward")),
    "3 s of the import moved to the broadcast, on all ranks": (moved_phase, ()),
    "limits five times as large": (larger_limits, ("beyond_instructions",)),
    "memory a third": (less_memory, ("impossible_memory",)),
    "GPUs added everywhere": (gpus_added, ("gpus_and_device",)),
    "another digest of the code everywhere": (other_software(commit=True), ("commit_and_digest",)),
    "other versions everywhere": (other_software(commit=False), ()),
    "a launch of one point made from another, 5 to 10 %": (jittered_launch(False), ("copied_scatter",)),
    "a launch in rounds made from another, 5 to 10 %": (jittered_launch(True), ("copied_scatter", "order_of_rounds")),
    "a round made from another, up to 5 %": (jittered_round, ("copied_rounds", "steps_in_windows")),
    "another memory": (other_machine("memory"), ("unequal_machines",)),
    "another kernel": (other_machine("kernel"), ("unequal_machines",)),
    "other instruction sets": (other_machine("flags"), ("unequal_machines",)),
    "no provenance": (no_provenance, ("missing_provenance",)),
    "another model in the command": (other_command("model", "vgg16"), ("command_and_config",)),
    "another number of nodes in the command": (other_command("nodes", "7"), ("command_and_config",)),
    "another cycle time in the variables": (other_variable, ("variables_and_config",)),
    "a rank 2.5 s late at a common barrier": (late_rank, ("barriers_together",)),
    "two arms exchanged in the settings": (in_rounds(arms_exchanged, at_once=True), ("names_and_settings",)),
    "windows of the control shorter, and what was counted": (
        in_rounds(shorter_control, 6, at_once=True),
        ("cpu_of_steps", "above_ideal"),
    ),
    "20 kW": (energy, ("impossible_power",)),
    "twice the gradients in one launch": (more_gradients, ("gradients_and_parameters", "unequal_models")),
}
