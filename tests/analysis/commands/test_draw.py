import pytest

from tests.helpers import launched
from tests.helpers.drawn_figures import only_figures
from tests.helpers.studies import long_curve

pytestmark = pytest.mark.slow


def test_draw_skips_what_has_no_records_and_says_what_it_left_out(results, command):
    truncated = results.add(nodes=1)
    truncated.write_bytes(b"{")
    out = results.folder.parent / "figures"
    output = command("draw", "002-throughput", "own-overhead", "--results", results.folder, "--out", out)
    assert f"not drawn, no records of it in {results.folder}: own-overhead" in output.out
    assert str(truncated) in output.err
    files = {f"002-throughput.{suffix}" for suffix in ("pdf", "png", "svg")}
    assert {path.name for path in out.iterdir()} == {*files, "captions.md"}
    captions = (out / "captions.md").read_text()
    assert "## 004-model-6" in captions
    assert "## own-overhead" not in captions


def test_the_list_of_figures_says_how_many_records_were_made_again(command, tmp_path):
    launched.launch(tmp_path / "results", 1, 0)
    record = launched.launch(tmp_path / "results", 2, 0) / "record.json"
    record.with_name("rank-0.host0.7.jsonl").unlink()
    output = command("list", "--results", tmp_path / "results")
    assert (
        "1 of 2 records made again from their files; 1 not compared: files of their launches are missing" in output.err
    )


def test_an_unknown_figure_is_an_error(command, tmp_path):
    error = command("draw", "001-figure-55", "--results", tmp_path, status=2).err
    assert "no figure is called '001-figure-55'; did you mean 001-figure-5" in error


@pytest.fixture
def few_figures():
    """One figure of a report and what fits the local records."""
    names = ("003-models", "own-overhead-throughput")
    with only_figures(*names):
        yield names


@pytest.fixture
def report(few_figures, results, command, tmp_path):
    """Return a function that writes the page and returns the output of the command and the page."""

    def write(*more):
        output = command("report", "--results", results.folder, "--out", tmp_path / "new/r.html", *more)
        return output, (tmp_path / "new/r.html").read_text()

    return write


def test_it_keeps_the_figures_with_their_captions_where_that_is_asked_for(few_figures, results, report, tmp_path):
    results.add(experiment="overhead", nodes=1)
    output, page = report("--figures", tmp_path / "drawn")
    files = {f"{name}.{suffix}" for name in few_figures for suffix in ("pdf", "png", "svg", "csv")}
    assert {path.name for path in (tmp_path / "drawn").iterdir()} == {*files, "captions.md"}
    assert all(f'<figure id="{name}"' in page for name in few_figures)
    megabytes = f"{len(page.encode()) / 1e6:.1f} MB"
    *figures, last = output.out.splitlines()
    assert sorted(figures) == sorted(f"  {name}" for name in few_figures)  # each once it is drawn
    assert last == f"{tmp_path}/new/r.html: {megabytes}, opens without a network"


def test_without_any_record_there_are_the_reports(results, report, tmp_path):
    output, page = report()
    assert f"{results.folder}: no such folder: the page has the reports alone" in output.err
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["r.html"]
    assert page.count("There is no complete run yet") == 2


def test_a_proposal_is_one_page_of_html_to_print(command, tmp_path):
    long_curve(tmp_path / "results", "weak_scaling", (1, 0.95, 0.91, 0.88))
    long_curve(tmp_path / "results", "strong_scaling", (1, 0.92, 0.80, 0.60), strong=True)
    job = ("--images", "1281167", "--epochs", "90", "--runs", "3")
    output = command("proposal", "--results", tmp_path / "results", "--out", tmp_path / "figures", *job).out
    assert "proposal.html: to send, print it" in output
    page = (tmp_path / "figures/proposal.html").read_text()
    # Two sizes of two curves are predicted, in three tables.
    assert (page.count("<svg"), page.count('class="predicted"'), page.count("@page { size: A4;")) == (1, 12, 1)
    assert "115,305,030 images; 3 of them" in page
