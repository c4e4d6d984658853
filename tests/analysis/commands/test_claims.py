from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.commands import claims as command
from tests.helpers.judged import judged

PAGE = Path(__file__).parents[3] / "docs" / "claims.md"


def printed(form):
    return command.FORMATS[form](judged())


@pytest.mark.slow
def test_the_command_prints_a_format(tmp_path, capsys):
    assert main(["claims", "--format", "markdown", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().out == printed("markdown") + "\n"


@pytest.mark.slow
def test_the_page_has_what_the_command_prints():
    shown = PAGE.read_text().partition("<!-- claims -->")[2].partition("<!-- end of claims -->")[0].strip()
    assert shown == printed("markdown").strip(), "run: python -m analysis claims --format markdown, into docs/claims.md"


@pytest.mark.slow
def test_the_table_for_people_counts_the_verdicts():
    output = printed("table")
    assert "NOT DECIDABLE 000-speed-near-ideal (text, Results)" in output
    assert output.splitlines()[-1].startswith("74 claims: ")
