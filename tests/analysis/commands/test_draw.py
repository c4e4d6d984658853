"""The command `report`. What the page says is tested in test_page.py."""

import re

import pytest

from analysis import TableError
from analysis.__main__ import main
from analysis.commands import draw
from analysis.figures import registry
from analysis.study import Study
from tests.helpers.own_studies import long_curve

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
        draw.chosen(["nonsense"], registry.figures(Study(tmp_path).local))


def test_list_shows_every_figure_with_its_points(results, capsys):
    results.add(nodes=1)
    assert main(["list", "--results", str(results.folder)]) == 0
    printed = capsys.readouterr().out
    assert all(id in printed for id in registry.figures(results.table()))
    assert "own-weak-scaling-throughput" in printed


@pytest.fixture
def few_figures(monkeypatch):
    """One figure of a report and what fits the local records."""
    every = registry.figures
    remaining = ("002-throughput", "own-overhead-throughput")
    monkeypatch.setattr(registry, "figures", lambda local: {k: v for k, v in every(local).items() if k in remaining})
    return remaining


def report(results, folder, *more):
    return main(["report", "--results", str(results.folder), "--out", str(folder / "new/r.html"), *more])


def test_it_keeps_the_figures_with_their_captions_where_that_is_asked_for(few_figures, results, tmp_path, capsys):
    results.add(experiment="overhead", nodes=1)
    assert report(results, tmp_path, "--figures", str(tmp_path / "drawn")) == 0
    page = (tmp_path / "new/r.html").read_text()
    drawn = {f"{name}.{suffix}" for name in few_figures for suffix in ("pdf", "png", "svg", "csv")}
    assert {path.name for path in (tmp_path / "drawn").iterdir()} == {*drawn, "captions.md"}
    assert all(f'<figure id="{name}"' in page for name in few_figures)
    assert (
        capsys.readouterr().out
        == f"{tmp_path}/new/r.html: {len(page.encode()) / 1e6:.1f} MB, opens without a network\n"
    )


def test_what_is_left_out_is_named(few_figures, results, tmp_path, capsys):
    cut = results.add(experiment="overhead", nodes=1)
    cut.write_bytes(cut.read_bytes()[:-9])
    assert report(results, tmp_path) == 0
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == 1
    assert printed[0].startswith(f"left out: {cut}")


def test_without_any_record_there_are_the_reports(few_figures, results, tmp_path):
    assert report(results, tmp_path) == 0
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["r.html"]
    assert "There is no complete run yet." in (tmp_path / "new/r.html").read_text()


def test_one_or_two_pages_and_a_page_of_html(tmp_path, capsys):
    long_curve(tmp_path / "results", "weak_scaling", (1, 0.95, 0.91, 0.88))
    long_curve(tmp_path / "results", "strong_scaling", (1, 0.92, 0.80, 0.60), strong=True)
    folder = tmp_path / "figures"
    job = ["--images", "1281167", "--epochs", "90", "--runs", "3"]
    assert main(["proposal", "--results", str(tmp_path / "results"), "--out", str(folder), *job]) == 0
    assert "(2 pages)" in capsys.readouterr().out
    pdf = (folder / "proposal.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type /Page\b", pdf)) == 2
    page = (folder / "proposal.html").read_text()
    assert page.count("<svg") == 1
    assert page.count('class="predicted"') == 8  # two sizes of two curves, in two tables
    assert "115,305,030 images; 3 of them" in page
    assert "threshold 75 %" in page


def test_a_threshold_is_a_fraction(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["proposal", "--results", str(tmp_path), "--threshold", "75"])
    assert "must be a fraction" in capsys.readouterr().err
