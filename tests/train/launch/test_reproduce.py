import sys

import pytest
from rich.console import Console

from tests.helpers.own_records import make_record
from train.config.checks import ConfigError
from train.config.schema import Reproduced
from train.launch import reproduce
from train.launch.launchers.base import Machine
from train.launch.plan.make import Options
from train.launch.reproduce import Estimate, Part, Planned
from train.record import files, record, reproduction

MACHINE = Machine(2, "no control groups")
WEAK = Part("weak_scaling", "Weak scaling", Reproduced("001", [5, 6]))


def asked(tmp_path, *more):
    return ["model=tiny", "nodes=2", "tracking=none", "launcher=local", f"results={tmp_path}", *more]


@pytest.fixture(scope="module")
def parts():
    """The experiments of each report."""
    return reproduce.parts()


def test_the_experiments_of_a_report_are_those_whose_files_name_it_in_the_order_of_its_figures(parts):
    result = {report: [part.experiment for part in of] for report, of in parts.items()}
    assert sorted(result) == ["000", "001", "002", "003", "004"]
    assert result["001"] == ["ranks_threads", "batch_sweep", "weak_scaling", "strong_scaling", "imdb_wiki"]
    assert result["002"] == ["bnl_throughput"]


def test_nodes_are_asked_for_where_an_experiment_has_them(parts):
    sweep, weak = (next(part for part in parts["001"] if part.experiment == name)
                   for name in ("batch_sweep", "weak_scaling"))  # fmt: skip
    assert sweep.asked(["nodes=8", "model=tiny"]) == ["experiment=batch_sweep", "model=tiny"]
    assert weak.asked(["nodes=8"]) == ["experiment=weak_scaling", "nodes=8"]
    assert (sweep.figures, weak.figures) == ("figures 3 and 4", "figures 5 and 6")


def test_what_of_a_report_is_reproduced_is_reported_as_its_description_says_it(parts):
    for report, of in parts.items():
        for part in of:
            assert ", ".join(filter(None, (f"report {report}", part.figures))) in part.shows
    assert Part("a", "", Reproduced("001", [2, 4, 5])).figures == "figures 2, 4 and 5"
    assert Part("a", "", Reproduced("001", [2], [1, 2, 3])).figures == "figure 2, models 1 to 3"


def test_a_plan_says_how_long_and_what_of_that_is_assumed(tmp_path):
    planned = reproduce.plan(WEAK, asked(tmp_path), MACHINE, force=False)
    assert (planned.why_not, planned.plan.spanned, len(planned.runs), planned.to_do) == ("", 2, 4, 4)
    # one curve in rounds with a budget of 220 s, and a launch of the smaller point, 300 s until one was made
    assert planned.estimate == Estimate(pytest.approx(220.0), 300.0)
    assert planned.estimate.text() == "9 min, assumed"


def test_what_is_measured_already_is_known(tmp_path):
    planned = reproduce.plan(WEAK, asked(tmp_path), MACHINE, force=False)
    for run in planned.runs:
        made = make_record()
        made.job_s = 40.0
        files.write_once(run.home / f"r{run.repeat}" / record.RECORD_NAME, record.dumps(made))
    again = reproduce.plan(WEAK, asked(tmp_path), MACHINE, force=False)
    assert (again.to_do, again.estimate.text()) == (0, "nothing left")
    forced = reproduce.plan(WEAK, asked(tmp_path), MACHINE, force=True)
    assert (forced.to_do, forced.estimate) == (4, Estimate(160.0, 0.0))


def test_what_cannot_run_here_has_its_reason(tmp_path, monkeypatch):
    few = reproduce.plan(WEAK, asked(tmp_path, "device=gpu"), MACHINE, force=False)
    assert "needs 1 GPUs" in few.why_not or "GPU" in few.why_not

    def no_data(points, hosts_apart):
        raise ConfigError("dataset.data_dir=/none: no such folder;\n  see docs/data.md")

    monkeypatch.setattr(reproduce.checks, "check_input", no_data)
    absent = reproduce.plan(WEAK, asked(tmp_path), MACHINE, force=False)
    assert absent.why_not == "dataset.data_dir=/none: no such folder; see docs/data.md"


