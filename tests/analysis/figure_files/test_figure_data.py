import base64
import csv
import io

from analysis.figure_files import figure_data
from analysis.figures import Entry, Points
from tests.helpers.drawn_figures import study_of
from tests.helpers.tidy_rows import row, table


def points():
    published = table(row("images_per_s", 100.0, 1), row("images_per_s", 190.0, 2))
    return Points(published, published.iloc[:0])


def test_each_row_in_the_columns_that_have_a_value():
    read = list(csv.DictReader(io.StringIO(figure_data.text(points()))))
    assert [(one["quantity"], float(one["value"]), one["ranks"]) for one in read] == [
        ("images_per_s", 100.0, "1"), ("images_per_s", 190.0, "2"),
    ]  # fmt: skip
    assert all(any(one[name] for one in read) for name in read[0])


def test_a_page_holds_it_as_a_data_uri():
    kind, _, content = figure_data.link(points()).partition(",")
    assert kind == "data:text/csv;base64"
    assert base64.b64decode(content).decode() == figure_data.text(points())


def test_without_a_row_there_is_no_file(tmp_path):
    nothing = Points(points().local, points().local)
    assert (figure_data.text(nothing), figure_data.link(nothing)) == ("", "")
    entries = [Entry("one", "one", lambda _: None, published={}), Entry("none", "none", lambda _: None)]
    figure_data.write(entries, study_of(points().local, points().published), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["one.csv"]
