"""The command `report`. What the page says is tested in test_page.py."""

import pytest

from analysis.__main__ import main
from analysis.figures import registry

pytestmark = pytest.mark.slow


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
