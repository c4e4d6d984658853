"""Reproduce a report: measure every experiment of it that this machine can run, one after the other.

python -m train.launch.reproduce 001 nodes=2
"""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from train.config import compose
from train.config.checks import ConfigError, check_results
from train.config.compose import load
from train.config.schema import Reproduced
from train.launch import execute
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import BatchLauncher, Machine
from train.launch.plan import checks
from train.launch.plan.make import Options, Plan, make
from train.launch.plan.runs import Run, expected_s, remaining, runs_of
from train.launch.screen import Terminal
from train.launch.supervise.signals import Interrupted
from train.record import reproduction
from train.record.printable import printable_output
from train.record.progress import duration
from train.record.reproduction import Outcome, Reproduction, Status


@dataclass(frozen=True)
class Part:
    """One experiment of a report, as its file says."""

    experiment: str
    shows: str  # its description
    reproduced: Reproduced

    @cached_property
    def on_nodes(self) -> bool:
        """Return whether some point has several nodes: else all have one, whatever NODES= says of other experiments."""
        return compose.read_experiment([f"experiment={self.experiment}"]).max_nodes > 1

    def asked(self, overrides: Sequence[str]) -> list[str]:
        """Return the overrides of the user that are meant for it, with its name."""
        fitting = [line for line in overrides if not line.startswith("nodes=") or self.on_nodes]
        return [f"experiment={self.experiment}", *fitting]

    @property
    def figures(self) -> str:
        """Return what of the report it makes: "figures 5 and 6", "models 3 to 6"; "" where the file does not say."""
        named = (("figure", self.reproduced.figures), ("model", self.reproduced.models))
        return ", ".join(f"{what}{'s' * (len(numbers) > 1)} {_listed(numbers)}" for what, numbers in named if numbers)


def _listed(numbers: Sequence[int]) -> str:
    """Return numbers in words: "2", "5 and 6", "3 to 6"."""
    first, *_, last = [*numbers, numbers[-1]]
    if len(numbers) > 2 and list(numbers) == list(range(first, last + 1)):
        return f"{first} to {last}"
    return " and ".join(filter(None, (", ".join(map(str, numbers[:-1])), str(last))))


@dataclass(frozen=True)
class Estimate:
    """How long the launches of an experiment that are still to be made will take, in s."""

    known_s: float = 0.0  # from runs that were made, and from budgets
    assumed_s: float = 0.0  # of launches like none that was made: launcher.assumed_run_s each

    @property
    def all_s(self) -> float:
        """Return both together."""
        return self.known_s + self.assumed_s

    def text(self) -> str:
        """Return it as text: "about 12 min", or "14 min, assumed" where part of it was not measured yet."""
        if not self.all_s:
            return "nothing left"
        return f"about {duration(self.all_s)}" if not self.assumed_s else f"{duration(self.all_s)}, assumed"


@dataclass(frozen=True)
class Planned:
    """The plan of an experiment here; without one, why there is none."""

    part: Part
    plan: Plan | None = None
    why_not: str = ""
    runs: tuple[Run, ...] = ()
    to_do: int = 0
    estimate: Estimate = Estimate()

    @property
    def left_out(self) -> list[str]:
        """Return what of the experiment is not measured, and why."""
        return [*self.plan.left_out, *self.plan.too_large] if self.plan else []


def parts() -> dict[str, list[Part]]:
    """Return the experiments of each report by its number, in the order of the report's figures. Raises ConfigError.

    What an experiment reproduces stands in its file alone: Hydra, which takes 0.1 s for each, is not asked.
    """
    by_report: dict[str, list[Part]] = {}
    for path in sorted((compose.CONF / "experiment").glob("*.yaml")):
        try:
            values = yaml.safe_load(path.read_bytes())
            reproduces = msgspec.convert(values.get("reproduces", ()), list[Reproduced])
        except (yaml.YAMLError, msgspec.ValidationError) as error:
            raise ConfigError(f"conf/experiment/{path.name}: {error}") from error
        for one in reproduces:
            by_report.setdefault(one.report, []).append(Part(path.stem, values.get("description", ""), one))

    def place(part: Part) -> tuple[int, str]:
        return min(part.reproduced.figures, default=sys.maxsize), part.experiment

    return {report: sorted(by_report[report], key=place) for report in sorted(by_report)}


def mistake(planned: Sequence[Planned], overrides: Sequence[str]) -> str:
    """Return what is wrong with the overrides themselves; "" where nothing is: then each experiment has its own reason.

    They are wrong if neither a run alone nor any experiment that takes all of them can have them.
    """
    if any(one.part.asked(overrides)[1:] == [*overrides] and not one.why_not for one in planned):
        return ""
    try:
        asked = compose.read_experiment(overrides)
        load(asked.plain)
        for key, item in asked.asked.items():
            for choice in asked.choices(key) if item.is_sweep_override() else ():
                load([*asked.plain, choice])
    except ConfigError as error:
        return str(error)
    return ""


def plan(part: Part, overrides: Sequence[str], machine: Machine, force: bool) -> Planned:
    """Return what an experiment of a report will do on this machine."""
    try:
        plan_here = make(part.asked(overrides), machine, LAUNCHERS)
        if not plan_here.points:
            return Planned(part, why_not="; ".join([*plan_here.left_out, *plan_here.too_large]))
        runs = runs_of(plan_here.points, plan_here.launcher)
        to_do, durations = remaining(runs, force)
        checks.check_input([run.point for run in to_do], plan_here.launcher.hosts_apart)
    except ConfigError as error:
        return Planned(part, why_not=" ".join(str(error).split()))
    expected = [expected_s(run, durations) for run in to_do]
    known_s = math.fsum(s for s in expected if s is not None)
    assumed = sum(run.point.config.launcher.assumed_run_s for run, s in zip(to_do, expected, strict=True) if s is None)
    return Planned(part, plan_here, "", tuple(runs), len(to_do), Estimate(known_s, float(assumed)))


