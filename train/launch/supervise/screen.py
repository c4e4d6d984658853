"""What a user sees while runs are made: how far the one in progress is, how many are made, what came of each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from train.launch.plan.queue import Queue
from train.launch.plan.runs import Run
from train.launch.supervise.one_run import Watch
from train.record import progress
from train.record.progress import Config, Follower, RunProgress, duration
from train.record.record import RunRecord

READ_EVERY_S = 5.0  # reading takes time from the ranks that share the machine
SHOW_EVERY_S = {True: 1.0, False: 60.0}  # on a terminal one line that changes; else, as in a log, a line a minute


def teller(folder: Path, config: Config, show: Callable[[str], None], every_s: float) -> Callable[[], None]:
    """Return a function to call while the job runs: every so many seconds it shows how far the run has come."""
    follower, begin = Follower(folder), time.monotonic()
    state: RunProgress | None = None
    read_at, shown_at = begin - READ_EVERY_S, begin

    def look() -> None:
        nonlocal state, read_at, shown_at
        now = time.monotonic()
        if now - shown_at < every_s:
            return
        shown_at = now
        if now - read_at >= READ_EVERY_S:
            read_at = now
            with contextlib.suppress(OSError):  # a shared folder may be away for a while: the run goes on
                state = progress.run_progress(follower, config)
        show(progress.progress_line(state, time.time()) if state else f"starting for {progress.duration(now - begin)}")

    return look


class _UnderWay(TextColumn):
    """The one column that gives way on a narrow terminal, cut off at its end: the table would wrap it instead."""

    def render(self, task: Task) -> Text:
        """Return the text of a task."""
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


def progress_line(console: Console, runs: int) -> Progress:
    """Return the line at the bottom of a terminal: the run in progress, how many are made, the time passed and left."""
    fixed = [
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True)),
    ]
    columns = (_UnderWay("{task.description}", table_column=Column(ratio=1)), *fixed)
    # Each refresh takes time from ranks that share the machine.
    return Progress(*columns, console=console, disable=not runs, expand=True, refresh_per_second=1)


class Screen:
    """The console while the runs of a queue are made."""

    def __init__(self, console: Console, queue: Queue) -> None:
        """Say what is known before the first run."""
        self._console, self._queue = console, queue
        self._line = progress_line(console, len(queue.runs))
        self._bar = self._line.add_task("", total=len(queue.runs), left="")
        self._notes: set[str] = set()
        for text in queue.remarks():
            self._say(text)

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Show the line at the bottom of a terminal while the block runs."""
        with self._line:
            yield
            self._line.update(self._bar, description="done", left="")

    def begin(self, run: Run) -> Watch:
        """Name the run that begins; return what shows how far it is."""
        self._line.update(self._bar, description=run.label)
        all_s = self._queue.expected_s() if self._queue.later else None
        ends_at = None if all_s is None else time.monotonic() + all_s

        def show(text: str) -> None:
            if self._console.is_terminal:
                left = f"all {duration(max(0.0, ends_at - time.monotonic()))}" if ends_at else ""
                self._line.update(self._bar, description=escape(f"{run.label}: {text}"), left=left)
            else:
                self._say(f"{run.label}: {text}")

        every_s = SHOW_EVERY_S[self._console.is_terminal]
        return lambda folder, asked: teller(folder, asked.config, show, every_s)

    def skip(self, run: Run, why: str) -> None:
        """Say that a run is not made, and why."""
        self._say(f"{run.label}: not made, {why}")
        self._line.advance(self._bar)

    def end(self, run: Run, record: RunRecord | None, problem: str | None) -> None:
        """Say what came of a run: its notes, the problem if there is one, what its curve came to."""
        for note in record.notes if record else ():
            if note not in self._notes:
                self._notes.add(note)
                self._say(f"{run.label}: {note}")
        if problem:
            self._console.print(f"[red]error:[/red] {escape(problem)}", highlight=False)
        elif record and not self._console.is_terminal:
            number = f"{self._queue.number + 1}/{len(self._queue.runs)}"
            self._console.print(escape(f"[{number}] {run.label}: {record.job_s:.0f} s; {self._queue.time_left()}"))
        if not problem and (result := self._queue.curve_result(run)):
            self._say(result)
        self._line.update(self._bar, total=len(self._queue.runs))
        self._line.advance(self._bar)

    def _say(self, text: str) -> None:
        self._console.print(escape(text), highlight=False)
