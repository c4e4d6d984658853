"""Rates and speedups of the arms of launches in rounds, for progress, for the launcher and for the analysis."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from common.number import Number
from record import intervals, recorded_config
from record.disturbance import run_selection
from record.intervals import Turn
from record.record_summary import throughput
from record.schema import Role, RunRecord, Window


@dataclass(frozen=True)
class Arm:
    """The values of an arm from which its rate is computed."""

    ranks: int
    step_batch: int  # images that a rank takes in a step
    role: Role


CONTROL_EVERY = 4  # rounds have a control, unless every one has it (train/loop/run_rounds.py)
RoundRates = list[dict[int, float]]  # of each round: arm -> images/s


def arms(config: Mapping[str, Any]) -> list[Arm]:
    """Return the arms of a launch, from the configuration in its record."""
    return [Arm(arm["ranks"], recorded_config.arm_step_batch(arm), arm["role"]) for arm in config["rounds"]]


def labels(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the label of each arm of a launch, by name: `2 nodes`, `2 nodes without-allreduce`.

    If these are ambiguous, the label is the name.
    """
    arms = config["rounds"]
    texts = [f"{arm['nodes']} node{'s' * (arm['nodes'] != 1)} {arm['arm'] or ''}".rstrip() for arm in arms]
    unique = len({*texts}) == len(texts) and all("nodes" in arm["swept"] for arm in arms)
    return {arm["name"]: text if unique else arm["name"] for arm, text in zip(arms, texts, strict=True)}


def ranks_of(config: Mapping[str, Any], index: int) -> range:
    """Return the ranks of the job that measured an arm."""
    arm = config["rounds"][index]
    first = config["rank_groups"][arm["rank_group"]]["first_rank"] if config["rank_groups"] else 0
    return range(first, first + arm["ranks"])


def config_of(config: Mapping[str, Any], index: int) -> dict[str, Any]:
    """Return the configuration that a launch of one arm alone would have, from that in the record of the launch."""
    arm = config["rounds"][index]
    settings = config["rank_groups"][arm["rank_group"]]["settings"] if config["rank_groups"] else {}
    alone = dict(config)
    for key, value in {**settings, "distribution.allreduce": arm["allreduce"],
                       "system.link_mbit_per_s": arm["link_mbit_per_s"]}.items():  # fmt: skip
        _put(alone, key, value)
    alone |= {"nodes": arm["nodes"], "batch_per_rank": arm["batch_per_rank"]}
    return alone | {"global_batch": recorded_config.arm_step_batch(arm) * arm["ranks"], "rounds": [], "rank_groups": []}


def _put(config: dict[str, Any], key: str, value: Any) -> None:
    """Set a value by its dotted key, in copies of the sections that hold it."""
    *sections, name = key.split(".")
    for step in sections:
        config[step] = dict(config[step])
        config = config[step]
    config[name] = value


def orders(seed: int, repeat: int, windows: int) -> Iterator[list[int]]:
    """Yield the order of the windows of each round of a launch, without end: drawn from the seed and the repeat."""
    import numpy as np  # not needed by the launcher

    generator = np.random.default_rng([seed, repeat])
    while True:
        yield generator.permutation(windows).tolist()


def windows_by_turn(windows_by_rank: Iterable[Sequence[Window]]) -> dict[tuple[int, int], list[Window]]:
    """Return the windows of all ranks by round and arm. windows_by_rank: those of each rank."""
    by_turn: dict[tuple[int, int], list[Window]] = {}
    for windows in windows_by_rank:
        for window in windows:
            by_turn.setdefault((window.round, window.arm), []).append(window)
    return by_turn


