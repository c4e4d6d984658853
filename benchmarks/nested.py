"""Is an arm of a curve in rounds as fast as a launch of the same point alone?

python -m benchmarks.nested experiment=weak_scaling model=resnet50 nodes=2

In rounds, Horovod negotiates with all ranks in each cycle, and idle neighbours hold memory. A curve in rounds and the
launches of its single points are started together, but all except one are frozen (SIGSTOP). In each turn every launch
runs once, in random order: the curve for a round, a point for some of its steps. So a drift of the machine affects all
alike, and a turn gives one ratio of each arm. Run it on a machine that does nothing else.
docs/statistics.md has the result.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise, takewhile
from pathlib import Path
from statistics import median

import psutil

from benchmarks import launches
from benchmarks.common import in_words, options
from train.record import record, rounds
from train.record.parts import RankPart
from train.record.progress import Follower, launched_at
from train.record.record import RunRecord
from train.record.summary import throughput

_POLL_S = 0.02
_WARM_UP_STEPS = 10  # the first steps of a process are slower
_BUDGET_S = 86_400  # the curve ends when the turns are over, or once it is precise
_PRECISION = 0.02


def main() -> None:
    numbers = {"turns": (30, "of each launch"), "steps": (12, "of a single point in a turn")}
    parser = options("nested", __doc__, **numbers)
    parser.add_argument("overrides", nargs="+", help="as experiment=weak_scaling model=resnet50 nodes=2")
    arguments = parser.parse_intermixed_args()
    started: list[Launch] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name, command in commands(Path(folder), arguments):
                started.append(Launch(name, Path(folder) / name, command))
                started[-1].reach_timed_phase()
            take_turns(started, arguments.turns, arguments.steps)
            curve, *points = started
            curve.end()
            nested = rates_of_arms(curve.turns, curve.record())
            alone: dict[int, list[float]] = {}
            for point in points:
                point.finish()
                run = point.record()
                alone[run.config["nodes"]] = rates_of_point(point.launched_at, point.turns, run)
            for line in compare(nested, alone):
                print(line)
        finally:
            for launch in started:
                launch.end()


def commands(folder: Path, arguments: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the command of the curve in rounds, then of each of its points."""
    in_rounds = {"design": "rounds", "budget_s": _BUDGET_S, "precision_fraction": _PRECISION}
    alone = {"design": "launches", "timed_steps": arguments.turns * arguments.steps, "warm_up_steps": _WARM_UP_STEPS}
    curve = launches.curve_of(launches.overrides(folder, arguments.overrides, **in_rounds))
    points = launches.points_of(launches.overrides(folder, arguments.overrides, **alone))
    for name, measure in [(curve, in_rounds), *((point, alone) for point in points)]:
        overrides = launches.overrides(folder / name, arguments.overrides, repeats=1, **measure)
        yield name, launches.command(overrides, only=name)


def compare(nested: Sequence[dict[int, float]], alone: dict[int, list[float]]) -> Iterator[str]:
    """Yield a line for the rate of each point, and for its speedup over the first: in rounds / in separate launches.

    nested: the rates of each turn, by nodes; alone: those of the turns, by nodes.
    """
    ratios = {
        nodes: [arms[nodes] / rate for arms, rate in zip(nested, rates, strict=False)] for nodes, rates in alone.items()
    }
    base = min(ratios)
    for nodes in sorted(ratios):
        yield f"nodes={nodes}: rate in rounds / alone {_ratio_text(ratios[nodes])}"
    for nodes in sorted(set(ratios) - {base}):
        speedups = [ratio / base_ratio for ratio, base_ratio in zip(ratios[nodes], ratios[base], strict=False)]
        yield f"nodes={nodes}: speedup over nodes={base} in rounds / alone {_ratio_text(speedups)}"


def _ratio_text(ratios: Sequence[float]) -> str:
    if not ratios:
        return "unknown: no turn held a whole step, raise --steps"
    return f"{in_words(ratios)}, n={len(ratios)} turns"


@dataclass(frozen=True)
class Turn:
    """The turn of a launch, while the others are frozen."""

    begun_at: float  # seconds since the epoch
    ended_at: float
    round: int  # its number, if the launch has rounds


