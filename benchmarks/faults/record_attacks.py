"""Attacks on a folder of records: edits that hold together, each with everything that follows from it, signed again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.common import Rng
from benchmarks.faults.study_edits import scale, scale_counts, settle, windows_of
from tests.helpers.noisy_records import study
from tests.helpers.run_records import record_path
from train.record import files, record
from train.record.record import CoreUse, Order, Rank, RunRecord, Window

Study = dict[Path, RunRecord]  # by the paths of their files, in the order of the launches
_TIMES = ("wall_s", "own_s", "busy_s", "steal_s", "delay_s")


def clean(rng: Rng) -> Study:
    return {record_path(run): run for run in study(rng)}


def write(runs: Study, folder: Path) -> None:
    """Write the records with their checksums."""
    for path, run in runs.items():
        files.write_once(folder / path, record.dumps(run))


def _launches(runs: Study) -> list[tuple[Path, RunRecord]]:
    """Return the complete launches of one point on two nodes."""
    return [(p, r) for p, r in runs.items() if not r.failure and not r.config.get("rounds") and len(r.ranks) == 2]


def _in_rounds(runs: Study) -> list[tuple[Path, RunRecord]]:
    return [(path, run) for path, run in runs.items() if run.config.get("rounds")]


def _random_launch(launches: list[tuple[Path, RunRecord]], rng: Rng) -> tuple[Path, RunRecord]:
    return launches[int(rng.integers(len(launches)))]


def _slow_rounds_dropped(runs: Study, rng: Rng) -> None:
    """Drop the third of the rounds in which two nodes were slowest, and renumber the others."""
    _, run = _random_launch(_in_rounds(runs), rng)
    turns = windows_of(run)
    rounds = sorted({number for number, _ in turns})
    slowest = sorted(rounds, key=lambda number: -turns[number, 1][0].window_s)[: len(rounds) // 3]
    new_numbers = {number: new_number for new_number, number in enumerate(n for n in rounds if n not in slowest)}
    for rank in run.ranks:
        rank.windows = [window for window in rank.windows if window.round in new_numbers]
        for window in rank.windows:
            window.round = new_numbers[window.round]
    settle(run)


def _shortened(spans: bool, counts: bool) -> Callable[[Study, Rng], None]:
    """Shorten the windows of two nodes by a quarter, with their steps; also the span and values of their counters."""

    def attack(runs: Study, rng: Rng) -> None:
        for _, run in _in_rounds(runs):
            for window in (w for (_, arm), windows in windows_of(run).items() if arm == 1 for w in windows):
                scale(window, 0.75, spans, counts)
            settle(run)

    return attack


def _scaled(run: RunRecord, factor: float, whole_ticks: bool) -> None:
    """Multiply every time of a record by one factor; kernel counters are rounded to whole ticks again, or not."""
    run.job_s *= factor
    for rank in run.ranks:
        rank.phases_s = {name: time_s * factor for name, time_s in rank.phases_s.items()}
        for name in ("step_times_s", "warm_up_step_times_s", "compute_times_s"):
            setattr(rank, name, [time_s * factor for time_s in getattr(rank, name)])
        for name in ("at_s", "cpu_s") if rank.usage else ():
            setattr(rank.usage, name, [time_s * factor for time_s in getattr(rank.usage, name)])
        for window in rank.windows:
            scale(window, factor, spans=False, counts=False)
        for counter in _counters(rank):
            for name in _TIMES:
                if getattr(counter, name) is not None:
                    setattr(counter, name, getattr(counter, name) * factor)
            if whole_ticks:
                scale_counts(counter, 1.0)
    settle(run)


def _counters(rank: Rank) -> Iterator[CoreUse]:
    yield from (counter for counter in (rank.timed_cores, *(window.cores for window in rank.windows)) if counter)


def _all_times(factor: float, whole_ticks: bool) -> Callable[[Study, Rng], None]:
    def attack(runs: Study, rng: Rng) -> None:
        for _, run in _launches(runs):
            _scaled(run, factor, whole_ticks)

    return attack


def _add_copy(runs: Study, source: RunRecord) -> RunRecord:
    """Add a copy of a launch as one more repeat, after all others."""
    last = [*runs.values()][-1]
    duplicate = copy.deepcopy(source)
    duplicate.repeat = 1 + max(run.repeat for run in runs.values() if run.config_hash == source.config_hash)
    began = datetime.fromisoformat(last.started_at) + timedelta(seconds=last.job_s + 5)
    duplicate.started_at = began.isoformat(timespec="seconds")
    runs[record_path(duplicate)] = duplicate
    return duplicate


def _copied(factor: float, jitter: float) -> Callable[[Study, Rng], None]:
    """Add a copy of a launch as a further repeat: every time changed by one factor, and each step by a random one."""

    def attack(runs: Study, rng: Rng) -> None:
        duplicate = _add_copy(runs, _random_launch(_launches(runs), rng)[1])
        if factor != 1.0:
            _scaled(duplicate, factor, whole_ticks=True)
        for rank in duplicate.ranks if jitter else ():
            changes = [float(x) for x in rng.uniform(1 - jitter, 1 + jitter, len(rank.step_times_s))]
            for name in ("step_times_s", "compute_times_s"):
                setattr(rank, name, [t * x for t, x in zip(getattr(rank, name), changes, strict=True)])
            rank.phases_s = {name: t * float(rng.uniform(1 - jitter, 1)) for name, t in rank.phases_s.items()}
            rank.phases_s["timed"] = sum(rank.step_times_s) + 0.02
            for counter in _counters(rank):
                counter.wall_s = rank.phases_s["timed"] + 0.002
        settle(duplicate)

    return attack


def _rounds_copied(runs: Study, rng: Rng) -> None:
    _scaled(_add_copy(runs, _random_launch(_in_rounds(runs), rng)[1]), 1.004, whole_ticks=True)


def _deleted(condition: Callable[[RunRecord], bool]) -> Callable[[Study, Rng], None]:
    def attack(runs: Study, rng: Rng) -> None:
        for path in [path for path, run in runs.items() if condition(run)]:
            del runs[path]

    return attack


def _slowest_of_three(runs: Study, rng: Rng) -> None:
    _, slowest = max(_launches(runs), key=lambda launch: launch[1].ranks[0].phases_s["timed"])
    for path in [p for p, run in runs.items() if run.point == slowest.point and run.repeat == slowest.repeat]:
        del runs[path]


def _replanned(runs: Study, rng: Rng) -> None:
    _slowest_of_three(runs, rng)
    positions = sorted({run.order.position for run in runs.values() if run.order})
    repeats = sorted({run.repeat for run in runs.values() if run.point == "resnet50_nodes=2"})
    for path, run in [*runs.items()]:
        assert run.order
        run.order = Order(run.order.seed, positions.index(run.order.position), len(positions))
        if run.point == "resnet50_nodes=2":
            run.config["measure"]["repeats"], run.repeat = len(repeats), repeats.index(run.repeat)
            settle(run)
            runs[record_path(run)] = runs.pop(path)


def _configured(moved: bool, **values: Any) -> Callable[[Study, Rng], None]:
    """Change values in the configuration of a point, and what follows; in its old folder, or in that of its hash."""

    def attack(runs: Study, rng: Rng) -> None:
        for path, run in [(p, r) for p, r in runs.items() if r.point == "resnet50_nodes=2"]:
            run.config |= values
            if "batch_per_rank" in values:
                run.config["global_batch"] = values["batch_per_rank"] * len(run.ranks)
            settle(run)
            if moved:
                runs[record_path(run)] = runs.pop(path)

    return attack


def _in_a_round(change: Callable[[RunRecord, Rng], None]) -> Callable[[Study, Rng], None]:
    def attack(runs: Study, rng: Rng) -> None:
        for path, run in _in_rounds(runs):
            change(run, rng)
            settle(run)
            runs[record_path(run)] = runs.pop(path)

    return attack


def _arms_exchanged(run: RunRecord, rng: Rng) -> None:
    for windows in windows_of(run).values():
        for window in windows:
            window.arm = {1: 2, 2: 1}.get(window.arm, window.arm)


def _settings_exchanged(run: RunRecord, rng: Rng) -> None:
    """Exchange the arms with and without allreduce, on the same ranks, in the configuration."""
    run.config["rounds"][1], run.config["rounds"][2] = run.config["rounds"][2], run.config["rounds"][1]


def _seed(run: RunRecord, rng: Rng) -> None:
    run.config["seed"] = 7


def _ranks_of_an_arm(run: RunRecord, rng: Rng) -> None:
    run.config["rounds"][0] |= {"nodes": 2, "ranks": 2}


def _ranks_exchanged(run: RunRecord, rng: Rng) -> None:
    number = int(rng.integers(12))
    for (turn, _), windows in windows_of(run).items():
        if turn == number and len(windows) == 2:
            _exchange(*windows)


def _rounds_exchanged(run: RunRecord, rng: Rng) -> None:
    """Exchange the windows of one arm between two rounds, on all ranks."""
    turns = windows_of(run)
    a, b = (int(n) for n in rng.permutation(12)[:2])
    for first, second in zip(turns[a, 1], turns[b, 1], strict=True):
        _exchange(first, second)


def _exchange(first: Window, second: Window) -> None:
    for name in (field.name for field in fields(Window) if field.name not in ("round", "arm")):
        values = getattr(first, name), getattr(second, name)
        setattr(first, name, values[1])
        setattr(second, name, values[0])


def _in_a_launch(change: Callable[[RunRecord], None]) -> Callable[[Study, Rng], None]:
    def attack(runs: Study, rng: Rng) -> None:
        _, run = _random_launch(_launches(runs), rng)
        change(run)
        settle(run)

    return attack


def _other_host(run: RunRecord) -> None:
    """Name another host in the ranks, but not in the hardware."""
    for rank in run.ranks:
        rank.host = "fast-node"


def _other_processor(run: RunRecord) -> None:
    assert run.environment
    run.environment.hosts[0].cpu_model = "another CPU"


def _other_name(run: RunRecord) -> None:
    assert run.environment
    run.environment.hosts[0].host = "fast-node"
    _other_host(run)


def _job_shortened(run: RunRecord) -> None:
    for rank in run.ranks:
        rank.phases_s["import"] -= 3.0
    run.job_s -= 3.0


def _usage(run: RunRecord) -> None:
    for rank in run.ranks:
        if rank.usage:
            rank.usage.cpu_s = [time_s / 2 for time_s in rank.usage.cpu_s]


def _cores(run: RunRecord) -> None:
    for rank in run.ranks:
        for counter in _counters(rank):
            counter.busy_s = round((counter.busy_s + counter.own_s) / 2, 2)


def _committed(run: RunRecord) -> None:
    assert run.environment
    run.environment.git_commit, run.source_digest = "a" * 40, "a" * 64


def _order(run: RunRecord) -> None:
    assert run.order
    run.order = Order(5, 0, run.order.runs)


@dataclass(frozen=True)
class Attack:
    """An attack on the records; the rules that can see it (none: it cannot be seen).

    as_note: a note counts too, though it is no alarm.
    """

    do: Callable[[Study, Rng], None]
    rules: tuple[str, ...] = ()
    as_note: bool = False


def _interrupted(runs: Study, rng: Rng) -> None:
    """Keep only the first launches, with at least one that is complete."""
    first = next(number for number, run in enumerate(runs.values()) if not run.failure)
    for path in [*runs][int(rng.integers(first + 1, len(runs))) :]:
        del runs[path]


INNOCENT = {"clean": lambda runs, rng: None, "clean, interrupted after any of its launches": _interrupted}


ATTACKS = {
    "slow rounds dropped, the others renumbered": Attack(_slow_rounds_dropped, ("order_of_rounds",)),
    "another seed of a launch in rounds": Attack(_in_a_round(_seed), ("order_of_rounds",)),
    "two arms exchanged in all windows": Attack(_in_a_round(_arms_exchanged), ("order_of_rounds",)),
    "other ranks of an arm": Attack(_in_a_round(_ranks_of_an_arm), ("windows_and_rounds",)),
    "windows and their steps a quarter shorter": Attack(_shortened(False, False), ("cut_windows",)),
    "the same, and the span of the counters": Attack(_shortened(True, False), ("counters_and_cores",)),
    "a launch in rounds copied as another, 0.4 % longer": Attack(_rounds_copied, ("copied_scatter", "order_of_rounds")),
    "all times of all launches on two nodes by 0.8": Attack(_all_times(0.8, False), ("whole_ticks",)),
    "all times of all launches on two nodes by 2, ticks whole again": Attack(_all_times(2.0, True), ("runs_at_once",)),
    "a repeat copied as a further one": Attack(_copied(1.0, 0.0), ("copied_run",)),
    "a repeat copied, all times 1 % longer": Attack(_copied(1.01, 0.0), ("copied_scatter",)),
    "a repeat copied, each step changed by up to 0.1 %": Attack(_copied(1.0, 0.001), ("copied_scatter",)),
    "the slowest of three repeats deleted": Attack(_slowest_of_three, ("missing_run",)),
    "the same, if a note counts": Attack(_slowest_of_three, ("missing_run",), as_note=True),
    "a launch that failed deleted, if a note counts": Attack(
        _deleted(lambda run: bool(run.failure)), ("missing_run",), as_note=True
    ),
    "another precision, in the old folder": Attack(_configured(False, precision="bf16"), ("misplaced_record",)),
    "another batch, in the old folder": Attack(_configured(False, batch_per_rank=16), ("misplaced_record",)),
    "other hosts of the ranks": Attack(_in_a_launch(_other_host), ("ranks_and_hosts",)),
    "another processor": Attack(_in_a_launch(_other_processor), ("unequal_machines",)),
    "another commit and digest of the code": Attack(_in_a_launch(_committed), ("unequal_software",)),
    "import and job 3 s shorter": Attack(_in_a_launch(_job_shortened), ("clocks_forward",)),
    "the first repeat of a point deleted": Attack(
        _deleted(lambda run: run.repeat == 0 and len(run.ranks) == 1), ("missing_run",)
    ),
    "all launches of a point deleted": Attack(
        _deleted(lambda run: not run.config.get("rounds") and len(run.ranks) == 1), ("missing_run",)
    ),
    "the slowest of three repeats deleted, the others renumbered, the plan shortened": Attack(_replanned),
    "two ranks exchanged in a round": Attack(_in_a_round(_ranks_exchanged)),
    "an arm exchanged between two rounds": Attack(_in_a_round(_rounds_exchanged)),
    "two arms exchanged in the configuration": Attack(_in_a_round(_settings_exchanged)),
    "windows, steps, and all that was counted, a quarter shorter": Attack(_shortened(True, True)),
    "all times of all launches on two nodes by 0.8, ticks whole again": Attack(_all_times(0.8, True)),
    "another precision, in the folder of its hash": Attack(_configured(True, precision="bf16")),
    "another name of the host, everywhere": Attack(_in_a_launch(_other_name)),
    "half of the CPU time that was sampled": Attack(_in_a_launch(_usage)),
    "half of what other processes took of the cores": Attack(_in_a_launch(_cores)),
    "another order of the runs": Attack(_in_a_launch(_order)),
}


def attacked(name: str, rng: Rng) -> Study:
    """Return a folder of records after an attack, or after an innocent change."""
    runs = clean(rng)
    do = INNOCENT[name] if name in INNOCENT else ATTACKS[name].do
    do(runs, rng)
    return runs
