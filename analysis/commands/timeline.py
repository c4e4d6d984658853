"""`timeline`: what happened within the steps of a launch: as a table, and as a file for Perfetto."""

import argparse
import json
from pathlib import Path

from analysis import TableError
from analysis.timeline import joined, split, trace, words


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--models", metavar="A,B", help="only these models (default: all)")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    parser.add_argument("--out", type=Path, default=Path("figures"), metavar="DIR", help="folder to write into")


def run(options: argparse.Namespace) -> int:
    """Print the table of each launch with a timeline, and write its trace. Raises TableError where there is none."""
    paths = joined.find(options.results, options.models.split(",") if options.models else None)
    if not paths:
        of = f" of {options.models}" if options.models else ""
        raise TableError(f"{options.results}: no complete launch{of} with a timeline; make timeline makes one")
    options.out.mkdir(parents=True, exist_ok=True)
    for path in paths:
        launch = joined.load(path)
        print(words.report(launch, split.timed(launch)))
        run = launch.run
        repeat = f"-r{run.repeat}" if run.repeat else ""
        out = options.out / f"timeline-{run.point}-{run.config_hash[:8]}{repeat}.json"
        out.write_text(json.dumps(trace.document(launch), allow_nan=False))
        print(f"\n{out}: open it at https://ui.perfetto.dev, which keeps it in your browser, or at chrome://tracing\n")
    print("in brackets: the 95 % interval of the median over steps; docs/timeline.md: what each part is")
    return 0
