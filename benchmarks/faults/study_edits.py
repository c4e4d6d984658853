"""Edits of the launches of one experiment that keep every sum, as somebody makes them who knows what is compared.

Each changes launches in place and returns whether there was something to change. They work on records of any origin.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import numpy as np

from analysis.audit.accounting import turns
from train.record import config_hash, summary
from train.record.record import PHASES, Rank, RunRecord, Window

Rng = np.random.Generator
Launches = list[RunRecord]
Edit = Callable[[Launches, Rng], bool]


def settle(run: RunRecord) -> None:
    """Compute what follows from the rest: the hash, the exit of each rank, the summary."""
    run.config_hash = config_hash.values_hash(run.config)
    busy_s = [sum(run_s for name, run_s in rank.phases_s.items() if name != "exit") for rank in run.ranks]
    run.job_s = max(run.job_s, max(busy_s, default=0.0))
    for rank, of_rank_s in zip(run.ranks, busy_s, strict=True):
        rank.phases_s["exit"] = run.job_s - of_rank_s
    run.summary = summary.of(run)


def scale(window: Window, factor: float, counts: bool = True) -> None:
    """Make a window so many times as long, with its steps, and with what was counted in it."""
    window.window_s *= factor
    window.step_times_s = [time_s * factor for time_s in window.step_times_s]
    window.compute_times_s = [time_s * factor for time_s in window.compute_times_s]
    if use := window.cores:
        use.wall_s *= factor
        if counts:
            use.own_s *= factor
            use.busy_s, use.steal_s = round(use.busy_s * factor, 2), round(use.steal_s * factor, 2)


def one_in_rounds(launches: Launches, rng: Rng, least: int = 1) -> RunRecord | None:
    """Return one of the launches with so many rounds or more."""
    found = [run for run in launches if run.config.get("rounds") and len({n for n, _ in turns(run)}) >= least]
    return found[int(rng.integers(len(found)))] if found else None


def one_alone(launches: Launches, rng: Rng, ranks: int = 1, steps: int = 1) -> RunRecord | None:
    """Return one of the complete launches of one point with so many ranks and steps or more."""
    found = [
        run
        for run in launches
        if not run.config.get("rounds") and not run.failure and len(run.ranks) >= ranks
        and len(run.ranks[0].step_times_s) >= steps and not run.epochs
    ]  # fmt: skip
    return found[int(rng.integers(len(found)))] if found else None


def _base_of(run: RunRecord) -> int:
    return next((n for n, arm in enumerate(run.config["rounds"]) if arm["role"] == "base"), 0)


def longer_base(counts: bool) -> Edit:
    """The windows of the base 1.2 times as long, spans, phases and job with them; also what was counted, or not."""

    def edit(launches: Launches, rng: Rng) -> bool:
        run = one_in_rounds(launches, rng, 2)
        if run is None or run.config.get("rank_groups_at_once"):
            return False
        more_s = 0.0
        for (_, arm), windows in turns(run).items():
            if arm == _base_of(run):
                more_s += 0.2 * max(window.window_s for _, window in windows)
                for _, window in windows:
                    scale(window, 1.2, counts)
        for rank in run.ranks:
            rank.phases_s["timed"] += more_s
        run.job_s += more_s
        settle(run)
        return True

    return edit


def larger_batch(launches: Launches, rng: Rng) -> bool:
    """The batch of a launch four times as large, in all that says it."""
    run = one_alone(launches, rng) if rng.random() < 0.5 else one_in_rounds(launches, rng)
    run = run or one_alone(launches, rng)
    if run is None or not run.config.get("batch_per_rank"):
        return False
    for holder in (run.config, *run.config.get("rounds", [])):
        for name in ("batch_per_rank", "global_batch"):
            if name in holder:
                holder[name] *= 4
    run.command = [word for word in run.command if "batch" not in word]
    settle(run)
    return True


def trailing_rounds(phases: bool) -> Edit:
    """The last third of the rounds removed; the timed phase and the job as they were, or shorter by as much."""

    def edit(launches: Launches, rng: Rng) -> bool:
        run = one_in_rounds(launches, rng, 6)
        if run is None or run.config.get("rank_groups_at_once"):
            return False
        count = len({number for number, _ in turns(run)})
        kept = count - count // 3
        lost_s = sum(
            max(window.window_s for _, window in windows) * 1.05
            for (number, _), windows in turns(run).items()
            if number >= kept
        )
        for rank in run.ranks:
            rank.windows = [window for window in rank.windows if window.round < kept]
            rank.exchanges = [window for window in rank.exchanges if window.round < kept]
            if phases:
                rank.phases_s["timed"] -= lost_s
        run.job_s -= lost_s if phases else 0.0
        settle(run)
        return True

    return edit


def jittered_launch(rounds: bool, least: float = 0.05, most: float = 0.10) -> Edit:
    """A launch once more as a further repeat, each step and window longer or shorter by 5 to 10 % of its own."""

    def edit(launches: Launches, rng: Rng) -> bool:
        source = one_in_rounds(launches, rng, 6) if rounds else one_alone(launches, rng, steps=20)
        if source is None:
            return False
        made = copy.deepcopy(source)
        made.repeat = 1 + max(run.repeat for run in launches if run.config_hash == source.config_hash)
        later = datetime.fromisoformat(source.started_at) + timedelta(hours=3)
        made.started_at = later.isoformat(timespec="seconds")

        def jitter() -> float:
            return float(1 + rng.choice([-1, 1]) * rng.uniform(least, most))

        for rank in made.ranks:
            rank.step_times_s = [time_s * jitter() for time_s in rank.step_times_s]
            for window in rank.windows:
                scale(window, jitter())
                window.step_times_s = [time_s * jitter() for time_s in window.step_times_s]
            rank.phases_s = {name: time_s * jitter() for name, time_s in rank.phases_s.items()}
        settle(made)
        launches.append(made)
        return True

    return edit


def jittered_round(launches: Launches, rng: Rng) -> bool:
    """A round replaced by another one, each step longer or shorter by up to 5 %."""
    run = one_in_rounds(launches, rng, 6)
    if run is None:
        return False
    by_turn = turns(run)
    here, there = (int(n) for n in rng.permutation(sorted({number for number, _ in by_turn}))[:2])
    for (number, arm), windows in by_turn.items():
        if number == there and (here, arm) in by_turn:
            for (_, window), (_, source) in zip(windows, by_turn[here, arm], strict=True):
                window.step_times_s = [s * float(rng.uniform(0.95, 1.05)) for s in source.step_times_s]
                window.window_s = sum(window.step_times_s) + 0.001
    return True


def other_machine(part: str) -> Edit:
    """Another memory, kernel, or set of instructions of one launch, under the same name of its processor."""

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
    """Nothing of how the launches were made."""
    for run in launches:
        run.environment, run.source_digest, run.command = None, "", []
    return True


def other_command(key: str, value: str) -> Edit:
    """Another setting in the command of a launch."""

    def edit(launches: Launches, rng: Rng) -> bool:
        run = launches[int(rng.integers(len(launches)))]
        run.command = [*(word for word in run.command if not word.startswith(f"{key}=")), f"{key}={value}"]
        return True

    return edit


def other_variable(launches: Launches, rng: Rng) -> bool:
    """Another cycle time in the variables of rank 0."""
    found = [run for run in launches if run.environment and "HOROVOD_CYCLE_TIME" in run.environment.variables]
    for run in found[:1]:
        assert run.environment
        run.environment.variables["HOROVOD_CYCLE_TIME"] = "3.5"
    return bool(found) and found[0].config["distribution"]["backend"] == "horovod"


def late_rank(launches: Launches, rng: Rng) -> bool:
    """A rank that comes to a common barrier 2.5 s late, with as much less in its exit."""
    found = [run for run in launches if len(run.ranks) > 1 and not run.failure]
    if not found:
        return False
    run = found[int(rng.integers(len(found)))]
    rank = run.ranks[-1]
    rank.phases_s[
        str(rng.choice([name for name in ("build", "broadcast", "first_step") if name in rank.phases_s]))
    ] += 2.5
    run.job_s += 2.5
    settle(run)
    return True


def arms_exchanged(launches: Launches, rng: Rng) -> bool:
    """With and without allreduce: exchanged in the settings of the arms."""
    run = one_in_rounds(launches, rng)
    if run is None:
        return False
    arms = run.config["rounds"]
    controls = [n for n, arm in enumerate(arms) if arm["role"] == "control"]
    points = [n for n, arm in enumerate(arms) if controls and arm["ranks"] == arms[controls[0]]["ranks"]]
    if len(points) < 2:
        return False
    one, other = (arms[n] for n in points[:2])
    one["allreduce"], other["allreduce"] = other["allreduce"], one["allreduce"]
    one["role"], other["role"] = other["role"], one["role"]
    settle(run)
    return True


def shorter_control(launches: Launches, rng: Rng) -> bool:
    """The windows of the control shorter by a quarter, with all that was counted."""
    run = one_in_rounds(launches, rng, 6)
    if run is None:
        return False
    controls = {n for n, arm in enumerate(run.config["rounds"]) if arm["role"] == "control"}
    for (_, arm), windows in turns(run).items():
        for _, window in windows if arm in controls else ():
            scale(window, 0.6)
    settle(run)
    return bool(controls)


def energy(launches: Launches, rng: Rng) -> bool:
    """Energy of 20 kW."""
    for run in launches:
        for use in [rank.timed_cores for rank in run.ranks] + [w.cores for rank in run.ranks for w in rank.windows]:
            if use:
                use.energy_j = 20_000 * use.wall_s
                return True
    return False


def more_gradients(launches: Launches, rng: Rng) -> bool:
    """Twice as many gradients in one launch."""
    found = [run for run in launches if run.work]
    for run in found[:1]:
        assert run.work
        run.work.gradient_bytes *= 2
    return len(found) > 1


def cut_by_its_budget(run: RunRecord, rounds: int) -> bool:
    """Change a launch in rounds into what it had left with a smaller budget: so many rounds. A clean record."""
    by_turn = turns(run)
    count = len({number for number, _ in by_turn})
    if not 0 < rounds < count or run.config.get("rank_groups_at_once"):
        return False
    removed_s = sum(
        max(window.window_s for _, window in windows) for (number, _), windows in by_turn.items() if number >= rounds
    )
    between_s = max(rank.phases_s["timed"] for rank in run.ranks) - sum(
        max(window.window_s for _, window in windows) for windows in by_turn.values()
    )
    removed_s += between_s * (1 - rounds / count)  # barriers and untimed steps are of each round
    for rank in run.ranks:
        rank.windows = [window for window in rank.windows if window.round < rounds]
        rank.exchanges = [window for window in rank.exchanges if window.round < rounds]
        rank.phases_s["timed"] -= removed_s
        _sampled_until(rank, sum(rank.phases_s.values()) - rank.phases_s.get("exit", 0.0))
    run.job_s -= removed_s
    before = [name for name in PHASES[: PHASES.index("timed") + 1] if name in run.ranks[0].phases_s]
    run.config["measure"]["budget_s"] = sum(run.ranks[0].phases_s[name] for name in before) - 0.1
    run.command = [word for word in run.command if "budget_s" not in word]
    settle(run)
    return True


def _sampled_until(rank: Rank, end_s: float) -> None:
    """Remove the samples of a rank after its end."""
    if used := rank.usage:
        count = sum(at_s <= end_s for at_s in used.at_s)
        for name in ("at_s", "cpu_s", "memory_bytes", "gpu_fraction", "gpu_memory_bytes"):
            setattr(used, name, getattr(used, name)[:count])


# Each with the rules that can see it; without any, what passes.
EDITS: dict[str, tuple[Edit, Sequence[str]]] = {
    "windows of the base 1.2 times longer": (longer_base(False), ("idle_cores", "above_ideal")),
    "the same, and what was counted": (longer_base(True), ("cpu_of_steps", "above_ideal")),
    "batch four times as large": (larger_batch, ("beyond_limits", "names_and_settings", "misplaced_record")),
    "the last third of the rounds removed": (trailing_rounds(False), ("timed_phase_filled",)),
    "the same, and the phases shorter": (trailing_rounds(True), ()),
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
    "two arms exchanged in the settings": (arms_exchanged, ("names_and_settings",)),
    "windows of the control shorter, and what was counted": (shorter_control, ("cpu_of_steps", "above_ideal")),
    "20 kW": (energy, ("impossible_power",)),
    "twice the gradients in one launch": (more_gradients, ("gradients_and_parameters", "unequal_models")),
}
