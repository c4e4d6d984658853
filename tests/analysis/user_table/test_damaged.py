"""One table, written and damaged in many ways, gives the same rows or a note that names the cell."""

import pytest

from analysis.user_table import table

HEADERS = ["GPUs", "Batch per GPU", "Images/s", "Speedup", "Time (s)"]
ROWS = [
    ["1", "64", "1234.5", "1.00", "2058.2"],
    ["2", "64", "2345.6", "1.90", "1083.2"],
    ["4", "64", "4444.2", "3.60", "571.7"],
]
EXPECTED = {
    "ranks": [1, 2, 4],
    "batch_per_rank": [64] * 3,
    "images_per_s": [1234.5, 2345.6, 4444.2],
    "speedup": [1, 1.9, 3.6],
    "wall_s": [2058.2, 1083.2, 571.7],
}
UNITS = ["", "", " img/s", "×", " s"]


def lines(separator, headers=HEADERS, rows=ROWS):
    return "\n".join(separator.join(row) for row in [headers, *rows])


def german(group):
    marks = str.maketrans({",": group, ".": ","})
    return [[(f"{float(c):,}" if len(c) > 5 else c).translate(marks) for c in row] for row in ROWS]


DAMAGED = {
    "trailing separators": lines(",", [*HEADERS, ""], [[*row, ""] for row in ROWS]),
    "trailing separators in the rows alone": lines(",", HEADERS, [[*row, ""] for row in ROWS]),
    "blank lines and rows": lines(",").replace("\n2,", "\n\n,,,,\n2,"),
    "decimal commas between semicolons": lines(";", rows=german("")),
    "dots between thousands": lines(";", rows=german(".")),
    "commas between thousands": lines("\t", rows=[[f"{float(c):,}" if len(c) > 5 else c for c in row] for row in ROWS]),
    "units in the cells": lines(",", rows=[[a + b for a, b in zip(row, UNITS, strict=True)] for row in ROWS]),
    "a total row": lines(",", rows=[*ROWS, ["Total", "", "8024.3", "", "3713.1"]]),
    "a repeated header": lines(",", rows=[*ROWS[:1], HEADERS, *ROWS[1:]]),
    "footnote marks": lines(",", rows=[[row[0], row[1], row[2] + "*", row[3], row[4] + " [1]"] for row in ROWS]),
    "columns the other way round": lines(",", HEADERS[::-1], [row[::-1] for row in ROWS]),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGED)
def test_the_same_table_in_another_form_is_the_same(tmp_path, damage):
    path = tmp_path / "t.txt"
    path.write_bytes(DAMAGED[damage].encode())
    runs = table.read(path).runs.sort_values("ranks")
    for name, values in EXPECTED.items():
        assert runs[name].tolist() == pytest.approx(values, rel=1e-9), name


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("-5", "-5 given, must be more than 0"),
        ("1e20", "1e20 given, must be between"),
        ("12 W", "'12 W' is not a number"),
    ],
)
def test_a_bad_cell_is_named_and_left_out_alone(tmp_path, cell, message):
    path = tmp_path / "t.csv"
    path.write_text(lines(";", rows=[ROWS[0], [*ROWS[1][:2], cell, *ROWS[1][3:]], ROWS[2]]))
    result = table.read(path)
    assert result.notes[0].startswith(f"{path}, line 3, column 'Images/s': {message}")
    assert result.runs["wall_s"].tolist() == EXPECTED["wall_s"]
    assert result.runs["images_per_s"].isna().tolist() == [False, True, False]
