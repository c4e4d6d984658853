"""`predict`: what more ranks would give, with an interval that was checked on published curves."""

import argparse
import contextlib
import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pandas as pd

from analysis import TableError, documents
from analysis.commands import arguments, user_tables
from analysis.explain import FixedCosts, fixed_costs, wall_time_runs
from analysis.predict import Curve, calibration, joined, next_points, predicted_targets, reading
from analysis.predict.predicted_targets import Answer, JobQuestion
from analysis.study import Study
from analysis.user_table.table_contract import UserTable
from common.terminal import show


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        "FILE is any table (docs/tables.md) with numbers of ranks and rates, times, speedups or efficiencies; low and "
        "high are the ends of a 95 % interval of the rate."
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--file", type=Path, metavar="FILE", help="a table of points (default: published ones)")
    arguments.add(source, "--experiment")
    parser.add_argument(
        "--exchange", choices=reading.EXCHANGES,
        help="how the runs of --file exchange gradients (default: not known: a server may saturate beyond the points)",
    )  # fmt: skip
    arguments.add(parser, "--columns", "--models")
    parser.add_argument("--to", type=arguments.ranks, default=(16, 64, 256), metavar="N,N", help="default: 16,64,256")
    global_batch_help = "keep this global batch (strong scaling)"
    parser.add_argument("--global-batch", type=arguments.positive, metavar="N", help=global_batch_help)
    up_to_help = "use points of at most N ranks; larger ones that were measured check the prediction"
    parser.add_argument("--up-to", type=arguments.positive, default=math.inf, metavar="N", help=up_to_help)
    arguments.add(parser, "--images", "--epochs")
    price_help = "of an hour of a node: what that job costs"
    parser.add_argument("--price", type=arguments.positive, metavar="P", help=price_help)
    arguments.add(parser, "--format", "--draw", "--out", "--results")


def run(options: argparse.Namespace) -> int:
    """Print the predictions, or why there is none, their accuracy, and what to measure next; returns the status."""
    if options.exchange and not options.file:
        raise TableError("--exchange: of what runs? allowed: together with --file; of others it is known")
    if options.price and not options.images:
        raise TableError("--price: of what job? allowed: together with --images (and --epochs)")
    study = Study(options.results)
    curves, costs = _curves_and_costs(options, study)
    curves = _model_curves(curves, options.models)
    published = calibration.published_curves(study.published)
    if options.global_batch:
        curves = joined(curves)
    images = options.images and options.images * options.epochs
    question = JobQuestion(options.to, options.global_batch, images, options.price, options.up_to)
    predictions = [
        predicted_targets.answer(curve, question, published.learned_for(curve), costs.get((curve.model, curve.series)))
        for curve in curves
    ]
    if options.format == "json":
        print(documents.text([target for answer in predictions for target in answer.targets]))
    else:
        accuracy = calibration.accuracy_sentence(published.checks)
        if options.file or options.experiment:
            accuracy += f" {calibration.unknown_network_sentence(published.checks)}"
        print(predicted_targets.report(predictions, accuracy))
        for prediction in predictions if options.file or options.experiment else ():  # others lack these machines
            if advice := _advice(options, study, prediction, {curve.model for curve in published.curves}):
                print("", advice, sep="\n")
    if options.draw:
        _draw(options, predictions, published)
    return 0


def _curves_and_costs(options: argparse.Namespace, study: Study) -> tuple[list[Curve], FixedCosts]:
    """Return the curves to predict, and the fixed cost of a job of each if a job is to be predicted."""
    if options.file:
        read = user_tables.read_user_table(options.file, options.columns)
        notes = (f"note: {note}" for note in read.notes)
        show(*read.interpretation, *notes, file=arguments.notes_stream(options))
        return reading.file(read, options.exchange), _costs([read] if options.images else [])
    if not options.experiment:
        reports = [rows for _, rows in study.published.groupby("report", sort=False)]
        return calibration.published_curves(study.published).curves, _costs(reports if options.images else [])
    arguments.print_notices(study, experiment=options.experiment)
    rows = arguments.experiment_rows(options, study)
    curves = reading.local(rows)
    if not curves:
        raise TableError(
            f"{options.results}: experiment '{options.experiment}' has no curve on two numbers of ranks or more, which "
            f"a prediction needs"
        )
    return curves, _costs([rows[rows["kind"].eq("measured")]] if options.images else [])


def _costs(tables: Iterable[pd.DataFrame | UserTable]) -> FixedCosts:
    """Return the fixed costs of tidy tables and a user's; none of one that lacks what the split needs."""
    costs: FixedCosts = {}
    for table in tables:
        with contextlib.suppress(TableError):
            runs, _ = (
                wall_time_runs.table_runs(table) if isinstance(table, UserTable) else wall_time_runs.points(table, "")
            )
            costs |= fixed_costs(runs)
    return costs


def _model_curves(curves: list[Curve], models: list[str] | None) -> list[Curve]:
    """Return the curves of these models, or all. Raises TableError if a model has none."""
    available = sorted({curve.model for curve in curves})
    if absent := [model for model in models or () if model not in available]:
        raise TableError(f"--models: no curve of '{absent[0]}'; allowed: {', '.join(available)}")
    return [curve for curve in curves if not models or curve.model in models]


def _typed_command(study: Study, curve: Curve) -> list[str]:
    """Return the command of make that measured a curve last, for its model alone; empty if records do not say it."""
    rows = study.local[study.local["series"].eq(curve.series)].sort_values("started_at")
    run = study.records[rows["record"].iloc[-1]]
    if run.program:
        return run.typed_command or ["make", "scaling", "COMMAND=..."]
    words = [word for word in run.typed_command if not word.startswith("MODELS=")]
    return [*words, f"MODELS={curve.model}"] if words else []


def _advice(options: argparse.Namespace, study: Study, prediction: Answer, kit_models: set[str]) -> str:
    """Return what to measure next for a curve of the user; kit_models: that the kit can measure."""
    curve, experiment = prediction.curve, options.experiment
    if not experiment and curve.model in kit_models:
        experiment = "strong_scaling" if curve.strong else "weak_scaling"
    typed = _typed_command(study, curve) if options.experiment else []
    fixed_s = max(prediction.fixed_s.value, 0.0) if prediction.fixed_s else 0.0
    return next_points.advice(curve, options.to, experiment or "", typed, fixed_s)


def _draw(options: argparse.Namespace, predictions: list[Answer], published: calibration.PublishedCurves) -> None:
    from analysis.figures import figure_files, prediction_figure

    if not any(target.supported for prediction in predictions for target in prediction.targets):
        return
    arguments.show_figures(options, ["predicted"])
    figure_files.save("predicted", partial(prediction_figure.draw, predictions, published.learned_for), options.out)
