import re

import pytest

from analysis.figures import registry
from tests.helpers.studies import long_curve

pytestmark = pytest.mark.slow


def test_draw_skips_what_has_no_records_and_says_what_it_left_out(results, command):
    cut = results.add(nodes=1)
    cut.write_bytes(b"{")
    out = results.folder.parent / "figures"
    printed = command("draw", "002-throughput", "own-overhead", "--results", results.folder, "--out", out)
    assert f"not drawn, no records of it in {results.folder}: own-overhead" in printed.out
    assert str(cut) in printed.err
    drawn = {f"002-throughput.{suffix}" for suffix in ("pdf", "png", "svg")}
    assert {path.name for path in out.iterdir()} == {*drawn, "captions.md"}
    captions = (out / "captions.md").read_text()
    assert "## 004-model-6" in captions
    assert "## own-overhead" not in captions


@pytest.mark.parametrize(("id", "like"), [("001-figure-55", "001-figure-5"), ("nonsense", "000-")])
def test_an_unknown_figure_is_an_error(command, tmp_path, id, like):
    refused = command("draw", id, "--results", tmp_path, status=2).err
    assert f"no figure is called '{id}'; did you mean {like}" in refused


def test_list_shows_every_figure_with_its_points(results, command):
    results.add(nodes=1)
    printed = command("list", "--results", results.folder).out
    assert "own-weak-scaling-throughput" in printed
    assert all(id in printed for id in registry.figures(results.table()))


@pytest.fixture
def few_figures(monkeypatch):
    """One figure of a report and what fits the local records."""
    every = registry.figures
    remaining = ("002-throughput", "own-overhead-throughput")
    monkeypatch.setattr(registry, "figures", lambda local: {k: v for k, v in every(local).items() if k in remaining})
    return remaining


@pytest.fixture
def report(few_figures, results, command, tmp_path):
    """Writes the page; what was printed, and the page."""

    def write(*more):
        printed = command("report", "--results", results.folder, "--out", tmp_path / "new/r.html", *more)
        return printed, (tmp_path / "new/r.html").read_text()

    return write


def test_it_keeps_the_figures_with_their_captions_where_that_is_asked_for(few_figures, results, report, tmp_path):
    results.add(experiment="overhead", nodes=1)
    printed, page = report("--figures", tmp_path / "drawn")
    drawn = {f"{name}.{suffix}" for name in few_figures for suffix in ("pdf", "png", "svg", "csv")}
    assert {path.name for path in (tmp_path / "drawn").iterdir()} == {*drawn, "captions.md"}
    assert all(f'<figure id="{name}"' in page for name in few_figures)
    megabytes = f"{len(page.encode()) / 1e6:.1f} MB"
    assert printed.out == f"{tmp_path}/new/r.html: {megabytes}, opens without a network\n"


def test_what_is_left_out_is_named(results, report):
    cut = results.add(experiment="overhead", nodes=1)
    cut.write_bytes(cut.read_bytes()[:-9])
    (line,) = report()[0].err.splitlines()
    assert line.startswith(f"left out: {cut}")


def test_without_any_record_there_are_the_reports(results, report, tmp_path):
    printed, page = report()
    assert f"{results.folder}: no such folder: the page has the reports alone" in printed.err
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["r.html"]
    assert "There is no complete run yet." in page


def test_one_or_two_pages_and_a_page_of_html(command, tmp_path):
    long_curve(tmp_path / "results", "weak_scaling", (1, 0.95, 0.91, 0.88))
    long_curve(tmp_path / "results", "strong_scaling", (1, 0.92, 0.80, 0.60), strong=True)
    folder = tmp_path / "figures"
    job = ("--images", "1281167", "--epochs", "90", "--runs", "3")
    assert "(2 pages)" in command("proposal", "--results", tmp_path / "results", "--out", folder, *job).out
    pdf = (folder / "proposal.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type /Page\b", pdf)) == 2
    page = (folder / "proposal.html").read_text()
    assert page.count("<svg") == 1
    assert page.count('class="predicted"') == 8  # two sizes of two curves, in two tables
    assert "115,305,030 images; 3 of them" in page
    assert "threshold 75 %" in page
