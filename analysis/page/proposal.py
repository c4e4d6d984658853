"""The page of a proposal."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.page.page import TEMPLATE
from analysis.proposal import Section


def page(title: str, sections: Sequence[Section], svg: str) -> str:
    """Return the page as HTML; svg: the text of its figure, which the page holds."""
    environment = Environment(loader=FileSystemLoader(TEMPLATE.parent), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("proposal.html.j2").render(
        title=title, sections=sections, svg=svg[svg.index("<svg") :]
    )
