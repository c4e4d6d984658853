"""The page in a real Chromium: no complaint, no request, no sideways scrolling on a phone, no figure cut on paper."""

import pytest

from analysis.commands.report import write_page
from analysis.page import ReportScope
from analysis.study import Study
from record.reproduction import ExperimentOutcome, Reproduction
from record.schema import Failure
from tests.helpers.browser import Browser
from tests.helpers.drawn_figures import only_figures
from tests.helpers.needs import needs
from tests.helpers.run_records import Results
from tests.helpers.studies import curve_in_rounds

pytestmark = [pytest.mark.slow, needs("chromium")]

A4_PX = (297 - 2 * 14) / 25.4 * 96  # the height between the margins, in CSS pixels
_FIGURES = ("own-weak-scaling-phases", "000-explained", "003-efficiency", "003-models")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser("chromium", tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("page")
    results = Results(tmp_path / "results")
    for nodes in (1, 2, 8):
        for repeat, step in enumerate((0.5, 0.52)):
            results.add(nodes=nodes, step_s=step, repeat=repeat)
    curve_in_rounds(results.folder, "vgg16")
    results.add(nodes=4, failure=Failure("a reason of one " + "very" * 60 + " long word"))
    with only_figures(*_FIGURES):
        write_page(results.study(), tmp_path / "report.html")
    return tmp_path / "report.html"


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """The page of a report of which an experiment could not be run, without figures."""
    path = tmp_path_factory.mktemp("reproduced") / "report.html"
    reason = "dataset.data_dir=null: dataset imdb_wiki reads files: give the folder, as in DATA_DIR=/data/imdb_wiki"
    title = "Age from a face, IMDB-WIKI: accuracy and mean absolute error in years (report 001); quick: 64 images"
    outcome = ExperimentOutcome("imdb_wiki", title, "not run", reason)
    with only_figures():
        write_page(Study(), path, only=ReportScope("001", frozenset({"imdb_wiki"}), Reproduction("001", [outcome])))
    return path


def test_a_bad_page_fails(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!DOCTYPE html><title>bad</title><img src='there.png'><div style='width: 2000px'>wide</div>"
        "<script>console.error('a complaint'); missing()</script>"
    )
    browser.open(bad, 400)
    assert [url.rpartition("/")[2] for url in browser.requests()] == ["there.png"]
    output = "\n".join(browser.console_messages())
    assert "a complaint" in output
    assert "missing is not defined" in output
    assert browser.value("document.documentElement.scrollWidth") >= 2000


@pytest.mark.parametrize("width", [360, 800, 1280, 1440])
def test_it_opens_without_complaint_request_or_sideways_scrolling(browser, page, width):
    browser.open(page, width)
    assert browser.requests() == browser.console_messages() == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    loaded = browser.value("[...document.images].map(image => image.complete && image.naturalWidth > 0)")
    assert loaded == [True] * len(_FIGURES)
    beyond = browser.value(
        "[...document.querySelectorAll('body *')].filter(e => "
        "e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert beyond == []
    wide = browser.value(
        "[...document.querySelectorAll('.box')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel)"
    )
    assert wide == []  # no table scrolls sideways either
    sizes = browser.value(
        "[...document.querySelectorAll('p, li, td, th, figcaption')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 13  # which can be read


@pytest.mark.parametrize("width", [800, 1024, 1200, 1440])
def test_the_result_of_a_reproduction_is_visible_without_scrolling(browser, reproduced, width):
    browser.open(reproduced, width)
    [fits] = browser.value(
        "[...document.querySelectorAll('#reproduced .box')].map(e => e.scrollWidth <= e.clientWidth)"
    )
    assert fits


@pytest.mark.parametrize("width", [360, 1440])
def test_the_contents_follow_and_hide_nothing(browser, page, width):
    browser.open(page, width)
    browser.value("document.querySelector('#report-003').scrollIntoView({behavior: 'instant'})")
    top, bottom, height = browser.value(
        "[document.querySelector('nav').getBoundingClientRect()].map(e => [e.top, e.bottom, innerHeight])[0]"
    )
    assert 0 <= top < bottom <= height
    title = browser.value("document.querySelector('#report-003 h2').getBoundingClientRect().top")
    assert title >= (bottom if width == 360 else 0)
    targets = browser.value("[...document.querySelectorAll('nav a')].map(a => a.hash)")
    own = ("#result", "#local", "#provenance", "#findings", "#beside")
    assert targets == [*own, *(f"#report-00{n}" for n in range(5))]


def test_it_prints_with_no_figure_and_no_column_cut(browser, page):
    browser.open(page, 1200)
    # as wide as the paper between its margins
    browser.ask("Emulation.setDeviceMetricsOverride", width=688, height=1017, deviceScaleFactor=1, mobile=False)
    browser.ask("Emulation.setEmulatedMedia", media="print")
    try:
        figures = browser.value(
            "[...document.querySelectorAll('figure')].map(e => "
            "[e.getBoundingClientRect().height, getComputedStyle(e).breakInside])"
        )
        assert [rule for _, rule in figures] == ["avoid"] * len(_FIGURES)
        assert max(height for height, _ in figures) < A4_PX
        wide = browser.value(
            "[...document.querySelectorAll('table')].map(e => "
            "e.getBoundingClientRect().right - document.documentElement.clientWidth)"
        )
        assert max(wide) <= 1
        clipped = browser.value(
            "[...document.querySelectorAll('.box')].filter(e => e.scrollHeight > e.clientHeight + 1).length"
        )
        assert clipped == 0
    finally:
        browser.ask("Emulation.setEmulatedMedia", media="")
