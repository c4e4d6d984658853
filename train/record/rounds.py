"""Rates and speedups of the arms of a launch in rounds: used by the ranks to decide when to stop, and by the analysis.

A round runs every arm once. A speedup is a ratio of two rates of one round, so that a drift of the machine cancels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from train.record import batch
from train.record.record import Role, Window
from train.record.summary import throughput


@dataclass(frozen=True)
class Arm:
    """What is needed of an arm to compute its rate."""

    ranks: int
    step_batch: int  # images that a rank takes in a step
    role: Role = "point"


Rates = list[dict[int, float]]  # of each round: arm -> images/s


def arms(config: Mapping[str, Any]) -> list[Arm]:
    """The arms of a launch, from the configuration in its record."""
    return [Arm(arm["ranks"], batch.of_arm(arm), arm["role"]) for arm in config["rounds"]]


def ranks_of(config: Mapping[str, Any], place: int) -> range:
    """The ranks of the job that measured an arm, from the configuration in its record."""
    arm = config["rounds"][place]
    first = config["worlds"][arm["world"]]["first_rank"] if config["worlds"] else 0
    return range(first, first + arm["ranks"])


def config_of(config: Mapping[str, Any], place: int) -> dict[str, Any]:
    """The configuration that a launch of one arm alone would have, from that in the record of the launch."""
    arm = config["rounds"][place]
    settings = config["worlds"][arm["world"]]["settings"] if config["worlds"] else {}
    found = dict(config)
    for key, value in {**settings, "distribution.allreduce": arm["allreduce"],
                       "system.link_mbit_per_s": arm["link_mbit_per_s"]}.items():  # fmt: skip
        _put(found, key, value)
    found |= {"nodes": arm["nodes"], "batch_per_rank": arm["batch_per_rank"]}
    return found | {"global_batch": batch.of_arm(arm) * arm["ranks"], "rounds": [], "worlds": []}


def _put(config: dict[str, Any], key: str, value: Any) -> None:
    """Set a value by its path, as distribution.allreduce, in copies of the sections that hold it."""
    *sections, name = key.split(".")
    for step in sections:
        config[step] = dict(config[step])
        config = config[step]
    config[name] = value


def orders(seed: int, repeat: int, turns: int) -> Iterator[list[int]]:
    """The order of the turns of each round of a launch, without end: drawn from the seed and the repeat."""
    import numpy as np  # the launcher does not need it

    drawn = np.random.default_rng([seed, repeat])
    while True:
        yield drawn.permutation(turns).tolist()


def rates(arms: Sequence[Arm], windows_of_ranks: Iterable[Sequence[Window]]) -> Rates:
    """The throughput of each arm in each round, in images/s, gated by the slowest of its ranks.

    windows_of_ranks: the windows of each rank. An arm that some of its ranks did not finish in a round is left out.
    """
    found: dict[tuple[int, int], list[Window]] = {}
    for windows in windows_of_ranks:
        for window in windows:
            found.setdefault((window.round, window.arm), []).append(window)
    by_round: Rates = [{} for _ in range(1 + max((number for number, _ in found), default=-1))]
    for (number, place), windows in found.items():
        arm = arms[place]
        if len(windows) == arm.ranks:
            slowest_s = max(window.window_s for window in windows)
            steps = len(windows[0].step_times_s)
            by_round[number][place] = throughput(arm.ranks * arm.step_batch, steps, slowest_s)
    return by_round


def whole(of_rounds: Rates, measured: int) -> dict[int, dict[int, float]]:
    """The rounds, by number, that have the rates of all arms that were measured; a launch that failed has others."""
    return {number: found for number, found in enumerate(of_rounds) if len(found) == measured}


def base_of(arms: Sequence[Arm]) -> int:
    """The place of the arm that the speedups of a launch are over: its base, else the control of its points.

    Raises ValueError without either.
    """
    roles = [arm.role for arm in arms]
    return roles.index("base" if "base" in roles else "control")


def ratios(of_rounds: Rates, arm: int, base: int) -> list[float]:
    """The rate of an arm over that of the base, in each round that has both, in the order of rounds."""
    return [rate[arm] / rate[base] for rate in of_rounds if arm in rate and base in rate]
