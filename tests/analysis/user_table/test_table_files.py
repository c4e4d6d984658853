import io
import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from analysis import TableError
from analysis.user_table import table_contract, table_files
from tests.helpers import ROOT

ROWS = (("GPUs", "img/s"), ("1", "100"), ("2", "190"))


def grids(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return table_files.read_grids(path)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("GPUs,img/s\n1,100\n2,190\n", (1, 2, 3)),
        ("GPUs;img/s\n1;100\n\n2;190\n", (1, 2, 4)),
        ("GPUs\timg/s\n1\t100\n2\t190", (1, 2, 3)),
        ("GPUs|img/s\n1|100\n2|190", (1, 2, 3)),
        ("| **GPUs** | `img/s` |\n|:--|--:|\n| 1 | **100** |\n| 2 | 190 |\n", (1, 3, 4)),
        ("GPUs | img/s\n--- | ---\n1 | 100\n2 | 190\n", (1, 3, 4)),
        ('[{"GPUs": 1, "img/s": 100},\n {"GPUs": 2, "img/s": 190.0}]', (0, 1, 2)),
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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_each_encoding_gives_the_same_text(tmp_path, encoding):
    ((grid,), _) = grids(tmp_path / "t.csv", "GPUs;step time (µs)\n1;3\n".encode(encoding))
    assert grid.rows[0].cells == ("GPUs", "step time (µs)")


def test_one_object_a_file_is_one_row(tmp_path):
    for ranks, rate in ((1, 100), (2, 190)):
        (tmp_path / f"{ranks}.json").write_text(json.dumps({"GPUs": ranks, "images": {"per_s": rate}}))
    runs = table_contract.read_table(tmp_path).runs
    assert runs["images_per_s"].tolist() == [100, 190]
    assert runs["place"].tolist() == ["1.json, row 1", "2.json, row 1"]


def test_the_sheets_of_a_workbook(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="make setup-analysis installs it")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "V100"
    for row in (["Scaling of ResNet-50"], [], ["GPUs", "img/s", "efficiency"], [1, 100, 1], [2, 190.5, 0.9525]):
        sheet.append(row)
    book.create_sheet("empty")
    book.create_sheet("A100").append(["GPUs", None, "img/s"])
    book.save(tmp_path / "t.xlsx")
    ((first, second), _) = table_files.read_grids(tmp_path / "t.xlsx")
    assert first.rows[2].source.endswith("t.xlsx, sheet 'V100'")
    assert [(row.line, row.cells) for row in first.rows[1:]] == [
        (3, ("GPUs", "img/s", "efficiency")), (4, ("1", "100", "1")), (5, ("2", "190.5", "0.9525"))
    ]  # fmt: skip
    assert second.rows[0].cells == ("GPUs", "", "img/s")


def workbook(sheet):
    """The bytes of a workbook with this XML of a sheet."""
    openpyxl = pytest.importorskip("openpyxl", reason="make setup-analysis installs it")
    empty, data, main = io.BytesIO(), io.BytesIO(), "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    openpyxl.Workbook().save(empty)
    with zipfile.ZipFile(empty) as book, zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in book.namelist():
            xml = f'<worksheet xmlns="{main}"><sheetData>{sheet}</sheetData></worksheet>'
            archive.writestr(name, xml if "sheet1" in name else book.read(name))
    return data.getvalue()


HOSTILE = {
    "wide.xlsx": ('<row r="1"><c r="XFD1"><v>1</v></c></row>', "more than 500 columns"),
    "empty.xlsx": ('<row><c r="XFD1"/></row>' * 150, "or 500000 cells, blank ones too"),
    "broken.xlsx": ("<row", "a workbook that cannot be read"),
    "deep.json": (b"[" * 100_000, "cannot be read: maximum recursion depth"),
    "nothing.json": (b"[{}]", "JSON without records"),
    "many.json": (b"[" + b"[]," * 600_000 + b"[]]", "or 500000 cells"),
    "cell.csv": (b"GPUs,img/s\n1,100\n2," + b"9" * 200_000 + b"\n", "not readable as CSV: field larger than"),
    "wide.csv": (b"GPUs," * 1000 + b"img/s\n" + b"1," * 1000 + b"2\n", "more than 500 columns"),
    "long.csv": (b"GPUs,img/s\n" + b"1,2\n" * 250_000, "or 500000 cells"),
    "bars.md": (b"|" * 600_000 + b"\n|-|\n", "or 500000 cells"),
    "picture.csv": (b"\x89PNG\r\n\0", "not a text file"),
    "text.csv": (b"just words\n", "no table that is known: save the table as CSV"),
    "empty.csv": (b" \n", "it is empty"),
    "quote.csv": (b'a,b\n1,"2\n', "line 2: not readable as CSV"),
}  # fmt: skip


@pytest.mark.slow  # parses much
def test_what_cannot_be_read_is_one_line_each_and_the_others_are_read(tmp_path):
    for name, (data, _) in HOSTILE.items():
        (tmp_path / name).write_bytes(workbook(data) if isinstance(data, str) else data)
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "outside.csv").symlink_to("/etc/passwd")
    (tmp_path / "good.csv").write_text("GPUs,img/s\n1,100\n2,190\n")
    (grid,), problems = table_files.read_grids(tmp_path)
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
        table_contract.read_table(tmp_path / "none.csv")
    with pytest.raises(TableError, match="an empty folder"):
        table_contract.read_table(tmp_path)
    monkeypatch.setattr(table_files, "_BYTES", 10)
    assert "more than 0 MB" in grids(tmp_path / "t.csv", "GPUs,img/s\n1,100\n")[1][0]
    monkeypatch.setattr(table_files, "_FILES", 0)
    with pytest.raises(TableError, match="more than 0 files"):
        table_contract.read_table(tmp_path)


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"GPUs,img/s\n1,100\n2,190\n")))
    assert table_contract.read_table(Path("-")).runs["images_per_s"].tolist() == [100, 190]


SCRIPT = (
    "import sys\nfrom pathlib import Path\nfrom analysis import TableError\n"
    "from analysis.user_table import table_contract\n"
    "for path in sorted(Path(sys.argv[1]).iterdir()):\n"
    "    try: table_contract.read_table(path)\n    except TableError as error: assert str(path) in str(error), error\n"
)


@pytest.mark.slow
@pytest.mark.on_change_of("analysis/user_table/")
def test_damaged_files_are_read_or_reported_within_bounds(tmp_path):
    """Bytes are changed, cut and repeated at random; each file is read or TableError, in 2 GiB of memory."""
    texts = {
        "t.csv": b"GPUs,img/s\n1,100\n2,190\n",
        "t.md": b"# A\n|GPUs|img/s|\n|-|-|\n|1|100|\n|2|190 x|\n",
        "t.json": b'[{"GPUs": 1, "img/s": 100},\n {"GPUs": 2, "img/s": 190.0}]',
        "t.xlsx": workbook('<row><c r="A1"><v>1</v></c></row>' * 9),
    }
    rng = random.Random(3)
    for number, name in ((number, name) for name in texts for number in range(150)):
        data = bytearray(texts[name])
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.choice(
                [bytes([rng.randrange(256)]), b'"', b"|", b",", b"[", b"1e999", data[at : at + 9] * 500]
            )
        (tmp_path / f"{number}-{name}").write_bytes(data)
    command = ["prlimit", f"--as={2 << 30}", sys.executable, "-W", "error::RuntimeWarning", "-c", SCRIPT, str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)