def show(planned: Sequence[Planned], console: Console) -> None:
    """Print what will be measured and how long it takes, and what cannot be measured here and why."""
    table = Table(box=None, header_style="bold", pad_edge=False)  # 80 characters wide at most
    for head in ("experiment", "points", "launches", "left", "time"):
        table.add_column(head, justify="left" if head in ("experiment", "time") else "right", no_wrap=True)
    table.add_column("of the report")
    for one in (one for one in planned if not one.why_not):
        numbers = (str(one.plan.spanned if one.plan else ""), str(len(one.runs)), str(one.to_do), one.estimate.text())
        table.add_row(one.part.experiment, *numbers, escape(one.part.figures))
    console.print(table)
    all_s = math.fsum(one.estimate.all_s for one in planned)
    assumed = any(one.estimate.assumed_s for one in planned)
    source = " (assumed: of launches like none made here, each launcher.assumed_run_s; of rounds their budget)"
    console.print(f"in all {duration(all_s)} at most{source if assumed else ''}", highlight=False)
    for one in planned:
        if one.why_not:
            console.print(escape(f"cannot run here: {one.part.experiment}: {one.why_not}"), highlight=False)
        for why in one.left_out if not one.why_not else ():
            console.print(escape(f"left out of {one.part.experiment}: {why}"), highlight=False)


def measure(one: Planned, overrides: Sequence[str], force: bool, console: Console) -> Outcome:
    """Carry out the plan of an experiment; returns what came of it. Raises Interrupted."""
    if one.plan is None:
        return outcome(one)
    began = time.monotonic()
    execute.show(one.plan, console)
    try:
        status = execute.carry_out(one.plan, Options(tuple(one.part.asked(overrides)), force=force), console)
    except (ConfigError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        status = 2
    if status > 128:
        raise Interrupted(status - 128)
    return outcome(one, status, time.monotonic() - began)


def outcome(one: Planned, status: int | None = None, took_s: float = 0.0) -> Outcome:
    """Return what came of an experiment. status: of `execute.carry_out`; None where it was not begun."""
    if one.plan is None:
        return Outcome(one.part.experiment, one.part.shows, "not run", one.why_not)
    left, _ = remaining(one.runs, force=False)
    count = len(one.runs) - len(left)
    submitted = isinstance(one.plan.launcher, BatchLauncher)
    came: Status = "submitted" if submitted and status == 0 else "failed"
    why = f"{len(left)} of {len(one.runs)} launches have no complete record"
    # Launches for which its time did not suffice are left when it ends well.
    if not left or (status == 0 and count > 0 and not submitted):
        came, why = "measured", ""
    elif status is None:
        came, why = "not run", "interrupted before it"
    return Outcome(one.part.experiment, one.part.shows, came, why, one.left_out, count, len(one.runs), round(took_s, 1))


def reproduce(report: str, planned: Sequence[Planned], overrides: Sequence[str], force: bool, results: Path) -> int:
    """Measure what can be measured and write what came of it; 1 where a launch failed."""
    console = Terminal(soft_wrap=True)
    outcomes: list[Outcome] = []
    status = 0
    try:
        for one in planned:
            if not one.why_not:
                print(f"\n== {one.part.experiment}: {one.part.shows}", flush=True)
            outcomes.append(measure(one, overrides, force, console))
    except Interrupted as interruption:
        status = 128 + interruption.signal
        print("interrupted: the same command goes on from here")
    outcomes += [outcome(one) for one in planned[len(outcomes) :]]
    reproduction.write(Reproduction(report, outcomes), results)
    return status or int(any(one.status == "failed" for one in outcomes))


def main() -> int:
    """Show the plan, and unless it is a dry run measure it; the exit status."""
    try:
        return _run()
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run() -> int:
    parser = argparse.ArgumentParser(prog="python -m train.launch.reproduce", description=__doc__.splitlines()[0])
    reports = parts()
    parser.add_argument("report", help=f"one of {', '.join(reports)}")
    parser.add_argument("--dry-run", action="store_true", help="show what would be measured, how long, and what not")
    parser.add_argument("--force", action="store_true", help="measure again what is measured: adds, replaces nothing")
    parser.add_argument("overrides", nargs="*", help="nodes=2 measure=report ...")
    arguments = parser.parse_intermixed_args()
    if arguments.report not in reports:
        raise ConfigError(f"REPORT={arguments.report}: no such report; allowed are {', '.join(reports)}")
    machine = execute.this_machine()
    planned = [plan(part, arguments.overrides, machine, arguments.force) for part in reports[arguments.report]]
    if why := mistake(planned, arguments.overrides):
        raise ConfigError(why)
    show(planned, Terminal(soft_wrap=True))
    if arguments.dry_run:
        return 0
    results = Path(compose.read_experiment(arguments.overrides).composed.results)
    check_results(results)
    return reproduce(arguments.report, planned, arguments.overrides, arguments.force, results)


if __name__ == "__main__":
    with printable_output():
        sys.exit(main())
