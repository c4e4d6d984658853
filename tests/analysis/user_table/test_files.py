import io
import json
import os
import random
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from analysis import TableError
from analysis.user_table import files, table
from tests.helpers import ROOT

ROWS = (("GPUs", "img/s"), ("1", "100"), ("2", "190"))


def grids(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return files.read(path)


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
        ("a table of it\nGPUs img/s\n1    100\n2    190\n", (2, 3, 4)),
        ('[{"GPUs": 1, "img/s": 100},\n {"GPUs": 2, "img/s": 190.0}]', (0, 1, 2)),
        ('{"GPUs": [1, 2], "img/s": [100, 190]}', (0, 1, 2)),
        ('{"runs": [{"GPUs": 1, "img/s": 100}, {"GPUs": 2, "img/s": 190}]}', (0, 1, 2)),
        ('{"GPUs": 1, "img/s": 100}\n{"GPUs": 2, "img/s": 190}', (0, 1, 2)),
        ("GPUs,img/s\r1,100\r2,190\r", (1, 2, 3)),
    ],
)
def test_each_format_gives_the_same_cells_with_their_lines(tmp_path, text, lines):
    ((grid,), problems) = grids(tmp_path / "t", text)
    assert tuple(row.cells for row in grid.rows) == ROWS
    assert tuple(row.line for row in grid.rows) == lines
    assert problems == []


def test_several_tables_with_their_titles(tmp_path):
    text = "# Results\n## V100\n|GPUs|img/s|\n|-|-|\n|1|2|\n\ntext\n\n**A100**\n\n|GPUs|img/s|\n|-|-|\n|1|3|\n"
    assert [grid.title for grid in grids(tmp_path / "t.md", text)[0]] == ["V100", "A100"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
def test_each_encoding_gives_the_same_text(tmp_path, encoding):
    ((grid,), _) = grids(tmp_path / "t.csv", "GPUs;Zeit für Training\n1;3\n".encode(encoding))
    assert grid.rows[0].cells == ("GPUs", "Zeit für Training")


def test_one_object_a_file_is_one_row(tmp_path):
    for ranks, rate in ((1, 100), (2, 190)):
        (tmp_path / f"{ranks}.json").write_text(json.dumps({"GPUs": ranks, "result": {"img/s": rate}}))
    runs = table.read(tmp_path).runs
    assert runs["images_per_s"].tolist() == [100, 190]
    assert runs["place"].tolist() == ["1.json, line 1", "2.json, line 1"]


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
    ((first, second), _) = files.read(tmp_path / "t.xlsx")
    assert first.rows[2].source.endswith("t.xlsx, sheet 'V100'")
    assert [(row.line, row.cells) for row in first.rows[1:]] == [
        (3, ("GPUs", "img/s", "efficiency")), (4, ("1", "100", "1")), (5, ("2", "190.5", "95.2%"))
    ]  # fmt: skip
    assert second.rows[0].cells == ("GPUs", "", "img/s")
    assert table.read(tmp_path / "t.xlsx").runs["efficiency"].tolist() == pytest.approx([1, 0.952])


def workbook(sheet):
    """The bytes of a workbook with this XML of a sheet."""
    data, main = io.BytesIO(), 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", "<workbook")
        archive.writestr("xl/worksheets/sheet1.xml", f"<worksheet {main}><sheetData>{sheet}</sheetData></worksheet>")
    return data.getvalue()


HOSTILE = {
    "far.xlsx": (workbook('<row r="99999"><c r="XFD99999"><v>1</v></c></row>'), "a cell at XFD99999, beyond row 50000"),
    "broken.xlsx": (workbook(""), "a workbook that cannot be read"),
    "deep.json": (b"[" * 100_000, "cannot be read: maximum recursion depth"),
    "many.json": (b"[" + b"[]," * 600_000 + b"[]]", "more than 500000 values"),
    "cell.csv": (b"GPUs,img/s\n1,100\n2," + b"9" * 200_000 + b"\n", "not readable as CSV: field larger than"),
    "wide.csv": (b"GPUs," * 1000 + b"img/s\n" + b"1," * 1000 + b"2\n", "more than 50000 rows, 500 columns"),
    "long.csv": (b"GPUs,img/s\n" + b"1,2\n" * 60_000, "more than 50000 rows"),
    "bars.md": (b"|" * 600_000 + b"\n|-|\n", "more than 500000 cells"),
    "picture.csv": (b"\x89PNG\r\n", "a picture: save the table as CSV"),
    "packed.csv": (b"\x1f\x8b\x08", "a compressed file"),
    "zeros.csv": (b"a\0b,c\n" * 3, "not a text file"),
    "empty.csv": (b" \n", "it is empty"),
    "quote.csv": (b'a,b\n1,"2\n', "line 2: not readable as CSV"),
}  # fmt: skip


@pytest.mark.slow  # parses much
def test_what_cannot_be_read_is_one_line_each_and_the_others_are_read(tmp_path):
    for name, (data, _) in HOSTILE.items():
        (tmp_path / name).write_bytes(data)
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "outside.csv").symlink_to("/etc/passwd")
    (tmp_path / "good.csv").write_text("GPUs,img/s\n1,100\n2,190\n")
    (grid,), problems = files.read(tmp_path)
    assert len(grid.rows) == 3
    named = dict(problem.removeprefix(f"{tmp_path}/").split(":", 1) for problem in problems)
    expected = {name: text for name, (_, text) in HOSTILE.items()}
    expected |= {"pipe.csv": "not a regular file", "outside.csv": "a link, which is not followed"}
    assert {name.partition(",")[0] for name in named} == {*expected}
    for place, text in named.items():
        assert expected[place.partition(",")[0]] in f"{place}:{text}"
        assert "\n" not in text


