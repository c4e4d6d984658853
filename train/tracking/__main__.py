"""Upload the runs that were written offline, or watch one that is in progress.

python -m train.tracking sync results
python -m train.tracking live results/.../r0      (the launcher starts it)
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from common.printable import printable_output
from common.terminal import show
from train.tracking import mirror


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m train.tracking", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    upload = commands.add_parser("sync", help="upload the W&B runs that are not uploaded yet")
    upload.add_argument("results", nargs="?", type=Path, default=Path("results"), help="the results folder")
    watch = commands.add_parser("live", help="log a run in progress until it ends, then complete its W&B run")
    watch.add_argument("run", type=Path, help="its folder")
    options = parser.parse_args(arguments)
    if options.command == "live":
        sys.exit(mirror.follow(options.run))
    if not options.results.is_dir():
        parser.error(f"{options.results}: no such folder; give the results folder of a measurement")
    try:
        show(f"W&B runs uploaded: {mirror.upload_runs(options.results)}")
    except mirror.UploadError as error:
        show(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    with printable_output():
        main()
