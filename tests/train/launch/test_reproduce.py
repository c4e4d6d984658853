import sys

import pytest
from rich.console import Console

from record import reproduction
from record import run_files as files
from record import schema as record
from tests.helpers.run_records import make_record
from train.config import compose
from train.config.checks import ConfigError, reported
from train.config.run_config import Reproduced
from train.launch import reproduce
from train.launch.launchers.base import Machine
from train.launch.plan.make_plan import Options
from train.launch.reproduce import Estimate, Planned, ReportPart

WEAK = ReportPart("weak_scaling", "Weak scaling", Reproduced("001", [2, 4, 5]))
NO_DATA = Planned(ReportPart("imdb_wiki", "Age", Reproduced("001")), why_not="no data [here]")


@pytest.fixture
def overrides(tmp_path):
    return ["model=tiny", "nodes=2", f"results={tmp_path / 'results'}", "measure.separate_launches=true"]


def plan(overrides, force=False, part=WEAK):
    return reproduce.plan(part, overrides, Machine(2, "no control groups"), force)


@pytest.fixture(scope="module")
def parts():
    """The experiments of each report."""
    return reproduce.parts()


def test_the_experiments_of_a_report_are_those_whose_files_name_it_in_the_order_of_its_figures(parts):
    experiments = {report: [part.experiment for part in by_report] for report, by_report in parts.items()}
    assert sorted(experiments) == ["000", "001", "002", "003", "004"]
    assert experiments["001"] == ["ranks_threads", "batch_sweep", "weak_scaling", "strong_scaling", "imdb_wiki"]
    sweep, weak = parts["001"][1:3]  # nodes are overridden where an experiment has them
    assert sweep.overrides(["nodes=8", "model=tiny"]) == ["experiment=batch_sweep", "model=tiny"]
    assert weak.overrides(["nodes=8"]) == ["experiment=weak_scaling", "nodes=8"]


def test_a_malformed_list_of_reproduced_figures_is_an_error_that_names_its_file(tmp_path, monkeypatch):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/own.yaml").write_text("reproduces: [{report: 1}]")
    monkeypatch.setattr(compose, "CONF", tmp_path)
    with pytest.raises(ConfigError, match=r"conf/experiment/own\.yaml: .*report"):
        reproduce.parts()


def test_a_plan_estimates_its_time_and_names_what_is_assumed(overrides):
    planned = plan(overrides)
    assert (planned.why_not, planned.plan.spanned, len(planned.runs), planned.to_do) == ("", 2, 4, 4)
    # one curve in rounds with a budget of 160 s, and a launch of the smaller point within it
    assert planned.estimate == Estimate(pytest.approx(160.0))
    for run in planned.runs:
        measured = make_record()
        measured.job_s = 40.0
        files.write_file(run.home / f"r{run.repeat}" / record.RECORD_NAME, record.dumps(measured))
    assert (plan(overrides).to_do, plan(overrides).estimate.text()) == (0, "nothing left")
    assert plan(overrides, force=True).to_do == 4


def test_what_cannot_run_here_has_its_reason(overrides, monkeypatch):
    assert "GPU" in plan([*overrides, "device=gpu"]).why_not

    def no_data(points, hosts_apart):
        raise ConfigError("dataset.data_dir=/none: no such folder;\n  see docs/data.md")

    monkeypatch.setattr(reproduce.point_checks, "check_input", no_data)
    assert plan(overrides).why_not == "dataset.data_dir=/none: no such folder; see docs/data.md"


def test_the_list_names_what_runs_and_what_cannot_on_a_terminal_of_80_characters(parts, overrides, capsys):
    reproduce.show_experiments([plan(overrides), NO_DATA], Console(soft_wrap=True, width=140))
    _, row, *lines = capsys.readouterr().out.splitlines()
    assert " ".join(row.split()) == "weak_scaling 2 4 4 about 3 min figures 2, 4 and 5"
    assert lines == ["in all 3 min at most", "cannot run here: imdb_wiki: no data [here]"]
    long = Estimate(100 * 3600.0, 300.0)  # "100 h 00 min, assumed"
    planned = [Planned(part, to_do=100, estimate=long) for by_report in parts.values() for part in by_report]
    reproduce.show_experiments(planned, Console(soft_wrap=True, width=80))
    *rows, _ = capsys.readouterr().out.splitlines()  # the last is the sum
    assert len(rows) == 1 + len(planned)
    assert all(len(row) <= 80 for row in rows)


@pytest.fixture
def carried_out(monkeypatch):
    """Replace the execution of plans; return the options of each call, and exit statuses by index, 1 by default."""
    calls, statuses = [], {}

    def carry_out(plan, options, console):
        calls.append(options)
        return statuses.get(len(calls) - 1, 1)

    monkeypatch.setattr(reproduce.execute, "carry_out", carry_out)
    return calls, statuses


@pytest.mark.parametrize(
    ("status", "count", "outcomes"),
    [
        (1, 2, [("failed", "4 of 4 launches have no complete record")] * 2),
        (130, 1, [("not run", "interrupted before it")] * 2),
    ],
    ids=["nothing was measured", "the first is interrupted"],
)
def test_each_plan_is_carried_out_and_its_outcome_recorded(tmp_path, overrides, carried_out, status, count, outcomes):
    carried_out[1][0] = status
    assert reproduce.reproduce("001", [plan(overrides), NO_DATA, plan(overrides)], overrides, True, tmp_path) == status
    assert carried_out[0] == [Options(("experiment=weak_scaling", *overrides), force=True)] * count
    recorded = [(outcome.status, outcome.why) for outcome in reproduction.read_reproduction(tmp_path, "001").outcomes]
    assert recorded == [outcomes[0], ("not run", "no data [here]"), outcomes[1]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dry-run", "007"], "REPORT=007: no such report; allowed are 000, 001, 002, 003, 004\n"),
        (["001", "nodes=two"], "nodes=two: must be of type integer"),  # though one experiment has one node in any case
        (["001", "model=tiny,resnet"], "model=resnet: there is no conf/model/resnet.yaml"),
        (["001", "optimizer.lr=0.1"], "optimizer.lr: no such key"),
    ],
)
def test_a_mistake_of_the_user_stops_before_anything_is_measured(monkeypatch, capsys, tmp_path, arguments, message):
    monkeypatch.setattr(sys, "argv", ["reproduce", *arguments, f"results={tmp_path / 'results'}"])
    assert reported(reproduce.main) == 2
    output = capsys.readouterr()
    assert output.err.startswith(f"error: {message}")
    assert (output.out, [*tmp_path.iterdir()]) == ("", [])


def test_an_override_that_some_experiment_of_the_report_allows_is_no_mistake(parts, overrides):
    # alone, a batch per rank and a global batch exclude each other
    with_batch = [*overrides, "global_batch=8"]
    strong = next(part for part in parts["001"] if part.experiment == "strong_scaling")
    assert reproduce.mistake([plan(with_batch, part=strong)], with_batch) == ""


def test_a_folder_that_cannot_hold_records_stops_before_anything_is_measured(
    monkeypatch, capsys, tmp_path, carried_out
):
    (tmp_path / "a file").touch()
    monkeypatch.setattr(sys, "argv", ["reproduce", "002", "model=tiny", f"results='{tmp_path}/a file'"])
    assert reported(reproduce.main) == 2
    assert f"results={tmp_path}/a file: a file; give a folder" in capsys.readouterr().err
    assert carried_out[0] == []
