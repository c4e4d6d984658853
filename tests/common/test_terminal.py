import pandas as pd
import pytest

from common.terminal import paragraph, show, text_table


@pytest.mark.parametrize(("columns", "blocks"), [(50, 3), (60, 2), (120, 1)])
def test_a_table_is_folded_to_the_terminal_and_each_block_tells_its_rows_apart(monkeypatch, columns, blocks):
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = pd.DataFrame(
        {
            "model": ["tiny", "tiny", "vgg16"],
            "threads\na rank": [1, 1, 1],
            "nodes": ["1", "2", "2"],
            "images/s": ["711.8 (479.5 to 1765)", "280.5", "6.1"],
            "speedup": ["1.00", "0.42 (0.17 to 0.59)", ""],
            "note": ["", "shared cores: invalid\nas a scaling result", ""],
        }
    )
    table = text_table(rows)
    assert max(map(len, table.splitlines())) <= columns
    assert [block.split()[0] for block in table.split("\n\n")] == ["model"] * blocks
    assert [line.split("  ")[0] for line in table.splitlines()].count("tiny") == 2 * blocks
    assert all(line in table for column in rows for value in map(str, rows[column]) for line in value.split("\n"))


def test_a_long_text_is_wrapped_within_its_cell_and_a_table_of_numbers_is_aligned_to_the_right():
    assert text_table(
        [{"run": "a", "why": "the quick brown fox jumps over the lazy dog"}, {"run": "b", "why": ""}]
    ) == (
        "run  why\n---  ----------------------------------\na    the quick brown fox jumps over the\n     lazy dog\nb"
    )
    assert text_table([{"ranks": "8", "wall\n[s]": "13.3"}], align="right") == (
        "ranks  wall\n        [s]\n-----  ----\n    8  13.3"
    )


def test_a_paragraph_is_wrapped_at_words_and_its_paths_stay_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    path = "results/weak-scaling/alexnet-rounds/a7ab5f15/r0"
    assert paragraph(f"a note on what is in {path} of today", "  ", "  ") == (
        f"  a note on what is in\n    {path}\n    of today"
    )
    monkeypatch.delenv("COLUMNS")
    assert max(map(len, paragraph("word " * 100).splitlines())) == 99  # of 100: no word is cut


def test_lines_are_wrapped_below_their_indentation_and_commands_stay_whole(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    command = "make weak-scaling NODES=2 ARGS=measure.budget_s=1200"
    show("  fix: install the compiler of your system now", command, "", f"first `{command}`, then this")
    assert capsys.readouterr().out.splitlines() == [
        "  fix: install the compiler of your",
        "    system now",
        command,
        "",
        "first",
        f"  `{command}`,",
        "  then this",
    ]
