import pytest

from analysis import page
from analysis.__main__ import main
from analysis.figures import registry
from analysis.study import Study
from record import reproduction
from record.reproduction import ExperimentOutcome, Reproduction
from tests.helpers.drawn_figures import only_figures


def test_what_belongs_to_a_report(results):
    results.add(experiment="weak_scaling")
    results.add(experiment="overhead")
    study = results.study()
    scope = page.report_scope("001", study.published, results.folder)
    assert {"weak_scaling", "strong_scaling", "batch_sweep"} <= scope.experiments
    assert set(scope.narrowed(study).local["experiment"]) == {"weak_scaling"}
    ids = set(scope.figures(registry.figures(study.local)))
    assert {"001-figure-5", "own-weak-scaling-throughput"} <= ids
    assert all(id.startswith(("001-", "own-weak-scaling-")) for id in ids)


def test_the_outcomes_of_a_reproduction_are_listed_with_the_reasons(tmp_path):
    outcomes = [
        ExperimentOutcome("imdb_wiki", "Age", "not run", "no data"),
        ExperimentOutcome("weak_scaling", "Weak", "measured", "", ["nodes8: too large"], 3, 3, 125.0),
    ]
    reproduction.write_reproduction(Reproduction("001", outcomes), tmp_path)
    scope = page.report_scope("001", Study().published, tmp_path)
    assert "imdb_wiki" in scope.experiments
    assert [list(row.values()) for row in scope.rows()] == [
        ["weak_scaling", "Weak", "measured", "3 of 3", "2 min", "left out: nodes8: too large"],
        ["imdb_wiki", "Age", "not run", "", "", "no data"],
    ]


@pytest.mark.slow
def test_the_page_of_one_report(results, tmp_path):
    results.add(experiment="bnl_throughput", nodes=1)
    outcome = ExperimentOutcome("bnl_throughput", "AlexNet", "measured", runs=1, planned=1)
    reproduction.write_reproduction(Reproduction("002", [outcome]), results.folder)
    out = tmp_path / "page.html"
    with only_figures("002-throughput"):
        assert main(["report", "--report", "002", "--results", str(results.folder), "--out", str(out)]) == 0
    text = out.read_text()
    for part in ("<h1>Report 002, reproduced</h1>", 'id="report-002"', '<tr class="measured">', ">1 of 1</td>"):
        assert part in text
    assert 'id="report-001"' not in text
