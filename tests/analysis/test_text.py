import io

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.text import csv_text
from tests.helpers.own_records import make_record, save
from train.record.record import Failure


@pytest.mark.slow
def test_what_a_record_says_reaches_the_terminal_without_escapes(tmp_path, capsys):
    save(make_record(failure=Failure("killed \x1b[31m\x1b]52;c;eA==\x07")), tmp_path)
    main(["audit", str(tmp_path)])
    main(["compare", "--results", str(tmp_path)])
    printed = capsys.readouterr()
    assert "\\x1b[31m" in printed.out
    assert "\x1b" not in printed.out + printed.err


def test_a_cell_is_no_formula():
    cells = ['=HYPERLINK("http://x","y")', "+1+1", "-2+3", "@x", "-0.5", "-1e3", "a=b", ""]
    text = csv_text(pd.DataFrame({"note": cells, "value": [-1.5] * len(cells)}))
    read = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    assert read["note"].tolist() == [
        *('\'=HYPERLINK("http://x","y")', "'+1+1", "'-2+3", "'@x"),
        *("-0.5", "-1e3", "a=b", ""),
    ]
    assert set(read["value"]) == {"-1.5"}
