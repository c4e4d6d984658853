"""`summary`: what one experiment measured, as a table or as JSON, and where its figures are."""

import argparse
import sys
from pathlib import Path

import pandas as pd
from tabulate import tabulate

from analysis import documents, labels
from analysis.commands import arguments
from analysis.diagnose.paired_windows import curves
from analysis.diagnose.split import largest_loss, splits
from analysis.diagnose.text import largest_loss_line
from analysis.experiments import allreduce, equivalence, summary
from analysis.study import Study
from analysis.table import controls
from train.record import intervals


def declare_summary(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    arguments.add_experiment(parser)
    arguments.add_format(parser, "text", "json")
    parser.add_argument("--brief", action="store_true", help="only speedups over the nodes, in 100 columns")
    arguments.add_draw(parser)
    arguments.add_results(parser)


def run_summary(options: argparse.Namespace) -> int:
    """Print the table, draw on request, and say where the figures are; 1 where there is no complete run."""
    study = arguments.study(options)
    arguments.print_notices(study.left_out)
    folder = options.results / options.experiment
    arguments.print_notices(one for one in study.failed if Path(one.path).is_relative_to(folder))
    shown = study.local[study.local["experiment"] == options.experiment]
    if shown.empty:
        print(f"no complete run of {options.experiment} in {options.results}", file=sys.stderr)
        return 1
    if options.format == "json":
        print(documents.text(summary.as_json(shown)))
    else:
        brief = summary.speedup_rows(shown) if options.brief else []
        lines = _brief(options.experiment, study, shown, brief) if brief else _sections(options.experiment, shown)
        print("\n".join(lines))
    if options.draw:
        _draw(options, shown, study)
    return 0


def _brief(experiment: str, study: Study, shown: pd.DataFrame, rows: list[list[str]]) -> list[str]:
    """Return the lines to print about the speedups of an experiment over its nodes, and its largest losses."""
    lines = [
        f"{experiment} on {'; '.join(shown['machine'].unique())}",
        "in brackets: the 95 % interval, which covers other launches, or only other rounds of the same launch",
        "(repeatability: other launches may differ by more); another launch: where its speedup is expected",
        "",
        tabulate(rows, tablefmt="plain", disable_numparse=True),
    ]
    if emulated := controls.control_note(shown, labels.name):
        lines += ["", emulated]
    if losses := _largest_losses(study, shown):
        lines += ["", f"largest loss (what to try first: make diagnose EXPERIMENT={experiment})", *losses]
    return [*lines, "", f"all numbers: make summary EXPERIMENT={experiment}, or the page of make report"]


def _largest_losses(study: Study, shown: pd.DataFrame) -> list[str]:
    """Return a line for each curve whose largest point has a loss that is certainly the largest."""
    split_curves = [(curve, points[-1]) for curve in curves(shown, study.records) if (points := splits(curve))]
    lines = [largest_loss_line(curve, point, largest_loss(point)) for curve, point in split_curves]
    return [line for line in lines if line]


def _sections(experiment: str, shown: pd.DataFrame) -> list[str]:
    """Return the lines to print about an experiment."""
    lines = [f"{experiment} on {'; '.join(shown['machine'].unique())}", *_intervals(shown), ""]
    pairs = equivalence.pairs(shown) if shown["arm"].nunique() > 1 else []
    if pairs:
        lines.append(equivalence.summary(pairs))
    else:
        lines.append(tabulate(summary.rows(shown).fillna(""), headers="keys", showindex=False, disable_numparse=True))
    if shown["quantity"].eq("allreduce_s").any():
        title = "time and bus bandwidth [GB/s] by message size, mean over rounds"
        lines += ["", title, "", allreduce.by_size(shown)]
    if emulated := controls.control_note(shown, labels.name):
        lines += ["", emulated, f"images: {labels.image_sizes(shown)}"]
    if assumed := labels.assumptions(shown):
        lines += ["", *assumed]
    return lines


def _intervals(shown: pd.DataFrame) -> list[str]:
    """Return how to read the intervals."""
    lines = [f"in brackets: the 95 % interval; none of fewer than {intervals.MIN_VALUES} values"]
    in_rounds = shown[shown["round"].notna()]
    if in_rounds.empty:
        return lines
    if in_rounds.groupby("series")["record"].nunique().min() == 1:
        lines.append("one launch: the interval covers rounds within it (repeatability), not other launches")
    if shown["quantity"].eq("wall_s").any():
        lines.append(
            "wall time and job time: of the largest point from the launches in rounds, of the others from separate ones"
        )
    return lines


def _draw(options: argparse.Namespace, shown: pd.DataFrame, study: Study) -> None:
    """Draw the figures that show these rows, and say where they are."""
    from analysis.figures import files, registry

    figures, these = registry.figures(study.local), study.narrowed(shown)
    showing = [entry for entry in figures.values() if not entry.points(these).local.empty]
    drawn = files.draw(showing, study, options.out)
    files.write_captions(figures, study, options.out)
    arguments.print_figures(options, drawn)
