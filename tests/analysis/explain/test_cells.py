import pytest

from analysis import TableError
from analysis.explain import cells

GOOD = "ranks,steps_per_rank,batch_per_rank,wall_s,images_per_s_per_rank\n1,10,8,3.5,9\n"


def load(tmp_path, text):
    path = tmp_path / "points.csv"
    path.write_text(text)
    return cells.load(path)


def points(tmp_path, text):
    return cells.points(load(tmp_path, text))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_each_separator(tmp_path, separator):
    frame, notes = points(tmp_path, GOOD.replace(",", separator))
    assert frame["wall_s"].tolist() == [3.5]
    assert notes == []


def test_a_comma_is_a_decimal_point_between_semicolons(tmp_path):
    frame, _ = points(tmp_path, "GPUs;steps;batch per GPU;time [s]\n1;500;64;193,45\n")
    assert frame["wall_s"].tolist() == [193.45]


@pytest.mark.parametrize(("cell", "says"), [
    ("", "empty"), ("NaN", "'NaN' is no number"), ("fast", "'fast' is no number"), ("inf", "'inf' is no number"),
    ("-3", "-3 given, must be more than 0"), ("0", "0 given, must be more than 0"),
    ("1e-320", "1e-320 given, must be between 1e-09 and 1e+09"),
    ("1e30", "1e30 given, must be between 1e-09 and 1e+09"),
])  # fmt: skip
def test_one_rule_for_every_bad_cell(tmp_path, cell, says):
    frame, notes = points(tmp_path, GOOD + f"2,5,8,{cell},9\n4,3,8,1,9\n")
    assert frame["ranks"].tolist() == [1, 4]
    assert frame["line"].tolist() == [2, 4]
    assert notes == [f"{tmp_path / 'points.csv'}, line 3, column 'wall_s': {says}; the row is left out"]


THOUSANDS = "; write it without separators of thousands"
EITHER = ": of thousands, or decimals? Both ',' and '.' are in the file: use one, for decimals"


@pytest.mark.parametrize(("separator", "cell", "says"), [
    ("\t", "1,234", f"'1,234' is no number{THOUSANDS}"),
    (",", '"1,234.5"', f"'1,234.5' is no number{THOUSANDS}"),
    (";", "1.234,5", f"'1.234,5' is no number{THOUSANDS}"),
    (";", "3.200", f"'3.200'{EITHER}"),
    ("\t", "12,5", "'12,5' is no number; write a decimal point, or separate the cells by ';'"),
])  # fmt: skip
def test_separators_of_thousands_are_no_decimals(tmp_path, separator, cell, says):
    decimal = "," if separator == ";" else "."
    good = f"ranks,steps,batch_per_rank,wall_s\n1,10,8,3{decimal if decimal == '.' else '#'}5\n"
    text = good.replace(",", separator).replace("#", ",") + separator.join(["2", cell, "8", "2"]) + "\n"
    frame, notes = points(tmp_path, text)
    assert frame["wall_s"].tolist() == [3.5]
    assert notes == [f"{tmp_path / 'points.csv'}, line 3, column 'steps': {says}; the row is left out"]


def test_a_count_between_semicolons_that_may_be_of_thousands_is_not_guessed(tmp_path):
    frame, (note,) = points(tmp_path, "GPUs;steps;batch per GPU;time\n1;3.200;64;2.058\n4;800;64;535\n")
    assert frame["steps_per_rank"].tolist() == [800]
    assert "column 'steps': '3.200': of thousands, or decimals? Write it without a separator of thousands" in note


def test_a_point_is_a_decimal_point_between_semicolons_where_no_comma_is(tmp_path):
    frame, _ = points(tmp_path, "GPUs;steps;batch per GPU;time [s]\n1;500;64;193.455\n2;250;64;101.9\n")
    assert frame["wall_s"].tolist() == [193.455, 101.9]


@pytest.mark.parametrize("cell", ["", "NaN", "fast", "0"])
def test_a_bad_speed_costs_only_the_speed(tmp_path, cell):
    frame, (note,) = points(tmp_path, GOOD + f"2,5,8,2,{cell}\n")
    assert frame["images_per_s_per_rank"].isna().tolist() == [False, True]
    assert "line 3, column 'images_per_s_per_rank'" in note
    assert note.endswith("the row is used without it")


def test_half_a_rank_and_a_row_of_another_length_are_named(tmp_path):
    frame, notes = points(tmp_path, GOOD + "1.5,5,8,2,9\n\n2,5,8\n")
    assert frame["ranks"].tolist() == [1]
    assert "line 3, column 'ranks': 1.5 given, must be a whole number" in notes[0]
    assert "line 5: 3 cells, and 5 headers; separated by ','; the row is left out" in notes[1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a readable CSV file: it is empty"),
        ("GPUs,batch,time\n1,2,3\n", "'batch': of one rank or of the whole job"),
        ("GPUs,batch,time\n1,2,3\n", "column 'steps_per_rank' is missing"),
        ("ranks,steps_per_rnk,batch_per_rank,wall_s\n1,2,3,4\n", "is it 'steps_per_rnk'"),
        ("GPUs steps time\n1 2 3\n", "the first line, read as separated by ',', has the headers 'GPUs steps time'"),
        ("ranks,steps,batch_per_gpu,Wall time [min]\n1,2,3,4\n", "'Wall time [min]' is not in seconds: convert it"),
        ("ranks,steps,batch_per_gpu,train_ms\n1,2,3,4\n", "'train_ms' is not in seconds: convert it"),
        ("ranks,steps,batch_per_gpu,time\n", "no row can be used: there is none below the headers"),
        ('ranks,steps,batch_per_gpu,time\n1,2,3,"' + 140_000 * "4", "line 2: not a readable CSV file"),
        ("ranks,workers,steps,batch_per_gpu,time\n1,1,2,3,4\n", "columns 'ranks' and 'workers' are both ranks"),
        ("ranks,steps,batch_per_gpu,time\n1,2,3,x\n", "line 2, column 'time': 'x' is no number"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path, text, says):
    with pytest.raises(TableError) as error:
        points(tmp_path, text)
    assert says in str(error.value)
    assert str(tmp_path / "points.csv") in str(error.value)


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(TableError, match="No such file"):
        cells.load(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes("ranks".encode("utf-16"))
    with pytest.raises(TableError, match="not a readable CSV file: not in UTF-8; save it as 'CSV UTF-8'"):
        cells.load(tmp_path / "binary.csv")
