"""Rates and speedups of the arms of a launch in rounds, for progress, for the launcher and for the analysis.

A round runs every arm once. A speedup is a ratio of two rates of one round, so that a drift of the machine cancels.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from record import recorded_config
from record.disturbance import run_selection
from record.schema import Role, RunRecord, Window
from record.summary import throughput


@dataclass(frozen=True)
class Arm:
    """The values of an arm from which its rate is computed."""

    ranks: int
    step_batch: int  # images that a rank takes in a step
    role: Role = "point"


Rates = list[dict[int, float]]  # of each round: arm -> images/s


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


def rates(arms: Sequence[Arm], windows_by_rank: Iterable[Sequence[Window]]) -> Rates:
    """Return the throughput of each arm in each round, in images/s, gated by the slowest of its ranks.

    windows_by_rank: the windows of each rank. An arm that some of its ranks did not finish in a round is left out.
    """
    windows_by_arm = windows_by_turn(windows_by_rank)
    by_round: Rates = [{} for _ in range(1 + max((number for number, _ in windows_by_arm), default=-1))]
    for (number, index), windows in windows_by_arm.items():
        arm = arms[index]
        if len(windows) == arm.ranks:
            slowest_s = max(window.window_s for window in windows)
            steps = len(windows[0].step_times_s)
            by_round[number][index] = throughput(arm.ranks * arm.step_batch, steps, slowest_s)
    return by_round


def run_rates(run: RunRecord) -> Rates:
    """Return the throughput of each arm in each round of a launch, as `rates`."""
    return rates(arms(run.config), (rank.windows for rank in run.ranks))


def counting_rates(run: RunRecord) -> Rates:
    """Return the throughput of each arm in each round of a launch that counts, in their order, as `rates`."""
    measured = run_rates(run)
    return [measured[number] for number in run_selection(run).counting]


def step_times_s(run: RunRecord) -> dict[int, float]:
    """Return the median time of a step of each arm that was measured, over the rounds that count, in s."""
    measured, times_s = counting_rates(run), {}
    for index, arm in enumerate(arms(run.config)):
        if arm_rates := [by_arm[index] for by_arm in measured if index in by_arm]:
            times_s[index] = arm.ranks * arm.step_batch / median(arm_rates)
    return times_s


def complete_rounds(by_round: Rates, measured: int) -> dict[int, dict[int, float]]:
    """Return the rounds, by number, that have the rates of all arms; a launch that failed has others."""
    return {number: rates for number, rates in enumerate(by_round) if len(rates) == measured}


def base_of(arms: Sequence[Arm]) -> int:
    """Return the index of the arm by which the speedups of a launch divide: its base, else the control of its points.

    Raises ValueError without either.
    """
    roles = [arm.role for arm in arms]
    return roles.index("base" if "base" in roles else "control")


def ratios(by_round: Rates, arm: int, base: int) -> list[float]:
    """Return the rate of an arm over that of the base, in each round that has both, in the order of rounds."""
    return [rate[arm] / rate[base] for rate in by_round if arm in rate and base in rate]
