"""Reproduce a report: measure every experiment of it that this machine can run, one after the other.

python -m train.launch.reproduce 001 nodes=2
"""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import msgspec
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from common import affinity
from common.printable import printable_output
from common.terminal import show
from record import reproduction
from record import run_files as files
from record.progress import duration
from record.reproduction import ExperimentOutcome, Reproduction, Status
from train.config import compose
from train.config.checks import ConfigError, reported
from train.config.results import check_results
from train.config.run_config import Reproduced
from train.launch import execute
from train.launch.launchers.base import BatchLauncher, Machine
from train.launch.plan import point_checks
from train.launch.plan.make_plan import Options, Plan, make
from train.launch.plan.planned_runs import Estimate, Run, estimate, remaining, runs_of
from train.launch.screen import Terminal
from train.launch.supervise.signals import Interrupted


@dataclass(frozen=True)
class ReportPart:
    """One experiment of a report, from its file in conf/experiment."""

    experiment: str
    shows: str  # its description
    reproduced: Reproduced

    @cached_property
    def on_nodes(self) -> bool:
        """Return whether some point has several nodes; else NODES= does not apply to it."""
        return compose.read_experiment([f"experiment={self.experiment}"]).max_nodes > 1

    def overrides(self, user_overrides: Sequence[str]) -> list[str]:
        """Return its name and the overrides of the user that apply to it."""
        fitting = [line for line in user_overrides if not line.startswith("nodes=") or self.on_nodes]
        return [f"experiment={self.experiment}", *fitting]

    @property
    def figures(self) -> str:
        """Return the reproduced parts of the report: "figures 5 and 6", "models 3 to 6"; "" if the file names none."""
        named = (("figure", self.reproduced.figures), ("model", self.reproduced.models))
        return ", ".join(f"{kind}{'s' * (len(numbers) > 1)} {_listed(numbers)}" for kind, numbers in named if numbers)


def _listed(numbers: Sequence[int]) -> str:
    """Return numbers as text: "2", "5 and 6", "3 to 6"."""
    first, *_, last = [*numbers, numbers[-1]]
    if len(numbers) > 2 and list(numbers) == list(range(first, last + 1)):
        return f"{first} to {last}"
    return " and ".join(filter(None, (", ".join(map(str, numbers[:-1])), str(last))))


@dataclass(frozen=True)
class Planned:
    """The plan of an experiment here, or why there is none."""

    part: ReportPart
    plan: Plan | None = None
    why_not: str = ""
    runs: tuple[Run, ...] = ()
    to_do: int = 0
    estimate: Estimate = field(default_factory=Estimate)

    @property
    def left_out(self) -> list[str]:
        """Return the points of the experiment that are not measured, and why."""
        return [*self.plan.left_out, *self.plan.too_large] if self.plan else []


def parts() -> dict[str, list[ReportPart]]:
    """Return the experiments of each report by its number, in the order of the report's figures. Raises ConfigError.

    Reads the files of the experiments directly: Hydra would take 0.1 s for each.
    """
    by_report: dict[str, list[ReportPart]] = {}
    for path in sorted((compose.CONF / "experiment").glob("*.yaml")):
        try:
            values = yaml.safe_load(path.read_bytes())
            reproduces = msgspec.convert(values.get("reproduces", ()), list[Reproduced])
        except (yaml.YAMLError, msgspec.ValidationError) as error:
            raise ConfigError(f"conf/experiment/{path.name}: {error}") from error
        for entry in reproduces:
            by_report.setdefault(entry.report, []).append(ReportPart(path.stem, values.get("description", ""), entry))

    def position(part: ReportPart) -> tuple[int, str]:
        return min(part.reproduced.figures, default=sys.maxsize), part.experiment

    return {report: sorted(by_report[report], key=position) for report in sorted(by_report)}


def mistake(planned: Sequence[Planned], overrides: Sequence[str]) -> str:
    """Return the error in the overrides themselves; "" if there is none: then each experiment has its own reason.

    They are wrong if they suit neither a single run nor any experiment to which all of them apply.
    """
    if any(item.part.overrides(overrides)[1:] == [*overrides] and not item.why_not for item in planned):
        return ""
    try:
        experiment = compose.read_experiment(overrides)
        compose.load(experiment.unswept)
        for key, item in experiment.by_key.items():
            for choice in experiment.choices(key) if item.is_sweep_override() else ():
                compose.load([*experiment.unswept, choice])
    except ConfigError as error:
        return str(error)
    return ""


