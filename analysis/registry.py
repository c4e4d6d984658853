"""All figures: those of the reports, and those that fit what the local records hold."""

import pandas as pd

from analysis.experiments import kinds
from analysis.figures import Entry
from analysis.reports import bnl, hacksa, msoe, osu, spreadsheet

REPORTS = (hacksa, osu, bnl, spreadsheet, msoe)


def figures(local: pd.DataFrame) -> dict[str, Entry]:
    """Figures by id, in the order of the reports; then those of each experiment in the local table, by its name.

    Raises ValueError where two figures have one id.
    """
    entries = [entry for report in REPORTS for entry in report.FIGURES] + kinds.figures(local)
    found = {entry.id: entry for entry in entries}
    if len(found) < len(entries):
        twice = sorted(id for id in found if sum(entry.id == id for entry in entries) > 1)
        raise ValueError(f"two figures are called {', '.join(twice)}")
    return found
