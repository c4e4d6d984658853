import pandas as pd
import pytest

from analysis.__main__ import main


@pytest.mark.slow
def test_the_command_writes_both_formats(tmp_path, capsys):
    assert main(["tables", "--out", str(tmp_path)]) == 0
    assert len(pd.read_csv(tmp_path / "003.csv")) == 279
    assert (tmp_path / "004.md").read_text().startswith("# Report 004")
    assert "report 003: 279 of 279 stated numbers" in capsys.readouterr().out
