"""Is an arm of a curve in rounds as fast as a launch of the same point alone?

python -m benchmarks.nested --pairs 6 experiment=weak_scaling model=resnet50 nodes=2

In rounds, Horovod negotiates with all ranks in each cycle, and idle neighbours hold memory. So launches of the curve
and of its single points are made in turn, and each arm's rate is divided by that of its point in the same pair. Run it
on a machine that does nothing else. docs/statistics.md has the result.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import harmonic_mean

from benchmarks import launches
from train.record import record, rounds
from train.record.record import RunRecord
from train.record.summary import throughput

Key = tuple[int, bool]  # nodes, allreduce


def main() -> None:
    """Measure, and print a line an arm."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nested", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=6, help="of launches; an interval needs 6 (default: %(default)s)")
    parser.add_argument("--round-s", type=float, default=90, help="of each launch in rounds (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=40, help="timed, of each single point (default: %(default)s)")
    parser.add_argument("overrides", nargs="+", help="as experiment=weak_scaling model=resnet50 nodes=2")
    given = parser.parse_intermixed_args()
    found: dict[Key, list[float]] = {}
    for number in range(given.pairs):
        with tempfile.TemporaryDirectory() as folder:
            for design in ("rounds", "launches")[:: 1 if number % 2 else -1]:
                launch(Path(folder) / design, design, given)
            for key, ratio in ratios(Path(folder)).items():
                found.setdefault(key, []).append(ratio)
                print(f"pair {number}: {words(key)}: {ratio:.3f}", flush=True)
    for key, values in sorted(found.items()):
        print(f"{words(key)}: in rounds / alone {launches.in_words(values)}, n={len(values)} pairs")


def words(key: Key) -> str:
    """What an arm is."""
    nodes, allreduce = key
    return f"{nodes} node{'s' * (nodes > 1)}{'' if allreduce else ' without allreduce'}"


def launch(results: Path, design: str, given: argparse.Namespace) -> None:
    """Measure in this design."""
    settings = {"design": design, "budget_s": given.round_s, "repeats": 1, "single_launches": 1}
    command = launches.command(results, given.overrides, **settings, timed_steps=given.steps)
    if design == "rounds":
        command.append(f"--only={launches.curve_of(command)}")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def ratios(folder: Path) -> dict[Key, float]:
    """The rate of each arm in rounds over that of its point alone."""
    alone = {key: rate for path in record.find(folder / "launches") for key, rate in single(record.load(path))}
    return {
        key: rate / alone[key]
        for path in record.find(folder / "rounds")
        for key, rate in arms(record.load(path))
        if key in alone
    }


def single(run: RunRecord) -> Iterator[tuple[Key, float]]:
    """The rate of a launch of one point."""
    timed_s = max(rank.phases_s["timed"] for rank in run.ranks)
    rate = throughput(run.config["global_batch"], len(run.ranks[0].step_times_s), timed_s)
    yield (run.config["nodes"], run.config["distribution"]["allreduce"]), rate


def arms(run: RunRecord) -> Iterator[tuple[Key, float]]:
    """The rate of each arm of a launch in rounds: the harmonic mean of its windows, which do equal work."""
    rates = rounds.rates(rounds.arms(run.config), (rank.windows for rank in run.ranks))
    for place, arm in enumerate(run.config["rounds"]):
        yield (arm["nodes"], arm["allreduce"]), harmonic_mean([of[place] for of in rates if place in of])


if __name__ == "__main__":
    main()
