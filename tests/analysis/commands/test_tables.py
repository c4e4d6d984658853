import pandas as pd
import pytest

from analysis.user_table import table_contract


@pytest.mark.slow
def test_the_command_writes_both_formats(command, tmp_path):
    assert "report 003: 279 of 279 stated numbers" in command("tables", "--out", tmp_path).out
    assert len(pd.read_csv(tmp_path / "003.csv")) == 279
    assert (tmp_path / "004.md").read_text().startswith("# Report 004")


TEXT = "GPUs;Throughput (img/s);Speedup\n1;1.234,5;1,00\n2;2.345,5;1,90\n4;OOM;\n"


def test_it_shows_how_a_table_was_read_and_writes_it(command, tmp_path):
    path, out = tmp_path / "t.csv", tmp_path / "new/read.csv"
    path.write_text(TEXT)
    output = command("table", path, "--out", out).out
    assert "'Throughput (img/s)' -> images_per_s, of the whole job, img/s (it grows with the ranks)" in output
    assert f"note: {path}, line 4, column 'Throughput (img/s)': 'OOM' is not a number" in output
    again = table_contract.read_table(out).runs
    assert again["images_per_s"].tolist() == [1234.5, 2345.5]
    assert again["speedup"].tolist() == [1, 1.9]


@pytest.mark.parametrize("width", ["80", ""])
def test_the_width_of_a_terminal_is_no_header(tmp_path, width):
    path = tmp_path / "t.csv"
    path.write_text(TEXT)
    assert len(table_contract.read_table(path, width).runs) == 2
