"""The commands of the Makefile's targets: each value is one argument, and the launcher reads it unchanged."""

import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tests.helpers import shell
from tests.helpers.kit import ROOT, TIMEOUT_S, command_lines, make_command, wait_for
from train import make
from train.config.compose import parse

# Characters that are special to a shell, Hydra or OmegaConf are more frequent than by chance.
TEXTS = st.text(st.sampled_from("\\'\"${}`;,:=[](){} \n#%|~aé1") | st.characters(codec="utf-8"), min_size=1)


def read_back(**variables):
    """The values of the overrides of a launch, as the launcher composes them."""
    items = parse(make.overrides(make.Variables(variables)))
    assert not any(item.is_sweep_override() for item in items)
    return {item.key_or_group: OmegaConf.create({"key": item.value()}).key for item in items}


@settings(max_examples=100)
@given(TEXTS, st.sampled_from([("RESULTS", "results"), ("DATA_DIR", "dataset.data_dir"), ("IMAGE", "container.image")]))
@example("run_10:30", ("RESULTS", "results"))
@example("${oc.env:HOME}", ("DATA_DIR", "dataset.data_dir"))
@example("1e3", ("IMAGE", "container.image"))
@example("null", ("RESULTS", "results"))
def test_a_text_is_read_unchanged(text, variable):
    name, key = variable
    assert read_back(**{name: text})[key] == text


def test_the_command_of_a_user_is_one_value_whatever_it_contains():
    command = "horovodrun -np {ranks} python 'my dir/my_train.py' --x \"$HOME\",1"
    values = read_back(COMMAND=command, RATE=r"rate on \d+: ([0-9.]+)", GLOBAL_BATCH="64")
    assert {key: value for key, value in values.items() if key != "device"} == {
        "batch_per_rank": None,
        "global_batch": 64,
        "program.name": "my_train",
        "program.command": command,
        "program.rate": r"rate on \d+: ([0-9.]+)",
    }


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("program.until='^step 9'", "^step 9"),
        ("program.until=\"'^step 9'\"", "^step 9"),
        ("program.rate='speed: {rate} (all)'", "speed: {rate} (all)"),
        ("program.rate=null", None),
    ],
)
def test_a_text_of_a_program_in_args_needs_the_quotes_of_a_shell_alone(typed, value):
    assert read_back(ARGS=typed)[typed.partition("=")[0]] == value


LAUNCH = {"NODES": "4", "MODELS": "a, null,o'brien", "HOSTS": "1e3,n2", "MEASURE": "report", "ARGS": "x=1 'y=[2, 3]'"}
LAUNCHED = (
    "train.launch --force experiment=weak_scaling device=cpu nodes=4 \"model=a,'null','o\\\\'brien'\" measure=report "
    "\"launcher.hosts=['1e3','n2']\" x=1 'y=[2, 3]' && analysis summary weak_scaling --brief --draw"
)
REPRODUCED = (
    "train.launch.reproduce -- 001 device=cpu nodes=2 \"results='r'\" && "
    "analysis report --report=001 --out=figures/reproduce-001.html --results=r"
)
TUNE = "train.launch experiment=tune device=cpu"
CHECKED = (
    f"analysis tune --dry-run --write=mine && {TUNE} && analysis tune --write=mine"  # first, that it can be written
)