def plan(part: ReportPart, overrides: Sequence[str], machine: Machine, force: bool) -> Planned:
    """Return the plan of an experiment of a report on this machine."""
    try:
        plan_here = make(part.overrides(overrides), machine)
        if not plan_here.points:
            return Planned(part, why_not="; ".join([*plan_here.left_out, *plan_here.too_large]))
        runs = runs_of(plan_here.points, plan_here.launcher)
        to_do, durations = remaining(runs, force)
        point_checks.check_input([run.point for run in to_do], plan_here.launcher.hosts_apart)
    except ConfigError as error:
        return Planned(part, why_not=" ".join(str(error).split()))
    return Planned(part, plan_here, "", tuple(runs), len(to_do), estimate(to_do, durations))


def show_experiments(planned: Sequence[Planned], console: Console) -> None:
    """Print the experiments to measure with their times, and those that cannot be measured here, with the reasons."""
    table = Table(box=None, header_style="bold", pad_edge=False)  # 80 characters wide at most
    for head in ("experiment", "points", "launches", "left", "time"):
        table.add_column(head, justify="left" if head in ("experiment", "time") else "right", no_wrap=True)
    table.add_column("of the report")
    for item in (item for item in planned if not item.why_not):
        numbers = map(str, (item.plan.spanned if item.plan else "", len(item.runs), item.to_do))
        table.add_row(item.part.experiment, *numbers, item.estimate.text(), escape(item.part.figures))
    console.print(table)
    all_s = math.fsum(item.estimate.all_s for item in planned)
    assumed = any(item.estimate.assumed_s for item in planned)
    source = " (assumed: of launches like none made here, each launcher.assumed_run_s; of rounds their budget)"
    show(f"in all {duration(all_s)} at most{source if assumed else ''}")
    for item in planned:
        if item.why_not:
            show(f"cannot run here: {item.part.experiment}: {item.why_not}")
        for why in item.left_out if not item.why_not else ():
            show(f"left out of {item.part.experiment}: {why}")


def measure_experiment(planned: Planned, overrides: Sequence[str], force: bool, console: Console) -> ExperimentOutcome:
    """Carry out the plan of an experiment; returns the outcome. Raises Interrupted."""
    if planned.plan is None:
        return outcome(planned)
    began = time.monotonic()
    execute.show_plan(planned.plan, console)
    try:
        options = Options(tuple(planned.part.overrides(overrides)), force=force)
        status = execute.carry_out(planned.plan, options, console)
    except (ConfigError, OSError) as error:
        show(f"error: {error}", file=sys.stderr)
        status = 2
    if status > 128:
        raise Interrupted(status - 128)
    return outcome(planned, status, time.monotonic() - began)


def outcome(planned: Planned, status: int | None = None, took_s: float = 0.0) -> ExperimentOutcome:
    """Return the outcome of an experiment. status: of `execute.carry_out`; None if it was not begun."""
    part, launches = planned.part, len(planned.runs)
    if planned.plan is None:
        return ExperimentOutcome(part.experiment, part.shows, "not run", planned.why_not)
    missing = len(remaining(planned.runs, force=False)[0])
    count = launches - missing
    submitted = isinstance(planned.plan.launcher, BatchLauncher)
    state: Status = "submitted" if submitted and status == 0 else "failed"
    why = f"{missing} of {launches} launches have no complete record"
    # After a success launches may be missing for lack of time.
    if not missing or (status == 0 and count > 0 and not submitted):
        state, why = "measured", ""
    elif status is None:
        state, why = "not run", "interrupted before it"
    return ExperimentOutcome(
        part.experiment, part.shows, state, why, planned.left_out, count, launches, round(took_s, 1)
    )


def reproduce(report: str, planned: Sequence[Planned], overrides: Sequence[str], force: bool, results: Path) -> int:
    """Measure the planned experiments and write their outcomes; returns the exit status: 1 if a launch failed."""
    console = Terminal()
    outcomes: list[ExperimentOutcome] = []
    status = 0
    try:
        for item in planned:
            if not item.why_not:
                show(f"\n== {item.part.experiment}: {item.part.shows}")
            outcomes.append(measure_experiment(item, overrides, force, console))
    except Interrupted as interruption:
        status = 128 + interruption.signal
        show("interrupted: the same command goes on from here")
    outcomes += [outcome(item) for item in planned[len(outcomes) :]]
    reproduction.write_reproduction(Reproduction(report, outcomes), results)
    return status or int(any(result.status == "failed" for result in outcomes))


def main() -> int:
    """Show the plan, and unless it is a dry run measure it; returns the exit status."""
    files.source_files()  # as they are when the command begins
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
    show_experiments(planned, Terminal())
    if arguments.dry_run:
        return 0
    composed = compose.read_experiment(arguments.overrides).composed
    results = Path(composed.results)
    check_results(results, composed.system.trust_others)
    affinity.use(composed.system.smt)
    return reproduce(arguments.report, planned, arguments.overrides, arguments.force, results)


if __name__ == "__main__":
    with printable_output():
        sys.exit(reported(main))
