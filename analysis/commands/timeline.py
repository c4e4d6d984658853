"""`timeline`: what happened within the steps of a launch: as a table or as JSON, and as a file for Perfetto."""

import argparse
import json
from pathlib import Path

from analysis import TableError, documents
from analysis.commands import arguments
from analysis.timeline import text
from analysis.timeline.launch import Launch, find_launches, load_launch, steps_of_rank_0


def declare_timeline(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    arguments.add_models(parser)
    arguments.add_format(parser, "text", "json")
    arguments.add_results(parser)
    arguments.add_out(parser)


def run_timeline(options: argparse.Namespace) -> int:
    """Print the table of each launch with a timeline, and write its trace. Raises TableError where there is none."""
    records = arguments.study(options).records
    paths = find_launches(records, options.models)
    if not paths:
        models = f" of {','.join(options.models)}" if options.models else ""
        raise TableError(f"{options.results}: no complete launch{models} with a timeline; make timeline makes one")
    timelines = []
    for path in paths:
        launch = load_launch(path, records[str(path)])
        steps, out = steps_of_rank_0(launch), write(launch, options.out)
        if options.format == "json":
            timelines.append(text.as_json(launch, steps, out))
            continue
        print(text.report(launch, steps))
        print(f"\n{out}: open it at https://ui.perfetto.dev, which keeps it in your browser, or at chrome://tracing\n")
    if options.format == "json":
        print(documents.text(timelines))
    else:
        print("in brackets: the 95 % interval of the median over steps; docs/timeline.md: what each part is")
    return 0


def write(launch: Launch, folder: Path) -> Path:
    """Write the trace of a launch into a folder, and return its path. The same launch gives the same bytes."""
    run = launch.run
    repeat = f"-r{run.repeat}" if run.repeat else ""
    path = folder / f"timeline-{run.point}-{run.config_hash[:8]}{repeat}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(text.trace(launch), allow_nan=False))
    return path
