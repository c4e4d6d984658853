import io
import sys
import zipfile
from pathlib import Path

import pytest

from analysis import TableError
from analysis.user_table import files, table

ROWS = (("GPUs", "img/s"), ("1", "100"), ("2", "190"))


def grid(text):
    (result,) = files.grids(files.Text("t", text))
    return result


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("GPUs,img/s\n1,100\n2,190\n", (1, 2, 3)),
        ("GPUs;img/s\n1;100\n\n2;190\n", (1, 2, 4)),
        ("sep=;\nGPUs;img/s\n1;100\n2;190\n", (2, 3, 4)),
        ("GPUs\timg/s\n1\t100\n2\t190", (1, 2, 3)),
        ("GPUs|img/s\n1|100\n2|190", (1, 2, 3)),
        ("| **GPUs** | `img/s` |\n|:--|--:|\n| 1 | **100** |\n| 2 | 190 |\n", (1, 3, 4)),
        ("GPUs | img/s\n--- | ---\n1 | 100\n2 | 190\n", (1, 3, 4)),
        ("GPUs   img/s\n1      100\n2      190\n", (1, 2, 3)),
        ("GPUs img/s\n1 100\n2 190\n", (1, 2, 3)),
        ("  GPUs   img/s\n ------ ------\n    1     100\n    2     190\n", (1, 3, 4)),
        (
            "<p>1 2</p><table><tr><th>GPUs<th>img/s\n<tr><td>1<td>100</td></tr>\n<tr><td>2<td>190<sup>a</sup></table>",
            (1, 2, 3),
        ),
        ('[{"GPUs": 1, "img/s": 100},\n {"GPUs": 2, "img/s": 190.0}]', (0, 1, 2)),
        ('{"GPUs": [1, 2], "img/s": [100, 190]}', (0, 1, 2)),
        ('{"runs": [{"GPUs": 1, "img/s": 100}, {"GPUs": 2, "img/s": 190}]}', (0, 1, 2)),
        ('{"GPUs": 1, "img/s": 100}\n{"GPUs": 2, "img/s": 190}', (0, 1, 2)),
        (
            "\\begin{tabular}{rr}\n\\hline\n"
            "GPUs & img/s \\\\ \\hline\n1 & \\textbf{100} \\\\\n2 & 190 \\\\\n\\end{tabular}",
            (3, 4, 5),
        ),
        ("GPUs,img/s\r1,100\r2,190\r", (1, 2, 3)),
    ],
)
def test_each_format_gives_the_same_cells_with_their_lines(text, lines):
    result = grid(text)
    assert result.rows == ROWS
    assert result.lines == lines


def test_a_cell_of_several_lines_begins_on_its_first():
    assert grid('GPUs,img/s,note\n1,100,"a\nb"\n2,190,c\n').lines == (1, 2, 4)


def test_cells_under_each_other_with_headers_of_several_words():
    text = "Number of GPUs   Images per second\n1                100\n16               1520\n"
    assert grid(text).rows[0] == ("Number of GPUs", "Images per second")


def test_cells_that_span_rows_and_columns_are_repeated():
    text = (
        "<table><tr><th rowspan=2>GPUs</th><th colspan=2>img/s</th></tr><tr><th>a</th><th>b</th></tr>"
        "<tr><td>1</td><td>10</td><td>20</td></tr></table>"
    )
    assert grid(text).rows == (("GPUs", "img/s", "img/s"), ("GPUs", "a", "b"), ("1", "10", "20"))


def test_several_tables_with_their_titles():
    text = "# Results\n## V100\n|GPUs|img/s|\n|-|-|\n|1|2|\n\ntext\n\n**A100**\n\n|GPUs|img/s|\n|-|-|\n|1|3|\n"
    assert [result.title for result in files.grids(files.Text("t", text))] == ["V100", "A100"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
def test_each_encoding_gives_the_same_text(tmp_path, encoding):
    path = tmp_path / "t.csv"
    path.write_bytes("GPUs;Zeit für Training\n1;3\n".encode(encoding))
    assert files.texts(path)[0].text == "GPUs;Zeit für Training\n1;3\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"%PDF-1.7 ...", "a PDF file, not text: save the table as CSV"),
        (b"\x89PNG\r\n", "a picture, not text"),
        (b"\x1f\x8b\x08", "a compressed file, not text"),
        (b"a\0b,c\n" * 3, "not a text file"),
    ],
)
def test_what_is_no_text_is_reported(tmp_path, data, message):
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(TableError, match=message):
        files.texts(path)


def test_a_file_that_is_not_there_or_empty(tmp_path):
    with pytest.raises(TableError, match="No such file"):
        files.texts(tmp_path / "none.csv")
    with pytest.raises(TableError, match="an empty folder"):
        files.texts(tmp_path)
    with pytest.raises(TableError, match="it is empty"):
        grid(" \n")
    with pytest.raises(TableError, match="line 2: not readable as CSV"):
        grid('a,b\n1,"2\n')


def test_the_sheets_of_a_workbook(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="make setup-analysis installs it")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "V100"
    for row in (["Scaling of ResNet-50"], [], ["GPUs", "img/s", "efficiency"], [1, 100, 1], [2, 190.5, 0.9525]):
        sheet.append(row)
    sheet["C5"].number_format = "0.0%"
    book.create_sheet("empty")
    book.create_sheet("A100").append(["GPUs", None, "img/s"])
    book.save(tmp_path / "t.xlsx")
    first, second = files.texts(tmp_path / "t.xlsx")
    (result,) = files.grids(first)
    assert first.source.endswith("t.xlsx, sheet 'V100'")
    assert (result.rows[2:], result.lines[2:]) == (
        (("GPUs", "img/s", "efficiency"), ("1", "100", "1"), ("2", "190.5", "95.2%")), (3, 4, 5)
    )  # fmt: skip
    assert second.rows == (("GPUs", "", "img/s"),)
    runs = table.read(tmp_path / "t.xlsx").runs
    assert runs["efficiency"].tolist() == pytest.approx([1, 0.952])


def test_a_broken_workbook_is_reported(tmp_path):
    pytest.importorskip("openpyxl", reason="make setup-analysis installs it")
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook")
    with pytest.raises(TableError, match=r"t\.xlsx: a workbook that cannot be read"):
        files.texts(tmp_path / "t.xlsx")


def test_tables_drawn_with_lines():
    text = "┌──────┬───────┐\n│ GPUs │ img/s │\n├──────┼───────┤\n│ 1    │ 100   │\n│ 2    │ 190   │\n└──────┴───────┘"
    assert [row for row in grid(text).rows if "+" not in row[0]] == list(ROWS)


def test_a_folder_and_standard_input(tmp_path, monkeypatch):
    for name in ("b.csv", "a.csv"):
        (tmp_path / name).write_text(name)
    assert [Path(text.source).name for text in files.texts(tmp_path)] == ["a.csv", "b.csv"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x")))
    assert files.texts(Path("-")) == [files.Text("standard input", "x")]
