import re
from html.parser import HTMLParser

import pytest

from analysis.figures import files, registry
from analysis.page import analyse, page, sources
from analysis.study import Study
from tests.helpers.own_records import make_record, save
from train.record.record import Failure

pytestmark = pytest.mark.slow
SHOWN = ("own-overhead-throughput", "002-throughput")  # local measurements come first


def write(results, folder):
    """The page of the records in `results`, with two of its figures."""
    study = Study(results)
    figures = registry.figures(study.local)
    shown = [figures[id] for id in SHOWN if id in figures]
    with files.in_background(shown, study, folder, ("svg",)):
        analysed = analyse(study)
    return page(analysed, shown, folder)


@pytest.fixture
def written(results, tmp_path):
    """A function that writes the page of the records in `results`."""
    return lambda: write(results.folder, tmp_path / "figures")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The page without any local record."""
    folder = tmp_path_factory.mktemp("bare")
    return write(folder / "results", folder / "figures")


class Reader(HTMLParser):
    """What an HTML parser sees: the tags with their attributes, and the ends that have no beginning."""

    VOID = frozenset({"meta", "link", "img"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.wrong = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_one_file_that_names_nothing_outside_it(results, written):
    results.add(experiment="overhead")
    text = written()
    assert written() == text  # the same records give the same page
    read = Reader(text)
    assert (read.open, read.wrong) == ([], [])
    assert "script" not in {tag for tag, _ in read.tags}
    targets = [value for _, at in read.tags for key, value in at.items() if key in ("src", "href")]
    assert targets
    assert all(target.startswith(("data:", "#")) for target in targets)
    ids = [at["id"] for _, at in read.tags if "id" in at]
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets if target.startswith("#")} <= set(ids)
    assert all(at.get("alt") for tag, at in read.tags if tag == "img")
    assert [at["id"] for tag, at in read.tags if tag == "figure"] == list(SHOWN)


def test_each_report_has_its_claims_findings_and_tables(bare):
    for number, name in (("000", "HackSA"), ("001", "Owens"), ("002", "BNL"), ("003", "spreadsheet"), ("004", "MSOE")):
        section = re.search(rf'<section id="report-{number}">(.*?)</section>', bare, re.S)
        assert section is not None
        assert name in section[1]
        assert all(heading in section[1] for heading in ("Claims (", "Findings (", "Derived numbers"))
    assert "596" in bare  # the slip in the spreadsheet: 596 for 569 images/s
    assert "Rodrigo Arias" in bare


def test_without_records_the_page_says_so(bare):
    assert bare.count("There is no complete run yet.") == 2


def test_local_runs_with_how_they_were_made(results, written):
    results.add(experiment="overhead", nodes=1, precision="bf16")
    results.add(experiment="overhead", nodes=2, precision="bf16")
    results.add(experiment="weak_scaling", nodes=1, failure=Failure("killed at dawn"))
    text = written()
    assert "overhead: 2 runs on AMD EPYC 9B45, 4 cores" in text
    rows = re.findall(r"<td[^>]*>configuration\.(\w+)</td><td[^>]*>([^<]*)</td>", text)
    assert ("precision", "bf16") in rows
    assert ("nodes", "1 | 2") in rows
    assert re.search(r"environment\.versions\.tensorflow</td><td[^>]*>2\.18\.1<", text)
    assert "killed at dawn" in text
    assert str(results.paths[0]) in text


def test_what_a_record_says_is_text_and_no_markup(results, written):
    run = make_record(experiment="overhead")
    run.notes = ["<script>alert(1)</script> & more"]
    save(run, results.folder)
    text = written()
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in text


def test_every_report_has_its_citation():
    cited = sources()
    assert sorted(cited) == ["000", "001", "002", "003", "004"]
    assert cited["004"].startswith("Nigel Nelson, Lab 10")
