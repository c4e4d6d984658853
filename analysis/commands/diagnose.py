"""`diagnose`: where the time of a training step goes, as text, as JSON and as a figure."""

import argparse
import json
import sys

import pandas as pd

from analysis import TableError
from analysis.commands import arguments
from analysis.diagnose import comparison, jobs, text
from analysis.diagnose.comparison import comparisons
from analysis.diagnose.paired_windows import Curve, curves
from analysis.diagnose.split import Split, splits
from analysis.diagnose.verdicts import LargestLoss, SlowestRank, largest_loss, slowest_rank
from analysis.study import Study


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    arguments.add_experiment(parser)
    arguments.add_models(parser)
    arguments.add_format(parser, "text", "json")
    arguments.add_draw(parser)
    arguments.add_results(parser)


def run(options: argparse.Namespace) -> int:
    """Print the diagnosis of each curve of an experiment; 1 where there is none. Raises TableError without a record."""
    study = arguments.study(options)
    arguments.print_notices(study.left_out)
    shown = _chosen(options, study.local)
    split_curves = [(curve, points) for curve in curves(shown, study.records) if (points := splits(curve))]
    if not split_curves:
        print(f"{options.experiment}: {_why_not(shown)}", file=sys.stderr)
        return 1
    if options.format == "json":
        document = {
            "curves": [text.as_json(curve, points, *_verdicts(curve, points)) for curve, points in split_curves],
            "comparisons": [one.as_json() for one in comparisons(split_curves)],
            "jobs": [job.as_json() for job in jobs.jobs(shown)],
        }
        print(json.dumps(document, indent=1, allow_nan=False))
    else:
        print("\n\n".join(_sections(shown, split_curves)))
    if options.draw:
        _draw(options, study.narrowed(shown))
    return 0


def _verdicts(curve: Curve, points: list[Split]) -> tuple[LargestLoss, SlowestRank | None]:
    """The verdicts on the largest point."""
    return largest_loss(points[-1]), slowest_rank(curve, points[-1].point)


def _sections(shown: pd.DataFrame, split_curves: list[tuple[Curve, list[Split]]]) -> list[str]:
    """The printed sections: each comparison of arms, each other curve, the jobs, and how to read the numbers."""
    compared = comparisons(split_curves)
    sections = [comparison.report(one) for one in compared]
    for curve, points in split_curves:
        if not any(curve is arm for one in compared for arm, _ in one.arms):
            sections.append(text.report(curve, points, *_verdicts(curve, points)))
    if single := jobs.jobs(shown):
        sections.append("where the time of a whole job goes, from launches of single points\n\n" + jobs.table(single))
    return [*sections, "in brackets: the 95 % interval; docs/diagnose.md: how each part is measured"]


def _chosen(options: argparse.Namespace, local: pd.DataFrame) -> pd.DataFrame:
    """The rows of the experiment, and of the models that were asked for. Raises TableError where there are none."""
    name = options.experiment.replace("-", "_")
    rows = local[local["experiment"].eq(name)]
    if rows.empty:
        available = ", ".join(sorted(set(local["experiment"]))) or "none"
        raise TableError(f"{options.results}: no complete run of experiment '{name}' (there are: {available})")
    models = options.models if options.models else sorted(rows["model"].unique())
    if missing := sorted(set(models) - set(rows["model"])):
        available = ", ".join(sorted(rows["model"].unique()))
        raise TableError(f"{options.results}, {name}: no record of model {', '.join(missing)} (there are: {available})")
    return rows[rows["model"].isin(models)]


def _why_not(shown: pd.DataFrame) -> str:
    """Why nothing can be split."""
    axes = sorted(set(shown["axis"]) - {""})
    if "nodes" not in axes:
        return f"it varies {', '.join(axes) or 'nothing'}; a step is split along the number of nodes"
    return "no round or repeat has both the fewest nodes and more"


def _draw(options: argparse.Namespace, study: Study) -> None:
    """Draw the figure of the study's rows, and say where it is."""
    from analysis.figures import files
    from analysis.figures.diagnosis import DIAGNOSIS
    from analysis.figures.entry import LOCAL, Entry

    id = f"{LOCAL}-{options.experiment.replace('_', '-')}-{DIAGNOSIS.name}"
    entry = Entry(id, DIAGNOSIS.shows, DIAGNOSIS.caption, DIAGNOSIS.draw, local=DIAGNOSIS.where, reads_records=True)
    drawn = files.draw([entry], study, options.out)
    where = arguments.beside(options)
    print("\nfigure:", *(f"  {options.out / name}.{{pdf,png,svg}}" for name in drawn), sep="\n", file=where)
