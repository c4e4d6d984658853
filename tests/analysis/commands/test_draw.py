import pytest

from analysis import TableError
from analysis.__main__ import main
from analysis.commands import draw
from analysis.figures import registry
from analysis.table import loading

pytestmark = pytest.mark.slow


def test_draw_skips_what_has_no_records_and_says_what_it_left_out(results, capsys):
    cut = results.add(nodes=1)
    cut.write_bytes(b"{")
    out = results.folder.parent / "figures"
    ids = ["002-throughput", "own-overhead"]
    assert main(["draw", *ids, "--results", str(results.folder), "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert f"not drawn, no records of it in {results.folder}: own-overhead" in printed.out
    assert str(cut) in printed.err
    assert sorted(path.name for path in out.iterdir()) == [
        "002-throughput.pdf", "002-throughput.png", "002-throughput.svg", "captions.md",
    ]  # fmt: skip
    captions = (out / "captions.md").read_text()
    assert "## 004-model-6" in captions
    assert "## own-overhead" not in captions


def test_an_unknown_figure_is_an_error(capsys, tmp_path):
    assert main(["draw", "001-figure-55", "--results", str(tmp_path)]) == 2
    assert "no figure is called '001-figure-55'; did you mean 001-figure-5" in capsys.readouterr().err
    with pytest.raises(TableError):
        draw.chosen(["nonsense"], registry.figures(loading.local(tmp_path).table))


def test_list_shows_every_figure_with_its_points(results, capsys):
    results.add(nodes=1)
    assert main(["list", "--results", str(results.folder)]) == 0
    printed = capsys.readouterr().out
    assert all(id in printed for id in registry.figures(results.table()))
    assert "own-weak-scaling-throughput" in printed
