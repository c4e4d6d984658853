import pytest

from analysis import TableError
from analysis.user_table import answers, table_contract

TEXT = "ranks,mean\n1,8\n2,4.5\n"


def test_an_answer_beside_the_table_is_used_until_the_table_changes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(TEXT)
    assert answers.written(path, "mean=wall_s min").name == "t.csv.columns.yaml"
    assert table_contract.read_table(path).runs["wall_s"].tolist() == [480, 270]
    assert table_contract.read_table(tmp_path).runs["wall_s"].tolist() == [480, 270]
    assert table_contract.read_table(path, "80").runs["wall_s"].tolist() == [480, 270]  # the width of a terminal
    assert table_contract.read_table(path, "mean=wall_s").runs["wall_s"].tolist() == [8, 4.5]
    path.write_text(TEXT + "4,2.5\n")
    with pytest.raises(TableError, match=r"t\.csv has changed since its columns were named"):
        table_contract.read_table(path)
    assert table_contract.read_table(path, "mean=wall_s").runs["wall_s"].tolist() == [8, 4.5, 2.5]


@pytest.mark.parametrize("content", ["", "columns: 3", "sha256: a\ncolumns: {mean: fast}", "[", "sha256: a"])
def test_a_damaged_answer_is_refused(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_text(TEXT)
    answers.beside(path).write_text(content)
    with pytest.raises(TableError, match=r"t\.csv\.columns\.yaml|given; allowed"):
        table_contract.read_table(path)
