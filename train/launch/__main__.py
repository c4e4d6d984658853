"""Run an experiment: expand it into points, launch each, continue after a failed one, resume what was interrupted.

python -m train.launch experiment=weak_scaling nodes=2 model=resnet50,vgg16
"""

import argparse
import sys

from common.printable import printable_output
from train.config.checks import reported
from train.launch.execute import launch
from train.launch.plan.make_plan import Options
from train.launch.screen import Terminal


def main() -> int:
    """Run the launcher; the exit status is 0 only where every run of the experiment is complete, or submitted."""
    return reported(lambda: launch(read_options(), Terminal()))


def read_options() -> Options:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m train.launch", description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="print the plan and the commands, start nothing")
    parser.add_argument("--force", action="store_true", help="measure again what is measured: adds, replaces nothing")
    parser.add_argument("--only", metavar="POINT,POINT", help="these points alone, by their names")
    parser.add_argument("overrides", nargs="*", help="experiment=weak_scaling nodes=2 model=vgg16,resnet50 ...")
    arguments = parser.parse_intermixed_args()
    return Options(tuple(arguments.overrides), arguments.dry_run, arguments.force, arguments.only)


if __name__ == "__main__":
    with printable_output():
        sys.exit(main())