def test_a_file_that_is_not_there_a_large_one_and_a_folder_of_too_many(tmp_path, monkeypatch):
    with pytest.raises(TableError, match="No such file"):
        table.read(tmp_path / "none.csv")
    with pytest.raises(TableError, match="an empty folder"):
        table.read(tmp_path)
    monkeypatch.setattr(files, "_BYTES", 10)
    assert "more than 0 MB" in grids(tmp_path / "t.csv", "GPUs,img/s\n1,100\n")[1][0]
    monkeypatch.setattr(files, "_FILES", 0)
    with pytest.raises(TableError, match="more than 0 files"):
        table.read(tmp_path)


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"GPUs,img/s\n1,100\n2,190\n")))
    assert table.read(Path("-")).runs["images_per_s"].tolist() == [100, 190]


def _memory_limited():
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t.csv", "t.md", "t.json", "t.xlsx"])
def test_damaged_files_are_read_or_reported_within_bounds(tmp_path, name):
    """Bytes are changed, cut and repeated at random; each file is read or TableError, in 2 GiB of memory."""
    openpyxl = pytest.importorskip("openpyxl", reason="make setup-analysis installs it")
    book = openpyxl.Workbook()
    for row in ROWS:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    texts = {
        "t.csv": b"GPUs,img/s\n1,100\n2,190\n",
        "t.md": b"# A\n|GPUs|img/s|\n|-|-|\n|1|100|\n|2|190 x|\n",
        "t.json": b'[{"GPUs": 1, "img/s": 100},\n {"GPUs": 2, "img/s": 190.0}]',
        "t.xlsx": (tmp_path / "t.xlsx").read_bytes(),
    }
    rng, folder = random.Random(3), tmp_path / "damaged"
    folder.mkdir()
    for number in range(150):
        data = bytearray(texts[name])
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.choice(
                [bytes([rng.randrange(256)]), b'"', b"|", b",", b"[", b"1e999", data[at : at + 9] * 500]
            )
        (folder / f"{number}-{name}").write_bytes(data)
    script = (
        "import sys\nfrom pathlib import Path\nfrom analysis import TableError\nfrom analysis.user_table import table\n"
        "for path in sorted(Path(sys.argv[1]).iterdir()):\n"
        "    try: table.read(path)\n    except TableError as error: assert str(path) in str(error), error\n"
    )
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", script, str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, preexec_fn=_memory_limited, timeout=300)
