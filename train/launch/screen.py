"""The output for the user: the plan before anything starts, the progress of runs, the result of each."""

import contextlib
import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.constrain import Constrain
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from common.printable import escaped, unescaped_output
from common.terminal import columns, counted, prose
from common.typed_commands import changed
from record import clock, progress
from record.progress import Config, Follower, RunProgress, duration
from record.recorded_config import has_batch
from record.schema import RunRecord
from train.config import program
from train.launch import curve_table
from train.launch.plan import program_launches
from train.launch.plan.planned_runs import PlannedPoint, Run
from train.launch.plan.queue import Queue
from train.launch.supervise.one_run import Watch

READ_EVERY_S = 5.0  # reading takes time from the ranks that share the machine
LAST_LINES = "LAST_LINES"  # variable of train/make.py: the file for lines that end the command of the user
SHOW_EVERY_S = {True: 1.0, False: 60.0}  # on a terminal a line that changes; in a log or with TERM=dumb a line a minute
WARNING, LEFT_OUT, ERROR = "[yellow]warning:[/yellow]", "[yellow]left out:[/yellow]", "[red]error:[/red]"

_NARROW_COLUMNS = 60  # of a terminal on which the table of points leaves out cores and threads


class Terminal(Console):
    """The output of a command: a console whose texts hold no control character."""

    def __init__(self, **options: Any) -> None:
        """Write to standard output. options: as of Console."""
        # The file is named, because within a live display `sys.stdout` is a proxy of Rich that leads to our escapes.
        super().__init__(file=unescaped_output(), **options)
        if not self.is_terminal and "width" not in options:
            self.width = columns()

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Return the segments of an object: texts are escaped, Rich's own control codes are not."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))


def show_points(points: Sequence[PlannedPoint], console: Console) -> None:
    """Print a table of the points. On a narrow terminal names and headings are folded."""
    heads = ("point", "ranks", "cores a node", "threads a rank", "batch a rank", "global batch", "steps")
    cells = [(point.name, *_cells(point)) for point in points]
    table = Table(box=None, header_style="bold", pad_edge=False)
    columns = [0, 1, 4, 5, 6] if console.width < _NARROW_COLUMNS else [*range(len(heads))]
    columns = [column for column in columns if any(row[column] for row in cells)]
    table.add_column(heads[0], overflow="fold")
    for column in columns[1:]:
        width = max(len(word) for text in (heads[column], *(row[column] for row in cells)) for word in text.split())
        table.add_column(heads[column], justify="right", min_width=width)
    for row in cells:
        table.add_row(*(Text(row[column]) for column in columns))
    console.print(table)
    single = [point for point in points if not point.config.launch.rounds]
    curves = [point for point in points if point.config.launch.rounds]
    lines = [*([single_line(single)] if single else []), *(curve_lines(curves) if curves else [])]
    show_lines("", [*lines, effort_line((curves or single)[0])], console)
    own = points[0].config.program
    if own and own.name == program.name(own.command):  # the kit took it from the command
        name = f"{own.name}: the program's name in tables and figures; ARGS=program.name=NAME gives another"
        show_lines("", [name], console)


def curve_plan_lines(points: Sequence[PlannedPoint]) -> list[str]:
    """Return what is measured, as three lines, if all points are curves over nodes; else nothing."""
    if not all(curve_table.over_nodes(point) for point in points):
        return []
    config = points[0].config
    models = ", ".join(dict.fromkeys(point.config.model.name for point in points))
    nodes = ", ".join(str(arm.nodes) for arm in curve_table.over_nodes(points[0]))
    cores = config.system.cpu_quota_per_node or config.system.cores_per_node or 1
    return [
        f"{config.experiment}: {models} on {nodes} nodes of {counted(cores, 'core')}",
        *curve_lines(points)[:1],
        "DRY_RUN=1 shows the settings, and the command of each launch",
    ]


def effort_line(point: PlannedPoint) -> str:
    """Return the values that MEASURE stands for here, with the keys by which ARGS changes each."""
    measure = point.config.measure
    in_rounds = bool(point.config.launch.rounds)
    keys = ["repeats", "design"]
    if in_rounds or point.config.program:
        keys += ["precision_fraction", "curve_budget_s" if in_rounds else "budget_s"]
    values = " ".join(f"measure.{key}={getattr(measure, key)}" for key in keys)
    budget = ", measure.budget_s=SECONDS for the whole command" if in_rounds else ""
    return f"MEASURE={measure.name} is {values}; ARGS changes each of them{budget}"


def single_line(points: Sequence[PlannedPoint]) -> str:
    """Return the number of launches of points with separate launches."""
    launches = sum(point.config.measure.repeats for point in points)
    counts = f"{counted(len(points), 'point')}, {counted(launches, 'launch')}"
    measure = points[0].config.measure
    if not points[0].config.program:
        return f"{counts}: every repeat is a separate launch"
    until = f"until each speedup is known to ± {100 * measure.precision_fraction:g} %, or another of each"
    return f"{counts} or more, {until} would take more than {duration(program_launches.budget_s(measure))}"


