import math

import pandas as pd
import pytest

from analysis import TableError
from analysis.study import Study
from analysis.table import tidy_columns
from tests.helpers.tidy_rows import row

ROW = row("images_per_s", 8.82, 4, 32)


def read(tmp_path, *changes):
    path = tmp_path / "numbers.csv"
    pd.DataFrame([{**ROW, **change} for change in changes]).to_csv(path, index=False)
    return tidy_columns.check(tidy_columns.read_csv(path), str(path))


def test_a_good_row_gets_its_types(tmp_path):
    good = read(tmp_path, {}).iloc[0]
    assert (good["value"], good["global_batch"], good["note"]) == (8.82, 128, "")
    assert pd.isna(good["repeat"])


WRONG_CELLS = [
    ({"value": "8,82"}, "line 2: value: '8,82' given; allowed: numbers"),
    ({"value": "nan"}, "value: 'nan' given"),
    ({"value": "inf"}, "value: 'inf' given"),
    ({"value": ""}, "value: '' given; allowed: numbers"),
    ({"nodes": "0"}, "nodes: '0' given; allowed: whole numbers above 0"),
    ({"nodes": "1.5"}, "nodes: '1.5' given"),
    ({"repeat": "-1"}, "repeat: '-1' given; allowed: whole numbers of at least 0"),
    ({"kind": "guessed"}, "kind: 'guessed' given; allowed: measured, stated"),
]
WRONG_ROWS = [
    ({"value": "-8.82"}, "images_per_s: -8.82 images/s is impossible"),
    ({"unit": "images/min"}, "images_per_s: unit 'images/min' given, must be 'images/s'"),
    ({"quantity": "image_per_s"}, "'image_per_s' is not known; did you mean 'images_per_s'"),
    ({"quantity": "wall_s", "unit": "s", "value": "0"}, "wall_s: 0 s is impossible"),
    ({"quantity": "validation_accuracy", "unit": "fraction", "value": "95.63"}, "95.63 fraction is impossible"),
    ({}, "figure 1: duplicate images_per_s of resnet50"),
]
MANY = [({"value": "x", "nodes": str(i + 1)}, "and 30 more") for i in range(50)]


@pytest.mark.parametrize(("wrong", "problems"), [(WRONG_CELLS, 8), (WRONG_ROWS, 6), (MANY, 50)])
def test_all_wrong_cells_and_rows_are_named_at_once_but_not_hundreds(tmp_path, wrong, problems):
    with pytest.raises(TableError, match=rf"numbers\.csv: {problems} problems") as error:
        read(tmp_path, *[change for change, _ in wrong])
    assert [message for _, message in wrong if message not in str(error.value)] == []


def test_missing_and_misspelt_columns_are_named(tmp_path):
    path = tmp_path / "numbers.csv"
    pd.DataFrame([ROW]).rename(columns={"value": "valeu"}).drop(columns="unit").to_csv(path, index=False)
    with pytest.raises(TableError) as error:
        tidy_columns.read_csv(path)
    assert "column 'unit' is missing" in str(error.value)
    assert "column 'valeu' is not known; did you mean 'value'?" in str(error.value)


def test_a_file_that_is_not_there_or_empty_is_an_error(tmp_path):
    with pytest.raises(TableError, match="No such file"):
        tidy_columns.read_csv(tmp_path / "none.csv")
    (tmp_path / "empty.csv").touch()
    with pytest.raises(TableError, match="not a readable CSV"):
        tidy_columns.read_csv(tmp_path / "empty.csv")


def test_optional_columns_may_be_absent_and_flags_are_checked():
    columns = (tidy_columns.TidyColumn("gpus", "integer"), tidy_columns.TidyColumn("shared", "flag", required=False))
    assert list(tidy_columns.conform(pd.DataFrame({"gpus": [1, 2]}), columns, "x")) == ["gpus"]
    with pytest.raises(TableError, match="'maybe' given; allowed: True, False"):
        tidy_columns.conform(pd.DataFrame({"gpus": [1], "shared": ["maybe"]}), columns, "x")


def test_the_published_table_is_whole():
    table = Study().published
    assert sorted(table["report"].unique()) == ["000", "001", "002", "003", "004"]
    # 16 columns x 4 rows, and 126 + 1 cells of the page it copied
    throughput = table[(table.report == "003") & (table.quantity == "images_per_s") & (table.kind == "measured")]
    assert len(throughput[throughput.run == ""]) == 64
    page = throughput[throughput.run == "primary source"]
    assert len(page[page.machine != "ec2"]) == 127
    assert (page.machine == "ec2").sum() == 80


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ({"place": "row 15, column 1 of 16"}, 596),
        ({"place": "row 20, median"}, 7.44),
        ({"place": "row 23, column 1 of 16"}, 1.0493),
        ({"place": "row 40, column 8 of 8"}, 1.66),
        ({"place": "row 33, median"}, 4.40),
        ({"report": "000", "run": "vgg_19", "ranks": 16, "quantity": "wall_s"}, 18.32),
        ({"report": "004", "run": "model 3", "quantity": "job_s"}, 98 * 60 + 30),
        ({"machine": "ec2", "model": "resnet152", "ranks": 64}, 981),
        ({"report": "001", "model": "vgg16", "quantity": "parameters"}, 138_357_544),
    ],
)
def test_published_cells_are_the_printed_ones(cell, value):
    table = Study().published
    assert table.loc[(table[[*cell]] == pd.Series(cell)).all(axis=1), "value"].tolist() == [value]


@pytest.mark.parametrize(
    ("text", "unit", "half"),
    [
        ("7", "x", 0.5),
        ("7.0", "x", 0.05),
        ("0.6760", "fraction", 0.00005),
        ("2.59e9", "bytes", 5e6),
        ("460e3", "count", 500),
        ("30607", "count", 0),  # counted
        ("many", "x", math.nan),
    ],
)
def test_half_a_unit_of_the_last_printed_digit(text, unit, half):
    assert tidy_columns.half_unit(text, unit) == pytest.approx(half, nan_ok=True)
