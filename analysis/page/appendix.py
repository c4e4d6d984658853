"""The artifact appendix and a reviewer's report, as Markdown: the templates beside this file, filled in."""

from typing import Any

from analysis.appendix import Appendix, Evaluation
from analysis.page import templates

STYLES = ("sc", "eurosys")


def _filled(template: str, **values: Any) -> str:
    environment = templates(trim_blocks=True, lstrip_blocks=True)
    environment.filters["cell"] = lambda text: " ".join(str(text).split()).replace("|", "\\|")
    return environment.get_template(template).render(**values)


def appendix_text(appendix: Appendix, style: str) -> str:
    """Return the appendix in one of STYLES."""
    return _filled(f"appendix-{style}.md.j2", appendix=appendix)


def evaluation_text(evaluation: Evaluation) -> str:
    """Return a reviewer's report: claims that are not reproduced come first."""
    rows = sorted(evaluation.rows, key=lambda row: ("not reproduced", "reproduced", "not run").index(row.outcome))
    return _filled("evaluation.md.j2", evaluation=evaluation, rows=rows)