def test_the_list_names_both(tmp_path, capsys):
    planned = [
        reproduce.plan(WEAK, asked(tmp_path), MACHINE, force=False),
        Planned(Part("imdb_wiki", "Age", Reproduced("001")), why_not="no data [here]"),
    ]
    reproduce.show(planned, Console(soft_wrap=True, width=140))
    shown = capsys.readouterr().out
    assert "weak_scaling" in shown
    assert "9 min, assumed" in shown
    assert "cannot run here: imdb_wiki: no data [here]" in shown
    assert "in all 9 min at most (assumed: of launches like none made here" in shown


def test_the_list_of_any_report_fits_a_terminal_of_80_characters(parts, capsys):
    long = Estimate(100 * 3600.0, 300.0)  # "100 h 00 min, assumed"
    planned = [Planned(part, to_do=100, estimate=long) for of in parts.values() for part in of]
    reproduce.show(planned, Console(soft_wrap=True, width=80))
    head, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == len(planned) + 1  # of each experiment one, and the sum
    assert all(len(row) <= 80 for row in (head, *rows[:-1]))


@pytest.fixture
def called(monkeypatch):
    """The options of the plans that are carried out, which do nothing; the exit status of each can be set by index."""
    asked_for, statuses = [], {}

    def carry_out(plan, options, console):
        asked_for.append(options)
        return statuses.get(len(asked_for) - 1, 1)

    monkeypatch.setattr(reproduce.execute, "carry_out", carry_out)
    return asked_for, statuses


def plans(tmp_path):
    planned = reproduce.plan(WEAK, asked(tmp_path), MACHINE, force=False)
    return [planned, Planned(Part("imdb_wiki", "Age", Reproduced("001")), why_not="no data"), planned]


def test_each_plan_is_carried_out_and_what_came_of_it_is_kept(tmp_path, called):
    overrides = asked(tmp_path)
    assert reproduce.reproduce("001", plans(tmp_path), overrides, True, tmp_path) == 1  # nothing was measured
    assert called[0] == [Options(("experiment=weak_scaling", *overrides), force=True)] * 2
    kept = reproduction.read(tmp_path, "001")
    assert [one.status for one in kept.outcomes] == ["failed", "not run", "failed"]
    assert kept.outcomes[0].why == "4 of 4 launches have no complete record"
    assert kept.outcomes[1].why == "no data"


def test_what_comes_after_an_interruption_is_reported_not_to_have_run(tmp_path, called):
    called[1][0] = 130
    assert reproduce.reproduce("001", plans(tmp_path), asked(tmp_path), False, tmp_path) == 130
    assert len(called[0]) == 1
    outcomes = reproduction.read(tmp_path, "001").outcomes
    assert [(one.status, one.why) for one in outcomes] == [
        ("not run", "interrupted before it"), ("not run", "no data"), ("not run", "interrupted before it"),
    ]  # fmt: skip


def test_a_report_that_is_none(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["reproduce", "--dry-run", "007"])
    assert reproduce.main() == 2
    assert capsys.readouterr().err == "error: REPORT=007: no such report; allowed are 000, 001, 002, 003, 004\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nodes=two", "nodes=two: must be of type integer"),  # though one of the experiments has one node in any case
        ("model=tiny,resnet", "model=resnet: there is no conf/model/resnet.yaml"),
        ("optimizer.lr=0.1", "optimizer.lr: no such key"),
    ],
)
def test_a_mistake_of_the_user_ends_it_before_anything_is_measured(monkeypatch, capsys, tmp_path, given, said):
    monkeypatch.setattr(sys, "argv", ["reproduce", "001", given, f"results={tmp_path / 'results'}"])
    assert reproduce.main() == 2
    output = capsys.readouterr()
    assert output.err.startswith(f"error: {said}")
    assert (output.out, [*tmp_path.iterdir()]) == ("", [])


def test_what_an_experiment_of_the_report_can_have_is_no_mistake(parts, tmp_path):
    # alone, a batch per rank and a global batch exclude each other
    overrides = asked(tmp_path, "global_batch=8")
    strong = next(part for part in parts["001"] if part.experiment == "strong_scaling")
    assert reproduce.mistake([reproduce.plan(strong, overrides, MACHINE, force=False)], overrides) == ""


def test_a_folder_that_cannot_hold_records_ends_it_before_anything_is_measured(monkeypatch, capsys, tmp_path, called):
    (tmp_path / "a file").touch()
    given = ["reproduce", "002", "model=tiny", "tracking=none", f"results='{tmp_path}/a file'"]
    monkeypatch.setattr(sys, "argv", given)
    assert reproduce.main() == 2
    assert f"results={tmp_path}/a file: a file; give a folder" in capsys.readouterr().err
    assert called[0] == []
