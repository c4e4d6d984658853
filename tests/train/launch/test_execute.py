import pytest
from rich.console import Console

from train.launch.execute import launch, show_plan
from train.launch.launchers.base import Hardware, Machine
from train.launch.launchers.local import Local
from train.launch.plan.make_plan import Options, make

WEAK = ("experiment=weak_scaling", "model=tiny", "nodes=2", "system.emulate=false")


def dry_run(capsys, tmp_path, *overrides) -> str:
    assert launch(Options((*overrides, f"results={tmp_path}"), dry_run=True), Console(soft_wrap=True, width=120)) == 0
    assert list(tmp_path.iterdir()) == []
    return capsys.readouterr().out


def test_a_dry_run_shows_the_points_and_their_commands(tmp_path, capsys):
    output = dry_run(capsys, tmp_path, *WEAK, "measure.separate_launches=true")
    assert "1 point, 1 launch: every repeat is a separate launch" in output
    rule = "until each ratio is known to ± 5 % or the time is over"
    assert f"1 curve in rounds, 3 launches or more of each, {rule}" in output
    effort = "measure.repeats=3 measure.design=rounds measure.precision_fraction=0.05 measure.curve_budget_s=160"
    assert f"MEASURE=quick is {effort}.0; ARGS changes each of them, measure.budget_s=SECONDS for the whole" in output
    assert "about 3 min for all launches" in output
    assert "train.launch.start.gloo --ranks 2 --hosts localhost:2 --" in output


def test_the_plan_of_a_program_says_when_its_launches_end_and_a_dry_run_looks_the_program_up(tmp_path, capsys):
    command = "program.command='no_such_program {ranks}'"
    output = dry_run(capsys, tmp_path, "experiment=scaling", command, "program.scaling=weak")
    assert "2 points, 12 launches or more, until each speedup is known to ± 5 %, or another of each" in output
    assert "would take more than 20 min" in output
    assert "measure.budget_s=1200.0; ARGS changes each of them\n" in output
    *_, first, second, warning = output.splitlines()
    assert (first, second) == ("no_such_program 1", "no_such_program 2")
    assert "warning: program.command=no_such_program {ranks}: no program no_such_program on PATH" in warning


@pytest.mark.slow
def test_a_dry_run_mounts_the_folder_that_a_run_would(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # a relative path would be the name of a volume to Docker
    overrides = (*WEAK, "results=results", "container=docker")
    assert launch(Options(overrides, dry_run=True, only="tiny-rounds"), Console(soft_wrap=True)) == 0
    command = capsys.readouterr().out.splitlines()[-1]
    assert f"--mount type=bind,source={tmp_path}/results/weak_scaling/tiny-rounds/" in command


def test_points_too_large_for_the_memory_are_left_out_and_the_status_says_so(tmp_path, monkeypatch, capsys):
    overrides = (*WEAK, f"results={tmp_path}")
    hosts = [Hardware("a", 0, 9 * 10**8), Hardware("b", 0), Hardware("c", 0, 10**12)]
    monkeypatch.setattr(Local, "hardware", lambda self, config: hosts)
    plan = make(overrides, Machine(2, "no control groups"))
    assert [point.name for point in plan.points] == ["tiny-nodes1"]
    show_plan(plan, Console(soft_wrap=True))
    assert "left out: tiny-nodes2: 2 ranks of about 0.5 GiB need" in capsys.readouterr().out
    monkeypatch.setattr(Local, "hardware", lambda self, config: [Hardware("a", 0, 10)])
    assert launch(Options(overrides), Console(soft_wrap=True)) == 1
    assert list(tmp_path.iterdir()) == []