def curve_lines(curves: Sequence[PlannedPoint]) -> list[str]:
    """Return notes on the curves that are measured in rounds."""
    measure = curves[0].config.measure
    grouped = [curve for curve in curves if curve.config.launch.rank_groups]
    at_once = [curve.name for curve in grouped if curve.config.launch.rank_groups_at_once]
    in_turn = [curve.name for curve in grouped if curve.name not in at_once]
    lines = [
        f"{counted(len(curves), 'curve')} in rounds, {counted(measure.repeats, 'launch')} or more of each, "
        f"until each ratio is known to ± {100 * measure.precision_fraction:g} % or the time is over"
    ]
    for curve in curves:
        arms = curve.config.launch.rounds
        if "nodes" not in arms[0].swept:  # else its points are in the table: they have separate launches too
            lines.append(f"{curve.name}: {', '.join(arm.name for arm in arms)}")
    if at_once:
        lines.append(f"{', '.join(at_once)}: in separate processes at the same time, on cores that they swap")
    if in_turn:
        lines.append(f"{', '.join(in_turn)}: in separate processes, in turn on the same cores")
    return lines


def _cells(point: PlannedPoint) -> list[str]:
    config = point.config
    cores = config.system.cpu_quota_per_node or config.system.cores_per_node
    ranks, servers = config.ranks_of_job, config.distribution.server_nodes
    processes = f"{ranks - servers} + {counted(servers, 'server')}" if servers else str(ranks)
    numbers = [processes, str(cores), str(config.threads_per_rank)]
    if config.allreduce_sweep:
        return [*numbers, "", "", f"{len(config.allreduce_sweep.sizes_bytes)} sizes"]
    if config.launch.rounds:
        return [*numbers, "", "", f"rounds of {len(config.launch.rounds)}"]
    if config.program:
        known = has_batch(config.program.command)
        return [*numbers, *(str(batch) if known else "" for batch in (config.batch_per_rank, config.global_batch)), ""]
    steps = f"{config.measure.epochs} epochs" if config.measure.epochs else str(config.measure.timed_steps)
    passes = config.distribution.backward_passes_per_step
    batch = f"{config.batch_per_rank}{f' x {passes}' if passes > 1 else ''}"
    return [*numbers, batch, str(config.global_batch), steps]


def show_lines(kind: str, lines: Iterable[str], console: Console) -> None:
    """Print lines, each with its kind in front, as `[red]error:[/red]`."""
    label = Text.from_markup(f"{kind} " if kind else "")
    for line in lines:
        # A path or command that is longer than the terminal stays whole, to be copied.
        console.print(label + prose(label.plain + line)[len(label.plain) :], soft_wrap=True)


def progress_reporter(
    folder: Path, config: Config, show: Callable[[str], None], every_s: float, results: bool
) -> Callable[[], None]:
    """Return a function to call often while the job runs: every so many seconds it shows the progress.

    results: with what is measured so far.
    """
    follower, begin = Follower(folder), time.monotonic()
    state: RunProgress | None = None
    read_at, shown_at = begin - READ_EVERY_S, begin

    def report() -> None:
        nonlocal state, read_at, shown_at
        now = time.monotonic()
        if now - shown_at < every_s:
            return
        shown_at = now
        if now - read_at >= READ_EVERY_S:
            read_at = now
            with contextlib.suppress(OSError):  # a shared folder may be unavailable for a while: the run goes on
                state = progress.run_progress(follower, config)
        line = progress.progress_line(state, time.time(), results) if state else ""
        show(line or f"starting for {progress.duration(now - begin)}")

    return report


class _RunColumn(TextColumn):
    """The column that is shortened on a narrow terminal, at its end: the table would wrap it instead."""

    def render(self, task: Task) -> Text:
        """Return the text of a task."""
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


class _TimeColumn(ProgressColumn):
    """The time that has passed, and the time that all runs are expected to take."""

    def render(self, task: Task) -> Text:
        """Return the text of a task, as "33 s of 2 min"."""
        elapsed_s, all_s = task.elapsed or 0.0, task.fields["all_s"]
        return Text(duration(elapsed_s) + (f" of {duration(max(all_s, elapsed_s))}" if all_s else ""))


class ProgressLine(Progress):
    """The last lines of a terminal: a table, if there is one, and below it the current run and the time."""

    def __init__(self, console: Console, runs: int, table: Callable[[], RenderableType] | None = None) -> None:
        """Show nothing without runs. table: is called at each refresh."""
        self._table = table
        self._terminal = console  # Rich draws once before it has set its own
        fixed = (MofNCompleteColumn(table_column=Column(no_wrap=True)), _TimeColumn(table_column=Column(no_wrap=True)))
        columns = (_RunColumn("{task.description}", table_column=Column(ratio=1)), *fixed)
        # Each refresh takes time from ranks that share the machine.
        super().__init__(*columns, console=console, disable=not runs, expand=True, refresh_per_second=1)

    def get_renderable(self) -> RenderableType:
        """Return table and line; this leaves room for the echo of Ctrl-C, which would wrap it and leave it behind."""
        line = Constrain(super().get_renderable(), self._terminal.width - len("^C"))
        return Group(self._table(), line) if self._table else line


