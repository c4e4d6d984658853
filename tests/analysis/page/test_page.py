import base64
import gzip
import re
from html.parser import HTMLParser

import pytest

from analysis.commands import report
from analysis.page import _folded
from analysis.study import Study
from record.schema import Failure
from tests.helpers.drawn_figures import only_figures
from tests.helpers.run_records import make_record, save
from tests.helpers.studies import curve_in_rounds

pytestmark = pytest.mark.slow
FIGURES = ("own-overhead-throughput", "003-models")  # figures of local measurements come first
LOST = ("002-throughput", "004-model-1")  # without local points


def write(results, path):
    """Write the page of the records in `results`, with few of its figures; return its text."""
    with only_figures(*FIGURES, *LOST):
        report.write_page(Study(results), path)
    return path.read_text()


@pytest.fixture
def write_page(results, tmp_path):
    """Return a function that writes the page of the records in `results`."""
    return lambda: write(results.folder, tmp_path / "page.html")


@pytest.fixture(scope="module")
def empty_page(tmp_path_factory):
    """The page without any local record."""
    folder = tmp_path_factory.mktemp("bare")
    return write(folder / "results", folder / "page.html")


class Reader(HTMLParser):
    """Collect the tags of a page with their attributes; each end tag must close the tag opened last."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def values(self, *names):
        """Return the values of these attributes."""
        return [value for _, attributes in self.tags for name, value in attributes.items() if name in names]


def test_one_file_that_names_nothing_outside_it(results, write_page):
    results.add(experiment="overhead")
    text = write_page()
    assert write_page() == text  # the same records give the same page
    reader = Reader(text)
    assert reader.open == []
    assert "script" not in {tag for tag, _ in reader.tags}
    targets, ids = reader.values("src", "href"), reader.values("id")
    assert targets
    assert all(target.startswith(("data:", "#")) for target in targets)
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets if target.startswith("#")} <= set(ids)
    assert [at["id"] for tag, at in reader.tags if tag == "figure"] == list(FIGURES)
    for id, alt in zip(FIGURES, reader.values("alt"), strict=True):
        assert alt.startswith(f"{id}: ")
        assert len(alt) > len(id) + 40
    data = {at["download"]: at["href"] for _, at in reader.tags if at.get("class") == "data"}
    assert list(data) == [f"{id}.csv.gz" for id in FIGURES]
    assert all(gzip.decompress(base64.b64decode(uri.partition(",")[2])).count(b"\n") > 1 for uri in data.values())


@pytest.mark.parametrize(
    ("number", "names"),
    [
        ("000", ["HackSA", "Rodrigo Arias"]),
        ("001", ["Owens"]),
        ("002", ["BNL"]),
        ("003", ["spreadsheet", "596"]),  # the slip in the spreadsheet: 596 for 569 images/s
        ("004", ["MSOE", "Nigel Nelson, Lab 10"]),
    ],
)
def test_each_report_has_its_source_claims_findings_and_tables(empty_page, number, names):
    section = re.search(rf'<section id="report-{number}">(.*?)</section>', empty_page, re.S)[1]
    for part in (*names, "Claims (", "Findings (", "Derived numbers"):
        assert part in section


def test_figures_whose_points_are_lost_are_rows_of_a_table(empty_page):
    assert not any(f'<figure id="{id}"' in empty_page for id in LOST)
    tables = dict(re.findall(r'aria-label="lost figures of report (\d+)"(.*?)</table>', empty_page, re.S))
    assert [re.findall(r'data-label="figure"[^>]*>([^<]*)<', tables[number]) for number in ("002", "004")] == [
        [id] for id in LOST
    ]
    assert "almost linear throughput [...] up to 256 GPUs" in tables["002"]


def test_what_all_rows_of_a_wide_table_have_in_common_is_said_once():
    rows = [{"a": "1", "b": "2", "c": n, "verdict": "within", "d": "", "e": "5"} for n in ("3", "4")]
    same, others = _folded(rows)
    assert same == {"b": "2", "e": "5"}
    assert others == [{"a": "1", "c": "3", "verdict": "within"}, {"a": "1", "c": "4", "verdict": "within"}]
    narrow = [{"what": "GPU", "value": "none"}, {"what": "image", "value": "none"}]
    assert _folded(narrow) == ({}, narrow)


def test_a_page_begins_with_the_result_of_each_experiment_in_the_order_of_measurement(results, write_page):
    run = make_record(experiment="overhead")
    run.started_at = "2030-01-01T00:00:00+00:00"
    save(run, results.folder)
    curve_in_rounds(results.folder)  # begun before
    text = write_page()
    result, measured = text.index('<section id="result">'), text.index('<section id="local">')
    assert text.index("<section") == result
    sentence = "ResNet50 on 2 nodes is 1.57 (1.42 to 1.74) times as fast as on the smallest point, 78 % of the ideal."
    assert sentence in text[result:measured]  # the numbers of tests/analysis/test_speedups.py
    assert text.index("<h3>weak_scaling: ") < text.index("<h3>overhead: ")


def test_local_runs_with_how_they_were_made_and_no_markup_from_a_record(results, write_page):
    run = make_record(experiment="overhead", nodes=1, precision="bf16")
    run.notes = ["<script>alert(1)</script> & more"]
    save(run, results.folder)
    results.add(experiment="overhead", nodes=2, precision="bf16")
    results.add(experiment="weak_scaling", nodes=1, failure=Failure("killed at dawn"))
    text = write_page()
    assert "overhead: 2 runs on AMD EPYC 9B45, 4 cores" in text
    rows = re.findall(r"<td[^>]*>configuration\.(\w+)</td><td[^>]*>([^<]*)</td>", text)
    assert ("precision", "bf16") in rows
    assert ("nodes", "1 | 2") in rows
    assert re.search(r"environment\.versions\.tensorflow</td><td[^>]*>2\.18\.1<", text)
    assert "killed at dawn" in text
    assert str(results.paths[0]) in text
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in text
