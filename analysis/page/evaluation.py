"""A reviewer's report, as Markdown: the template beside this file, filled in."""

from analysis.evaluation import Evaluation
from analysis.page import templates


def evaluation_text(evaluation: Evaluation) -> str:
    """Return a reviewer's report: claims that are not reproduced come first."""
    environment = templates(trim_blocks=True, lstrip_blocks=True)
    environment.filters["cell"] = lambda text: " ".join(str(text).split()).replace("|", "\\|")
    rows = sorted(evaluation.rows, key=lambda row: ("not reproduced", "reproduced", "not run").index(row.outcome))
    return environment.get_template("evaluation.md.j2").render(evaluation=evaluation, rows=rows)
