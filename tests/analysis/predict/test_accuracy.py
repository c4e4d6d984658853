import pytest

from analysis.predict import accuracy, reports
from analysis.study import Study
from tests.helpers import ROOT


@pytest.fixture
def published():
    return reports.learned(Study().published).curves, reports.learned(Study().published).checks


def test_the_bars_are_met_on_the_published_curves(published):
    """The largest point within 3.5 % in the median, and 85 % of the points held, each by other machines' curves."""
    _, checks = published
    found = accuracy.of(checks)
    assert (found.curves, found.machines, found.points) == (7, 2, 25)
    assert found.largest_error <= 0.035
    assert found.held / found.points >= 0.85
    for check in checks:
        base = check.cut.known.base
        ideal = check.cut.known.images_per_s[base] / check.cut.known.ranks[base] * check.cut.beyond.ranks
        assert ((check.predicted.images_per_s > 0) & (check.predicted.images_per_s <= ideal + 1e-9)).all()


def test_no_published_curve_above_eight_ranks_is_left_out(published):
    curves, checks = published
    named = {(row["model"], row["curve"]) for row in accuracy.rows(curves, checks)}
    assert named == {(of.model, of.name) for of in curves if of.largest > 8}
    assert len(named) == 10


def test_the_page_has_the_table_as_it_is(published):
    """Cell by cell; the spaces that align columns do not count."""
    page = [
        [cell.strip() for cell in line.split("|")] for line in (ROOT / "docs/prediction.md").read_text().splitlines()
    ]
    rows = [*accuracy.rows(*published), *accuracy.by_machine(published[1])]
    assert len(rows) == 28 + 3
    assert [row for row in rows if ["", *row.values(), ""] not in page] == []


def test_the_sentence_says_how_good_and_how_sure(published):
    said = accuracy.words(accuracy.of(published[1]))
    assert "held 25 of 25 points (100%; 86% to 100%, were they independent)" in said
