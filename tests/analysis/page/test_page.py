import base64
import gzip
import re
from dataclasses import asdict

import msgspec
import pytest
from markupsafe import escape

from analysis.commands import report
from analysis.page import _folded
from analysis.study import Study
from record.schema import Failure, RunRecord
from tests.helpers.drawn_figures import only_figures
from tests.helpers.run_records import Results, make_record, save, update_derived
from tests.helpers.studies import curve_in_rounds

pytestmark = pytest.mark.slow
FIGURES = ("own-overhead-throughput", "003-models")  # figures of local measurements come first
LOST = ("002-throughput", "004-model-1")  # without local points


def write(results, path):
    """Write the page of the records in `results`, with few of its figures; return its text."""
    with only_figures(*FIGURES, *LOST):
        report.write_page(Study(results), path)
    return path.read_text()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two runs of one experiment, one with a note, and weak scaling, which began before and once failed."""
    filled = Results(tmp_path_factory.mktemp("filled") / "results")
    for nodes in (1, 2):
        run = make_record("overhead", nodes=nodes, precision="bf16")
        run.started_at = "2030-01-01T00:00:00+00:00"
        run.notes = ["<script>alert(1)</script> & more"] * (nodes - 1)
        save(run, filled.folder)
    curve_in_rounds(filled.folder)
    filled.add(experiment="weak_scaling", nodes=1, repeat=1, failure=Failure("killed at dawn"))
    return filled


@pytest.fixture(scope="module")
def page(results):
    """The page of these records."""
    return write(results.folder, results.folder.parent / "page.html")


@pytest.fixture(scope="module")
def empty_page(tmp_path_factory):
    """The page without any local record."""
    folder = tmp_path_factory.mktemp("bare")
    return write(folder / "results", folder / "page.html")


def test_one_file_that_names_nothing_outside_it(results, page):
    assert write(results.folder, results.folder.parent / "again.html") == page  # the same records give the same page
    assert "<script" not in page
    targets, ids = re.findall(r' (?:src|href)="([^"]*)"', page), re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert {target for target in targets if not target.startswith("data:")} <= {f"#{id}" for id in ids}
    assert re.findall(r'<figure id="([^"]*)"', page) == list(FIGURES)
    for id, alt in zip(FIGURES, re.findall(r' alt="([^"]*)"', page), strict=True):
        assert re.match(f"{id}: .{{40}}", alt)
    data = dict(re.findall(r'href="data:[^,"]*,([^"]*)" download="([^"]*)"', page))
    assert [*data.values()] == [f"{id}.csv.gz" for id in FIGURES]
    assert all(gzip.decompress(base64.b64decode(content)).count(b"\n") > 1 for content in data)


SECTIONS = {
    "000": ["HackSA", "Rodrigo Arias"],
    "001": ["Owens"],
    "002": ["BNL"],
    "004": ["MSOE", "Nigel Nelson, Lab 10"],
}
SECTIONS["003"] = ["spreadsheet", "596"]  # the slip in the spreadsheet: 596 for 569 images/s


@pytest.mark.parametrize(("number", "names"), SECTIONS.items())
def test_each_report_has_its_source_claims_findings_and_tables(empty_page, number, names):
    section = re.search(rf'<section id="report-{number}">(.*?)</section>', empty_page, re.S)[1]
    assert [part for part in (*names, "Claims (", "Findings (", "Derived numbers") if part not in section] == []


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


def test_a_page_begins_with_the_result_of_each_experiment_in_the_order_of_measurement(page):
    result, measured = page.index('<section id="result">'), page.index('<section id="local">')
    assert page.index("<section") == result
    sentence = "ResNet50 on 2 nodes is 1.57 (1.42 to 1.74) times as fast as on the smallest point, 78 % of the ideal."
    assert sentence in page[result:measured]  # the numbers of tests/analysis/test_speedups.py
    assert page.index("<h3>weak_scaling: ") < page.index("<h3>overhead: ")


def test_local_runs_with_how_they_were_made(results, page):
    assert "overhead: 2 runs on AMD EPYC 9B45, 4 cores" in page
    rows = re.findall(r"<td[^>]*>configuration\.(\w+)</td><td[^>]*>([^<]*)</td>", page)
    assert {("precision", "bf16"), ("nodes", "1 | 2")} <= {*rows}
    assert re.search(r"environment\.versions\.tensorflow</td><td[^>]*>2\.18\.1<", page)
    assert "killed at dawn" in page
    assert str(results.paths[0]) in page


HOSTILE = "</title></style></svg><img src=there.png onerror=hit()><script>hit()</script>'\"&lt;b&gt;"
WRITTEN = {"host", "cpu_model", "kernel", "system", "notes", "command", "reason", "versions", "variables", "image"}
WRITTEN |= {"group", "tags", "remark", "git_commit", "mpi"}


def marked(value, is_written=False):
    """Return what a record holds with HOSTILE behind each text that somebody wrote, or that a program printed."""
    if isinstance(value, dict):
        return {key: marked(inner, is_written or key in WRITTEN) for key, inner in value.items()}
    if isinstance(value, list):
        return [marked(inner, is_written) for inner in value]
    return value + HOSTILE if is_written and isinstance(value, str) else value


def test_what_a_record_says_is_text_and_no_markup(tmp_path):
    for nodes, failure in ((1, None), (2, None), (4, Failure("a reason", host="n1"))):
        run = make_record(nodes=nodes, failure=failure, notes=["a note"])
        save(update_derived(msgspec.convert(marked(asdict(run)), RunRecord)), tmp_path / "results")
    page = write(tmp_path / "results", tmp_path / "page.html")
    assert page.count("hit()") == 2 * page.count(str(escape(HOSTILE))) > 20