class Launch:
    """A launch of the kit that can be frozen."""

    def __init__(self, name: str, results: Path, command: Sequence[str]) -> None:
        """Start the launch."""
        self.name = name
        self.turns: list[Turn] = []
        self._results = results
        self._job = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self._follower: Follower | None = None
        self.launched_at = 0.0  # seconds since the epoch

    @property
    def running(self) -> bool:
        """Whether the launch has not ended."""
        return self._job.poll() is None

    @property
    def part(self) -> RankPart | None:
        """The measurements of rank 0 so far."""
        if self._follower is None:
            for folder in self._results.glob("*/*/*/r*"):
                self._follower = Follower(folder)
        return self._follower.part(0) if self._follower else None

    @property
    def rounds(self) -> int:
        """The number of finished rounds."""
        part = self.part
        return part.windows[-1].round + 1 if part and part.windows else 0

    def reach_timed_phase(self) -> None:
        """Wait for the timed phase, and freeze. Raises SystemExit if the launch ends before."""
        while (part := self.part) is None or part.phase != "timed":
            if not self.running:
                sys.exit(f"{self.name}: the launch ended with status {self._job.returncode} before its timed phase")
            time.sleep(_POLL_S)
        self.launched_at = launched_at(part)
        self.freeze()

    def take_turn(self, steps: int) -> None:
        """Run for a round, or about as long as `steps` take, unless it has ended. Raises SystemExit if it fails."""
        part = self.part
        if not self.running or part is None:
            return
        first, begun = self.rounds, time.time()
        self.thaw()
        if part.warm_up_step_times_s:
            time.sleep(steps * median(part.warm_up_step_times_s))
        while not part.warm_up_step_times_s and self.running and self.rounds == first:
            time.sleep(_POLL_S)
        if not self.running and self._job.returncode:
            failure = self.record().failure
            sys.exit(f"{self.name}: the launch failed: {failure.reason if failure else self._job.returncode}")
        self.turns.append(Turn(begun, time.time(), first))
        self.freeze()

    def finish(self) -> None:
        """Run to the end."""
        self.thaw()
        self._job.wait()

    def end(self) -> None:
        """Terminate the launch unless it has ended."""
        if self.running:
            self.thaw()
            self._job.terminate()  # SIGINT is ignored where a shell started this in the background
        self._job.wait()

    def record(self) -> RunRecord:
        """Return the record."""
        return record.load(next(iter(record.find(self._results))))

    def freeze(self) -> None:
        """Stop all processes except the launcher, which watches them."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue all processes."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        with suppress(psutil.NoSuchProcess):  # it has ended
            for process in psutil.Process(self._job.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(number)


def take_turns(started: Sequence[Launch], turns: int, steps: int) -> None:
    """Run all launches one at a time, for so many turns each."""
    for number in range(turns):
        for launch in random.Random(number).sample(started, len(started)):
            launch.take_turn(steps)
        print(f"turn {number + 1} of {turns}", flush=True)


def rates_of_arms(turns: Sequence[Turn], run: RunRecord) -> list[dict[int, float]]:
    """Return the rate of each arm with allreduce in each turn of a curve in rounds, by its nodes, in images/s."""
    rates = rounds.run_rates(run)
    nodes = {index: arm["nodes"] for index, arm in enumerate(run.config["rounds"]) if arm["allreduce"]}
    return [{nodes[index]: rate for index, rate in rates[turn.round].items() if index in nodes} for turn in turns]


def rates_of_point(launched: float, turns: Sequence[Turn], run: RunRecord) -> list[float]:
    """Return the rate of a single point in each turn, in images/s, from the steps that are wholly within it.

    launched: when it was launched, in seconds since the epoch. Phases and steps follow each other without a gap.
    """
    rank = run.ranks[0]
    before = takewhile(lambda phase: phase != "timed", rank.phases_s)
    timed_at = launched + sum(rank.phases_s[phase] for phase in before)
    steps = list(pairwise(accumulate(rank.step_times_s, initial=timed_at)))
    rates = []
    for turn in turns:
        within = [end - begin for begin, end in steps if turn.begun_at <= begin and end <= turn.ended_at]
        if not within:  # all steps were before
            break
        rates.append(throughput(run.config["global_batch"], len(within), sum(within)))
    return rates


if __name__ == "__main__":
    main()
