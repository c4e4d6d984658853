"""One table as tabulate and pandas print it."""

import json

import pandas as pd
import pytest
import tabulate

from analysis.user_table import table_contract

FRAME = pd.DataFrame({"ranks": [1, 2, 4], "images_per_s": [100.5, 190.0, 360.25]})
PRINTED = {name: tabulate.tabulate(FRAME, "keys", tablefmt=name, showindex=False) for name in tabulate.tabulate_formats}
PRINTED |= {f"JSON {name}": FRAME.to_json(orient=name) for name in ("records", "split", "index", "columns", "table")}
PRINTED |= {
    "to_string": FRAME.to_string(), "to_html": FRAME.to_html(), "to_csv": FRAME.to_csv(),
    "to_latex": FRAME.to_latex(), "LaTeX with lines": FRAME.to_latex(column_format="|l|r|r|"),
    "HTML on a line": FRAME.to_html().replace("\n", ""), "lists": json.dumps(FRAME.to_dict("list")),
    "to_string without an index": FRAME.assign(step_s=1.5, gpu="A100").to_string(index=False),
    "an index": tabulate.tabulate(FRAME, "keys", tablefmt="presto"), "blanks": FRAME.to_csv(sep=" ", index=False),
    "blanks and an index": FRAME.to_csv(sep=" ").lstrip(),
    "rich": " ranks   images_per_s \n ──────────────────── \n 1       100.5 \n 2       190.0 \n 4       360.25 \n",
    "gnuplot": "# two curves\n# ranks images_per_s\n1 100.5\n2 190\n4 360.25\n",
}  # fmt: skip


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED)
def test_a_printed_table(tmp_path, text):
    (tmp_path / "t").write_text(text)
    runs = table_contract.read_table(tmp_path / "t").runs
    if text.count("\n") == 0:  # all rows are on its first line
        assert [place.rpartition(" ")[0] for place in runs["place"]] == ["t, row"] * 3
    assert runs[["ranks", "images_per_s"]].to_numpy().tolist() == FRAME.to_numpy().tolist()


@pytest.mark.parametrize(
    "text",
    [
        "ranks  time\n1  10\n2\n",
        "ranks time\n1 10 10.1\n2 5 5.2\n",
        "a sentence | with a pipe\nand another | line\n",
        "<p>none</p>",
    ],
)
def test_a_text_without_a_table(tmp_path, text):
    (tmp_path / "t").write_text(text)
    with pytest.raises(ValueError, match=r"no table that is known|no column of"):
        table_contract.read_table(tmp_path / "t")
