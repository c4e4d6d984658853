import sys

import pytest
from rich.console import Console

from tests.helpers.run_records import make_record
from train.config import compose
from train.config.checks import ConfigError
from train.config.schema import Reproduced
from train.launch import reproduce
from train.launch.launchers.base import Machine
from train.launch.plan.make import Options
from train.launch.reproduce import Estimate, Part, Planned
from train.record import files, record, reproduction

WEAK = Part("weak_scaling", "Weak scaling", Reproduced("001", [5, 6]))
NO_DATA = Planned(Part("imdb_wiki", "Age", Reproduced("001")), why_not="no data [here]")


@pytest.fixture
def asked(tmp_path):
    return ["model=tiny", "nodes=2", "tracking=none", "launcher=local", f"results={tmp_path / 'results'}"]


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
    assert experiments["002"] == ["bnl_throughput"]


def test_a_list_of_what_is_reproduced_that_is_malformed_is_an_error_that_names_its_file(tmp_path, monkeypatch):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/own.yaml").write_text("reproduces: [{report: 1}]")
    monkeypatch.setattr(compose, "CONF", tmp_path)
    with pytest.raises(ConfigError, match=r"conf/experiment/own\.yaml: .*report"):
        reproduce.parts()


def test_nodes_are_asked_for_where_an_experiment_has_them(parts):
    sweep, weak = parts["001"][1:3]
    assert sweep.overrides(["nodes=8", "model=tiny"]) == ["experiment=batch_sweep", "model=tiny"]
    assert weak.overrides(["nodes=8"]) == ["experiment=weak_scaling", "nodes=8"]


def test_what_of_a_report_is_reproduced_is_reported_as_its_description_says_it(parts):
    for report, by_report in parts.items():
        for part in by_report:
            assert ", ".join(filter(None, (f"report {report}", part.figures))) in part.shows
    assert WEAK.figures == "figures 5 and 6"
    assert Part("a", "", Reproduced("001", [2, 4, 5])).figures == "figures 2, 4 and 5"
    assert Part("a", "", Reproduced("001", [2], [1, 2, 3])).figures == "figure 2, models 1 to 3"


def test_a_plan_says_how_long_and_what_of_that_is_assumed_until_it_is_measured(asked):
    planned = plan(asked)
    assert (planned.why_not, planned.plan.spanned, len(planned.runs), planned.to_do) == ("", 2, 4, 4)
    # one curve in rounds with a budget of 220 s, and a launch of the smaller point, 300 s until one was made
    assert planned.estimate == Estimate(pytest.approx(220.0), 300.0)
    assert planned.estimate.text() == "9 min, assumed"
    for run in planned.runs:
        measured = make_record()
        measured.job_s = 40.0
        files.write_once(run.home / f"r{run.repeat}" / record.RECORD_NAME, record.dumps(measured))
    again, forced = plan(asked), plan(asked, force=True)
    assert (again.to_do, again.estimate.text()) == (0, "nothing left")
    assert (forced.to_do, forced.estimate) == (4, Estimate(160.0, 0.0))


def test_what_cannot_run_here_has_its_reason(asked, monkeypatch):
    assert "GPU" in plan([*asked, "device=gpu"]).why_not

    def no_data(points, hosts_apart):
        raise ConfigError("dataset.data_dir=/none: no such folder;\n  see docs/data.md")

    monkeypatch.setattr(reproduce.checks, "check_input", no_data)
    assert plan(asked).why_not == "dataset.data_dir=/none: no such folder; see docs/data.md"


def test_the_list_names_what_runs_and_what_cannot_on_a_terminal_of_80_characters(parts, asked, capsys):
    reproduce.show([plan(asked), NO_DATA], Console(soft_wrap=True, width=140))
    shown = capsys.readouterr().out
    assert "weak_scaling" in shown
    assert "9 min, assumed" in shown
    assert "cannot run here: imdb_wiki: no data [here]" in shown
    assert "in all 9 min at most (assumed: of launches like none made here" in shown
    long = Estimate(100 * 3600.0, 300.0)  # "100 h 00 min, assumed"
    planned = [Planned(part, to_do=100, estimate=long) for by_report in parts.values() for part in by_report]
    reproduce.show(planned, Console(soft_wrap=True, width=80))
    *rows, _ = capsys.readouterr().out.splitlines()  # the last is the sum
    assert len(rows) == 1 + len(planned)
    assert all(len(row) <= 80 for row in rows)


@pytest.fixture
def carried_out(monkeypatch):
    """The options of the plans that are carried out, which do nothing; the exit status of each can be set by index."""
    asked_for, statuses = [], {}

    def carry_out(plan, options, console):
        asked_for.append(options)
        return statuses.get(len(asked_for) - 1, 1)

    monkeypatch.setattr(reproduce.execute, "carry_out", carry_out)
    return asked_for, statuses


@pytest.mark.parametrize(
    ("status", "count", "outcomes"),
    [
        (1, 2, [("failed", "4 of 4 launches have no complete record")] * 2),
        (130, 1, [("not run", "interrupted before it")] * 2),
    ],
    ids=["nothing was measured", "the first is interrupted"],
)
def test_each_plan_is_carried_out_and_what_came_of_it_is_kept(tmp_path, asked, carried_out, status, count, outcomes):
    carried_out[1][0] = status
    assert reproduce.reproduce("001", [plan(asked), NO_DATA, plan(asked)], asked, True, tmp_path) == status
    assert carried_out[0] == [Options(("experiment=weak_scaling", *asked), force=True)] * count
    came = [(one.status, one.why) for one in reproduction.read(tmp_path, "001").outcomes]
    assert came == [outcomes[0], ("not run", "no data [here]"), outcomes[1]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--dry-run", "007"], "REPORT=007: no such report; allowed are 000, 001, 002, 003, 004\n"),
        (["001", "nodes=two"], "nodes=two: must be of type integer"),  # though one experiment has one node in any case
        (["001", "model=tiny,resnet"], "model=resnet: there is no conf/model/resnet.yaml"),
        (["001", "optimizer.lr=0.1"], "optimizer.lr: no such key"),
    ],
)
def test_a_mistake_of_the_user_ends_it_before_anything_is_measured(monkeypatch, capsys, tmp_path, given, message):
    monkeypatch.setattr(sys, "argv", ["reproduce", *given, f"results={tmp_path / 'results'}"])
    assert reproduce.main() == 2
    output = capsys.readouterr()
    assert output.err.startswith(f"error: {message}")
    assert (output.out, [*tmp_path.iterdir()]) == ("", [])


def test_what_an_experiment_of_the_report_can_have_is_no_mistake(parts, asked):
    # alone, a batch per rank and a global batch exclude each other
    overrides = [*asked, "global_batch=8"]
    strong = next(part for part in parts["001"] if part.experiment == "strong_scaling")
    assert reproduce.mistake([plan(overrides, part=strong)], overrides) == ""


def test_a_folder_that_cannot_hold_records_ends_it_before_anything_is_measured(
    monkeypatch, capsys, tmp_path, carried_out
):
    (tmp_path / "a file").touch()
    given = ["reproduce", "002", "model=tiny", "tracking=none", f"results='{tmp_path}/a file'"]
    monkeypatch.setattr(sys, "argv", given)
    assert reproduce.main() == 2
    assert f"results={tmp_path}/a file: a file; give a folder" in capsys.readouterr().err
    assert carried_out[0] == []
