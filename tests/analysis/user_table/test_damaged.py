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
MARKDOWN = "\n".join(f"| {' | '.join(row)} |" for row in [HEADERS, ["---"] * 5, *ROWS])


def lines(separator, headers=HEADERS, rows=ROWS, end="\n"):
    return end.join(separator.join(row) for row in [headers, *rows]) + end


def german(group="."):
    def number(cell):
        whole, _, decimals = cell.partition(".")
        return f"{int(whole):,}".replace(",", group) + (f",{decimals}" if decimals else "")

    return [[number(cell) for cell in row] for row in ROWS]


def with_units():
    units = ["", "", " img/s", "×", " s"]
    return [[cell + unit for cell, unit in zip(row, units, strict=True)] for row in ROWS]


DAMAGED = {
    "Windows line ends": lines(",", end="\r\n"),
    "trailing separators": lines(",", [*HEADERS, ""], [[*row, ""] for row in ROWS]),
    "trailing separators in the rows alone": lines(",", HEADERS, [[*row, ""] for row in ROWS]),
    "blank lines and rows": lines(",").replace("\n2,", "\n\n,,,,\n2,"),
    "quotes": lines(",", [f'"{cell}"' for cell in HEADERS], [[f'"{cell}"' for cell in row] for row in ROWS]),
    "decimal commas between semicolons": lines(";", rows=german("")),
    "dots between thousands": lines(";", rows=german(".")),
    "spaces between thousands": lines(";", rows=german(" ")),
    "narrow spaces between thousands": lines(";", rows=german("\u202f")),
    "apostrophes between thousands": lines(";", rows=german("'")),
    "commas between thousands": lines("\t", rows=[[f"{float(c):,}" if len(c) > 5 else c for c in row] for row in ROWS]),
    "units in the cells": lines(",", rows=with_units()),
    "units in a row of their own": lines(",", rows=[["", "", "[img/s]", "[x]", "[s]"], *ROWS]),
    "a title row": "Table 3: scaling of ResNet50,,,,\n" + lines(","),
    "a total row": lines(",", rows=[*ROWS, ["Total", "", "8024.3", "", "3713.1"]]),
    "a repeated header": lines(",", rows=[*ROWS[:1], HEADERS, *ROWS[1:]]),
    "footnote marks": lines(",", rows=[[row[0], row[1], row[2] + "*", row[3], row[4] + " [1]"] for row in ROWS]),
    "Markdown in prose": f"# Results\n\nSee | below.\n\n{MARKDOWN}\n\nAs expected, 4 GPUs gain 3.6.\n",
    "columns the other way round": lines(",", HEADERS[::-1], [row[::-1] for row in ROWS]),
    "rows the other way round": lines(",", rows=ROWS[::-1]),
    "times in minutes": lines(",", [*HEADERS[:4], "Time (min)"],
                              [[*row[:4], f"{float(row[4]) / 60!r}"] for row in ROWS]),
    "rates of one rank": lines(",", [*HEADERS[:2], "img/s/GPU", *HEADERS[3:]],
                               [[*row[:2], f"{float(row[2]) / int(row[0])!r}", *row[3:]] for row in ROWS]),
    "an unknown column": lines(",", [*HEADERS, "colour"], [[*row, "red"] for row in ROWS]),
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
    note = result.notes[0]
    assert note.startswith(f"{path}, line 3, column 'Images/s': {message}")
    assert result.runs["wall_s"].tolist() == EXPECTED["wall_s"]
    assert result.runs["images_per_s"].isna().tolist() == [False, True, False]