def rates(arms: Sequence[Arm], windows_by_rank: Iterable[Sequence[Window]]) -> RoundRates:
    """Return the throughput of each arm in each round, in images/s, gated by the slowest of its ranks.

    windows_by_rank: the windows of each rank. An arm that some of its ranks did not finish in a round is left out.
    """
    windows_by_arm = windows_by_turn(windows_by_rank)
    by_round: RoundRates = [{} for _ in range(1 + max((number for number, _ in windows_by_arm), default=-1))]
    for (number, index), windows in windows_by_arm.items():
        arm = arms[index]
        if len(windows) == arm.ranks:
            slowest_s = max(window.window_s for window in windows)
            steps = len(windows[0].step_times_s)
            by_round[number][index] = throughput(arm.ranks * arm.step_batch, steps, slowest_s)
    return by_round


def run_rates(run: RunRecord) -> RoundRates:
    """Return the throughput of each arm in each round of a launch, as `rates`."""
    return rates(arms(run.config), (rank.windows for rank in run.ranks))


def arm_rates(runs: Iterable[RunRecord]) -> list[dict[Turn, float]]:
    """Return the throughput of each arm of one curve in each round that counts, of all its launches."""
    by_arm: list[dict[Turn, float]] = []
    for run in runs:
        by_arm = by_arm or [{} for _ in run.config["rounds"]]
        measured = run_rates(run)
        for number in run_selection(run).counting:
            for index, rate in measured[number].items():
                by_arm[index][Turn(f"r{run.repeat}", run.config["seed"], number)] = rate
    return by_arm


def over_base(runs: Sequence[RunRecord]) -> dict[str, tuple[dict[Turn, float], dict[Turn, float]]]:
    """Return the rates of each arm of one curve and those of its base, by the name of the arm.

    Without the base itself, and without arms that every launch left out.
    """
    rates, base = arm_rates(runs), base_of(arms(runs[-1].config))
    named = enumerate(arm["name"] for arm in runs[-1].config["rounds"])
    left_out = set.intersection(*({*run.arms_left_out} for run in runs))
    return {name: (rates[index], rates[base]) for index, name in named if index != base and name not in left_out}


def speedup_in(measured: Mapping[int, Mapping[int, float]], arm: int, base: int) -> Number | None:
    """Return the speedup of an arm over another one in some rounds of one launch. measured: their rates, by number."""
    rates = (
        {Turn("r", 0, n): by_arm[index] for n, by_arm in measured.items() if index in by_arm} for index in (arm, base)
    )
    return intervals.speedup(*rates)


def speedups(runs: Sequence[RunRecord]) -> dict[str, Number | None]:
    """Return the speedup of each arm of one curve over its base, by the name of the arm. runs: its launches."""
    return {name: intervals.speedup(*rates) for name, rates in over_base(runs).items()}


def point_speedups(runs: Sequence[RunRecord]) -> dict[str, Number | None]:
    """Return those of `speedups` that the measurement is for: without controls and other added arms."""
    roles = {arm["name"]: arm["role"] for arm in runs[-1].config["rounds"]}
    return {name: speedup for name, speedup in speedups(runs).items() if roles[name] == "point"}


def step_times_s(run: RunRecord) -> dict[int, float]:
    """Return the median time of a step of each arm that was measured, over all rounds, in s."""
    measured, times_s = run_rates(run), {}
    for index, arm in enumerate(arms(run.config)):
        if rates := [by_arm[index] for by_arm in measured if index in by_arm]:
            times_s[index] = arm.ranks * arm.step_batch / median(rates)
    return times_s


def complete_rounds(run: RunRecord) -> dict[int, dict[int, float]]:
    """Return the rates of the rounds, by number, that measured all arms but controls; a launch that failed has others.

    Not every round measures a control (train/loop/run_rounds.py), unless it is the base.
    """
    base = base_of(arms(run.config))
    needed = {
        index
        for index, arm in enumerate(run.config["rounds"])
        if arm["name"] not in run.arms_left_out and (index == base or arm["role"] != "control")
    }
    return {number: rates for number, rates in enumerate(run_rates(run)) if needed <= rates.keys()}


def base_of(arms: Sequence[Arm]) -> int:
    """Return the index of the arm by which the speedups of a launch divide: its base, else the control of its points.

    Raises ValueError without either.
    """
    roles = [arm.role for arm in arms]
    return roles.index("base" if "base" in roles else "control")
