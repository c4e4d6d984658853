"""`timeline`: what happened within steps, on all ranks."""

import argparse

from analysis import TableError, documents
from analysis.commands import arguments
from analysis.study import Study
from analysis.timeline import find_launches, load_launch, timeline_text
from common.terminal import show


def declare(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--models", "--format", "--results", "--out")


def run(options: argparse.Namespace) -> int:
    """Print the table of each launch with a timeline, and write its trace. Raises TableError where there is none."""
    study = Study(options.results)
    arguments.print_notices(study)
    records = study.records
    paths = find_launches(records, options.models)
    if not paths:
        models = f" of {','.join(options.models)}" if options.models else ""
        raise TableError(f"{options.results}: no complete launch{models} with a timeline; make timeline makes one")
    launches = [load_launch(path, records[str(path)]) for path in paths]
    timelines = [timeline_text.answer(launch, timeline_text.write_trace(launch, options.out)) for launch in launches]
    if options.format == "json":
        print(documents.text(timelines))
        return 0
    for timeline in timelines:
        print(timeline_text.report(timeline))
        show(f"\n{timeline.trace}: open it at https://ui.perfetto.dev, which keeps it in your browser, or at "
              "chrome://tracing\n")  # fmt: skip
    show("in brackets: the 95 % interval of the median over steps; docs/timeline.md: what each part is")
    return 0
