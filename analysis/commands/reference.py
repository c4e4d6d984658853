"""`reference`: what this machine measures, in a file that a site keeps."""

import argparse
from contextlib import nullcontext, suppress

from analysis import TableError
from analysis.commands import arguments
from analysis.commands.history import measured_sessions
from analysis.compare import comparison_text, sessions, site_reference
from analysis.compare.launch_values import Key, Values
from analysis.thresholds import limit
from common.terminal import show
from record import run_files as files


def declare_comparison(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="of the reference, as owens-2026-11")
    arguments.add(parser, "--results", "--since", "--within")


def declare(parser: argparse.ArgumentParser) -> None:
    declare_comparison(parser)
    arguments.add(parser, "--experiment", help="only this one (default: all)")
    parser.add_argument("--force", action="store_true", help="replace what it has of this system")


def run(options: argparse.Namespace) -> int:
    """Write the reference and show it. Raises TableError where there is one, or nothing to put into it."""
    file = site_reference.path(options.name)
    stored = None
    if file.exists():
        with suppress(TableError) if options.force else nullcontext():  # one that cannot be read is replaced
            stored = site_reference.load(file)
    machines = measured_sessions(options.results, options.experiment, options.since).values()
    chosen, values = merged_values([own if options.since else own[-1:] for own in machines])
    within = options.within or (stored.within if stored else limit("same"))
    new = site_reference.new_reference(options.name, chosen, values, within)
    if not new.points:
        reasons = "; ".join(dict.fromkeys(why for point in values.values() for why in point.invalid.values()))
        raise TableError(f"{options.results}: no point that is a measurement of scaling: {reasons}")
    if stored and not options.force and (both := {*new.systems} & {*stored.systems}):
        what = f"{file}: it has values of {', '.join(sorted(both))}"
        raise TableError(f"{what}; FORCE=1 replaces them, another NAME= keeps both; those of other systems are kept")
    files.write_file(
        file, site_reference.dumps(site_reference.with_other_systems(new, stored) if stored else new), replace=True
    )
    print(comparison_text.value_table([(point, point.side.number) for point in new.points], "launches"), "", sep="\n")
    show(f"{file}: {len(new.points)} values of {len(new.records)} launches, {new.first_day} to {new.last_day}; "
          f"a value counts as the same within {100 * new.within:g} %")  # fmt: skip
    if any(len(point.launches) == 1 for point in new.points):
        show("values of one launch: how far launches differ is not known; REPEATS=3 or more shows it")
    show(f"keep it with the kit (git add --force {file}); after maintenance: measure with FORCE=1, then "
          f"make check-reference NAME={options.name}")  # fmt: skip
    return 0


def merged_values(by_machine: list[list[sessions.Session]]) -> tuple[list[sessions.Session], dict[Key, Values]]:
    """Return the sessions on all machines, and the values of each point."""
    values: dict[Key, Values] = {}
    for own in by_machine:
        values |= sessions.session_values(own)
    return [session for own in by_machine for session in own], values