class Screen:
    """The console while the runs of a queue are made."""

    def __init__(self, console: Console, queue: Queue) -> None:
        """Show the remarks before the first run."""
        self._console, self._queue = console, queue
        curves = queue.curves()
        self._has_table = bool(curves) and all(curve_table.over_nodes(curve.point) for curve in curves)
        self._table: RenderableType = curve_table.table(curves) if self._has_table else ""
        # Computed when a launch has ended, and not at each refresh, which takes time from the ranks.
        self._line = ProgressLine(console, len(queue.runs), (lambda: self._table) if self._has_table else None)
        self._bar = self._line.add_task("", total=len(queue.runs), all_s=None)
        self._notes: set[str] = set()
        self._skips: set[tuple[str, str]] = set()
        self._has_read = False  # the number of a user's program: shown once
        self._began = time.monotonic()
        show_lines("", queue.remarks(), console)

    @contextlib.contextmanager
    def bottom_line(self) -> Iterator[None]:
        """Show the line at the bottom of a terminal while the block runs."""
        with self._line:
            yield
            self._line.update(self._bar, description="done", all_s=None)
            # `make` ends with the summary, which has the same speedups.
            self._line.live.transient = self._has_table and LAST_LINES in os.environ

    def _label(self, run: Run) -> str:
        """Return the name of a run, in the words of the table if it has a line there."""
        curves = self._queue.curves() if self._has_table else []
        planned = next((curve.planned for curve in curves if curve.point == run.point), None)
        return f"{run.point.config.model.name}, launch {run.repeat + 1} of {planned}" if planned else run.label

    def begin(self, run: Run) -> Watch:
        """Show the run that begins; return the watch that shows its progress."""
        all_s = time.monotonic() - self._began + self._queue.expected_s()
        label = self._label(run)
        self._line.update(self._bar, description=label, all_s=all_s)

        def show(text: str) -> None:
            if self._console.is_interactive:
                self._line.update(self._bar, description=escape(f"{label}: {text}"))
            else:
                show_lines("", [f"{label}: {text}"], self._console)

        every_s = SHOW_EVERY_S[self._console.is_interactive]
        results = not self._has_table  # which has them
        return lambda folder, assignment: progress_reporter(folder, assignment.config, show, every_s, results)

    def skip(self, run: Run, why: str) -> None:
        """Show that a run is skipped, and why."""
        if (run.point.name, why) not in self._skips:  # of several launches the first one
            self._skips.add((run.point.name, why))
            show_lines("", [f"{run.label}: not made, {why}"], self._console)
        self._line.advance(self._bar)

    def end(self, run: Run, record: RunRecord | None, problem: str | None) -> None:
        """Show the outcome of a run: its notes, the problem if there is one, the result of its curve."""
        notes = [note for note in record.notes if note not in self._notes] if record else []
        self._notes.update(notes)
        show_lines("", [f"{run.label}: {note}" for note in notes], self._console)
        if record and (launch := clock.program_launch(record)) and not self._has_read:
            self._has_read = True
            show_lines("", [f"read at {launch.text()}"], self._console)
        if problem:
            show_lines(ERROR, [problem], self._console)
        elif record and not self._console.is_interactive:
            number = f"{self._queue.number + 1}/{len(self._queue.runs)}"
            text = f"[{number}] {run.label}: {record.job_s:.0f} s; {self._queue.time_left()}"
            show_lines("", [text], self._console)
        if self._has_table:
            curves = self._queue.curves()
            self._table = curve_table.table(curves)
            if record and not problem and not self._console.is_interactive:
                lines = [curve_table.result_line(curve) for curve in curves if curve.point == run.point]
                show_lines("", lines, self._console)
        elif not problem and (result := self._queue.curve_result(run)):
            show_lines("", [result], self._console)
        self._line.update(self._bar, total=len(self._queue.runs))
        self._line.advance(self._bar)

    def less_precise(self, command: Sequence[str]) -> list[str]:
        """Return the results that are less precise than asked for, why, and how to go on; nothing if runs failed.

        Then the same command makes them again. command: as the user typed it.
        """
        if self._queue.failed or not (shortfalls := self._queue.shortfalls()):
            return []
        seconds = self._queue.sufficient_s(shortfalls)
        return [
            f"less precise than the ± {100 * self._queue.precision_fraction:g} % asked for:",
            *(short.line() for short in shortfalls),
            f"to go on, up to {duration(seconds)} in all:",
            shlex.join(changed(command, keys={"measure.budget_s": str(seconds)})),
        ]
