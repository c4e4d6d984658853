"""`summary`: what one experiment measured."""

import argparse
import json

import pandas as pd

from analysis import TableError, atlas, documents, labels
from analysis.commands import arguments
from analysis.diagnose.diagnosis_text import largest_losses
from analysis.diagnose.split import split_curves
from analysis.experiments import allreduce_points, equivalence, exports, summary_points
from analysis.study import Study
from analysis.table import controls
from common.grouping import grouped
from common.terminal import paragraph, text_table
from record import clock


def declare(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "experiment")
    arguments.add(parser, "--format", choices=("text", "json", *exports.FORMATS))
    parser.add_argument("--brief", action="store_true", help="only speedups over the nodes")
    parser.add_argument("--all-rounds", action="store_true", help="count also those that other processes disturbed")
    arguments.add(parser, "--draw", "--out", "--results")


def run(options: argparse.Namespace) -> int:
    """Print the table, draw on request, and print where the figures are. Raises TableError without a complete run."""
    study = Study(options.results, all_rounds=options.all_rounds)
    arguments.print_notices(study, study.failed, options.experiment)
    rows = arguments.experiment_rows(options, study)
    if options.format == "json":
        print(documents.text(summary_points.answer(rows)))
    elif options.format in exports.FORMATS:
        if rows["quantity"].eq("allreduce_s").any():
            raise TableError(f"--format {options.format}: it takes points that train, not allreduces; give json")
        document = json.loads(documents.text(summary_points.answer(rows)))
        print(exports.FORMATS[options.format](document), end="")
    else:
        speedups = summary_points.speedup_rows(rows) if options.brief else pd.DataFrame()
        paragraphs = (
            [*_paragraphs(rows), *_cores_used(study, rows)] if speedups.empty else _brief(study, rows, speedups)
        )
        title = _prose(f"{options.experiment} on {'; '.join(rows['machine'].unique())}")
        print("\n".join([title, "\n\n".join(filter(None, paragraphs))]))
    if options.draw:
        _draw(options, rows, study)
    return 0


def _prose(*lines: str) -> str:
    return "\n".join(map(paragraph, filter(None, lines)))


def _brief(study: Study, rows: pd.DataFrame, speedups: pd.DataFrame) -> list[str]:
    """Return what to print about the speedups of an experiment over its nodes, and its largest losses."""
    experiment = rows["experiment"].iloc[0]
    losses = largest_losses(split_curves(rows, study.records))
    interval = f"in brackets: the {labels.interval_meaning(rows)}"
    notes = _prose(interval, labels.rounds_left_out(rows), controls.control_note(rows, labels.name))
    return [
        f"{text_table(speedups)}\n\n{notes}",
        _prose("largest loss:", *losses) if losses else "",
        _prose(*atlas.placements(rows)),
        f"what to try first: make diagnose EXPERIMENT={experiment}",
    ]


def _paragraphs(rows: pd.DataFrame) -> list[str]:
    """Return what to print about all numbers of an experiment."""
    pairs = equivalence.pairs(rows) if rows["arm"].nunique() > 1 else []
    table = summary_points.rows(rows)
    paragraphs = [equivalence.summary(pairs)] if pairs else [_prose(*_legend(rows, table)), text_table(table)]
    if rows["quantity"].eq("allreduce_s").any():
        title = "time and bus bandwidth [GB/s] by message size, mean over rounds"
        paragraphs += [title, allreduce_points.by_size(rows)]
    if emulated := controls.control_note(rows, labels.name):
        paragraphs += [_prose(emulated, f"images: {labels.image_sizes(rows)}")]
    if left_out := labels.rounds_left_out(rows):
        paragraphs += [_prose(f"{left_out}; with them: ALL_ROUNDS=1")]
    return [*paragraphs, _prose(*labels.assumptions(rows))]


def _cores_used(study: Study, rows: pd.DataFrame) -> list[str]:
    """Return how many of its cores each user's program used at each size, as one with threads that stood idle."""
    runs = [run for run in study.records.values() if run.experiment == rows["experiment"].iloc[0] and run.printed]
    programs = grouped(
        sorted(runs, key=lambda run: (run.workers, run.repeat)), lambda run: run.config["program"]["name"]
    )
    return [_prose(*(f"{name}: {clock.cores_used(launches)}" for name, launches in programs.items()))]


def _legend(rows: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """Return what the brackets and columns of a table mean, as far as it has them."""
    has_intervals = table.astype(str).apply(lambda column: column.str.contains(r" \(.* to ")).any(axis=None)
    brackets = f"in brackets: the {labels.interval_meaning(rows)}; without one: too few rounds or launches"
    lines = [brackets] if has_intervals else []
    if rows["round"].notna().any() and any("wall time" in str(column) for column in table):
        lines += ["wall time and job time: of the largest point from its rounds, else from separate launches"]
    return lines


def _draw(options: argparse.Namespace, rows: pd.DataFrame, study: Study) -> None:
    from analysis.figures import figure_files, registry

    figures, selected = registry.figures(study.local), study.narrowed(rows)
    entries = [entry for entry in figures.values() if not entry.points(selected).local.empty]
    arguments.show_figures(options, [entry.id for entry in entries])
    figure_files.draw(entries, study, options.out)
    figure_files.write_captions(figures, study, options.out)
