"""What is shown before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from train.launch.plan.point import Point
from train.record.printable import escaped
from train.record.progress import duration


class Terminal(Console):
    """The output of a command: a console whose texts hold no control character."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Return what is written of an object: its texts escaped, and Rich's own control codes as they are."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))


def show_points(points: Sequence[Point], console: Console) -> None:
    """Print a table of the points."""
    table = Table(box=None, header_style="bold")
    table.add_column("point", no_wrap=True)
    for head in ("ranks", "cores a node", "threads a rank", "batch a rank", "global batch"):
        table.add_column(head, justify="right")
    table.add_column("steps", justify="right", no_wrap=True)
    for point in points:
        table.add_row(point.name, *_cells(point))
    console.print(table)
    single = [point for point in points if not point.config.launch.rounds]
    launches = sum(point.config.measure.repeats for point in single)
    if single:
        counted = f"{_count(len(single), 'point')}, {_count(launches, 'launch', 'launches')}"
        console.print(f"{counted}: every repeat is a separate launch")
    curves = [point for point in points if point.config.launch.rounds]
    show_lines("", [*curve_lines(curves), effort_line((curves or single)[0], bool(curves))], console)


def effort_line(point: Point, in_rounds: bool) -> str:
    """Return what MEASURE stands for here, with the keys by which ARGS changes each value."""
    measure = point.config.measure
    keys = ["repeats", "design", *(("precision_fraction", "curve_budget_s") if in_rounds else ())]
    values = " ".join(f"measure.{key}={getattr(measure, key)}" for key in keys)
    budget = ", measure.budget_s=SECONDS for the whole command" if in_rounds else ""
    return f"MEASURE={measure.name} is {values}; ARGS changes each of them{budget}"


def curve_lines(curves: Sequence[Point]) -> list[str]:
    """Return what a user should know of the curves that are measured in rounds; empty without any."""
    if not curves:
        return []
    asked = curves[0].config.measure
    grouped = [curve for curve in curves if curve.config.launch.rank_groups]
    together = [curve.name for curve in grouped if curve.config.launch.rank_groups_at_once]
    in_turn = [curve.name for curve in grouped if curve.name not in together]
    all_s = sum(curve.config.measure.curve_budget_s for curve in curves)
    lines = [
        f"{_count(len(curves), 'curve')} in rounds, {_count(asked.repeats, 'launch', 'launches')} or more of each, "
        f"spread over about {duration(all_s)}, or until each ratio is known to ± {100 * asked.precision_fraction:g} %"
    ]
    for curve in curves:
        arms = curve.config.launch.rounds
        if "nodes" not in arms[0].swept:  # else its points are in the table: they have separate launches too
            lines.append(f"{curve.name}: {', '.join(arm.name for arm in arms)}")
    if together:
        lines.append(f"{', '.join(together)}: in separate processes at the same time, on cores that they swap")
    if in_turn:
        lines.append(f"{', '.join(in_turn)}: in separate processes, in turn on the same cores")
    return lines


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _cells(point: Point) -> list[str]:
    config = point.config
    cores = config.system.cpus_per_node or config.system.cores_per_node
    ranks, servers = config.ranks_of_job, config.distribution.server_nodes
    shown = f"{ranks - servers} + {servers} server{'s' * (servers > 1)}" if servers else str(ranks)
    numbers = [shown, str(cores), str(config.threads_per_rank)]
    if config.allreduce_sweep:
        return [*numbers, "", "", f"{len(config.allreduce_sweep.sizes_bytes)} sizes"]
    if config.launch.rounds:
        return [*numbers, "", "", f"rounds of {len(config.launch.rounds)}"]
    steps = f"{config.measure.epochs} epochs" if config.measure.epochs else str(config.measure.timed_steps)
    passes = config.distribution.backward_passes_per_step
    batch = f"{config.batch_per_rank}{f' x {passes}' if passes > 1 else ''}"
    return [*numbers, batch, str(config.global_batch), steps]


def show_lines(kind: str, lines: Iterable[str], console: Console) -> None:
    """Print lines with what they are in front, as `[red]error:[/red]`."""
    for line in lines:
        console.print(f"{kind} {escape(line)}" if kind else escape(line), highlight=False)
