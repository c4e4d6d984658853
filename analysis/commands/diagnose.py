"""`diagnose`: where the time of a training step goes."""

import argparse
import sys
from collections.abc import Sequence
from typing import Annotated

import pandas as pd

from analysis import documents, labels
from analysis.commands import arguments
from analysis.diagnose import comparison, diagnosis_text
from analysis.diagnose.comparison import ArmComparison, comparisons
from analysis.diagnose.paired_windows import CurveTimes
from analysis.diagnose.split import JobPhases, Split, job_table, jobs, split_curves
from analysis.documents import Document, about
from analysis.study import Study
from common.terminal import paragraph, show


class Diagnosis(Document):
    """The parts of the steps and jobs of an experiment."""

    curves: Annotated[Sequence[diagnosis_text.DiagnosedCurve], about("one for each series of a model")]
    comparisons: Annotated[Sequence[ArmComparison], about("of arms in separate launches, by model and nodes")]
    jobs: Annotated[Sequence[JobPhases], about("one for each point with separate launches")]


def declare(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "experiment", "--models", "--format", "--draw", "--out", "--results")


def run(options: argparse.Namespace) -> int:
    """Print the diagnosis of each curve of an experiment; returns 1 without any. Raises TableError without a record."""
    study = Study(options.results)
    arguments.print_notices(study, experiment=options.experiment)
    rows = arguments.experiment_rows(options, study, steps=True)
    by_curve = split_curves(rows, study.records)
    if not by_curve:
        show(f"{options.experiment}: {_why_not(rows)}", file=sys.stderr)
        return 1
    if options.format == "json":
        diagnosis = Diagnosis(
            curves=[diagnosis_text.answer(*curve) for curve in by_curve],
            comparisons=[comparison.answer(compared) for compared in comparisons(by_curve)],
            jobs=jobs(rows),
        )
        print(documents.text(diagnosis))
    else:
        print("\n\n".join(_sections(rows, by_curve)))
    if options.draw:
        _draw(options, study.narrowed(rows))
    return 0


def _sections(rows: pd.DataFrame, by_curve: list[tuple[CurveTimes, list[Split]]]) -> list[str]:
    """Return the sections to print: each comparison of arms, each other curve, the jobs, how to read the numbers."""
    comparison_list = comparisons(by_curve)
    sections = [comparison.report(compared) for compared in comparison_list]
    for curve, points in by_curve:
        if not any(curve is arm for compared in comparison_list for arm, _ in compared.arms):
            sections.append(diagnosis_text.report(diagnosis_text.answer(curve, points)))
    if single := jobs(rows):
        sections.append("where the time of a whole job goes, from launches of single points\n\n" + job_table(single))
    brackets = paragraph(f"in brackets: the {labels.interval_meaning(rows)}")
    return [*sections, f"{brackets}\ndocs/diagnose.md: how each part is measured"]


def _why_not(rows: pd.DataFrame) -> str:
    axes = sorted(set(rows["axis"]) - {""})
    if "nodes" not in axes:
        return f"it varies {', '.join(axes) or 'nothing'}; a step is split along the number of nodes"
    return "no round or repeat has both the fewest nodes and more"


def _draw(options: argparse.Namespace, study: Study) -> None:
    from analysis.figures import figure_files
    from analysis.figures.diagnosis import DIAGNOSIS

    entry = DIAGNOSIS.entry(options.experiment)
    arguments.show_figures(options, [entry.id])
    figure_files.draw([entry], study, options.out)