@pytest.mark.parametrize(
    ("target", "variables", "commands"),
    [
        ("weak-scaling", LAUNCH | {"FORCE": "1"}, LAUNCHED),
        ("weak-scaling", {"DRY_RUN": "1"}, "train.launch --dry-run experiment=weak_scaling device=cpu"),
        ("overhead", {"LAUNCHER": "slurm"}, "train.launch experiment=overhead device=cpu launcher=slurm"),
        ("tune", {"LAUNCHER": "ssh", "ARGS": "launcher=slurm"}, f"{TUNE} launcher=ssh launcher=slurm"),
        ("tune", {"WRITE": "mine"}, CHECKED),
        ("diagnose", {"EXPERIMENT": "x", "RESULTS": "r"}, "analysis diagnose x --draw --results=r"),
        ("diagnose", {}, "train.launch experiment=diagnose device=cpu && analysis diagnose diagnose --draw"),
        ("reproduce", {"REPORT": "001", "NODES": "2", "RESULTS": "r"}, REPRODUCED),
        ("bundle", {"SCRUB": "0"}, "analysis bundle"),
        ("bundle", {"SCRUB": "1"}, "analysis bundle --scrub"),
        ("audit", {"RESULTS": "my results"}, "analysis audit 'my results'"),
        ("audit", {"RESULTS": "r", "FILE": "-x"}, "analysis audit --file=-x"),
        ("evaluate", {"ONLY": "E1, E3"}, "analysis evaluate --only=E1,E3 figures/bundle.tar.gz"),
        ("bundle-check", {"FILE": "-x"}, "analysis bundle-check ./-x"),
        ("bundle-check", {}, "analysis bundle-check figures/bundle.tar.gz"),
        ("compare", {"A": "a b", "B": "c", "COLUMNS": "x=ranks"}, "analysis compare --columns=x=ranks 'A=a b' B=c"),
        ("data-check", {"DATASET": "fruit"}, "train.tools.data_check dataset=fruit"),
        ("data-fetch", {"URL": "u"}, "train.tools.data_fetch --url=u -- cifar10 data/cifar10"),
        ("doctor", {"NODES": "4"}, "train.tools.doctor --ranks=4"),
        ("explain", {"EXPERIMENT": "x"}, "analysis explain --experiment=x"),
        ("input-bench", {"NODES": "4"}, "train.tools.input_bench device=cpu"),
        ("predict", {"EXPERIMENT": "weak-scaling", "TO": "8 16"},
         "analysis predict --draw --experiment=weak_scaling --to=8,16"),
    ],
)  # fmt: skip
def test_the_commands_of_a_target(target, variables, commands):
    steps = make.steps(target, make.Variables(variables))
    assert [step.command for step in steps] == [tuple(shlex.split(command)) for command in commands.split(" && ")]


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ({"ARGS": "a='b"}, "ARGS=a='b: No closing quotation"),
        ({"EXPERIMENT": "x"}, "EXPERIMENT=x: make timeline measures, and reads no other experiment"),
    ],
)
def test_a_launch_refuses_what_it_cannot_read_or_use(variables, error):
    with pytest.raises(ValueError, match=error):
        make.steps("timeline", make.Variables(variables))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statuses", "status", "log"),
    [
        ([(0, True), (0, True)], 0, "00"),
        ([(1, True), (0, True)], 1, "10"),  # what was measured is shown
        ([(0, True), (1, True)], 1, "01"),
        ([(0, True), (1, False)], 0, "01"),
        ([(2, True), (0, True)], 2, "2"),  # it did not start: there is nothing to show
    ],
)
def test_the_exit_status_and_lines_for_the_end_follow_all_commands(monkeypatch, tmp_path, capfd, statuses, status, log):
    script = "import os, sys\nprint('now')\ncode = sys.argv[1]\n"
    script += "if code != '2': open(os.environ['LAST_LINES'], 'a').write(code)\n"
    (tmp_path / "ended.py").write_text(f"{script}sys.exit(int(code))")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert make.run([make.MakeStep(("ended", str(code)), counts) for code, counts in statuses]) == status
    assert capfd.readouterr().out == "now\n" * len(log) + (f"\n{log}\n" if status < 2 else "")


@pytest.mark.slow
def test_sigterm_ends_the_command_and_the_target(tmp_path):
    (tmp_path / "waits.py").write_text("import sys, time\nopen(sys.argv[1], 'w').close()\ntime.sleep(600)")
    began, later = tmp_path / "began", tmp_path / "later"
    steps = f"[make.MakeStep(('waits', {str(began)!r})), make.MakeStep(('waits', {str(later)!r}))]"
    child = subprocess.Popen(
        [sys.executable, "-c", f"import sys; from train import make; sys.exit(make.run({steps}))"],
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}"},
    )
    wait_for(began.exists)
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=TIMEOUT_S) == 128 + signal.SIGTERM
    assert not later.exists()


def python_of(pid: int) -> list[psutil.Process]:
    """The children of a process that run this Python."""
    with suppress(psutil.Error):  # one has just ended
        return [child for child in psutil.Process(pid).children() if child.cmdline()[:1] == [sys.executable]]
    return []


@pytest.mark.slow
def test_a_make_that_is_killed_ends_what_it_started_from_the_first_moment_on(tmp_path):
    command = make_command(tmp_path / "kit", "weak-scaling", "NODES=1", "MODELS=tiny", f"RESULTS={tmp_path}/results")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=dict(shell.ENVIRONMENT), **quiet) as user_make:
        wait_for(lambda: python_of(user_make.pid))
        [child] = python_of(user_make.pid)
        user_make.kill()
    child.wait(TIMEOUT_S)
    wait_for(lambda: not command_lines(tmp_path))
