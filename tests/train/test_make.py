"""The commands of the Makefile's targets: each value is one argument, read back as it was given."""

import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tests.helpers import ROOT
from train import make
from train.config import quoted
from train.config.compose import parse

# Of the characters that a shell, Hydra or OmegaConf reads something into, more than by chance.
TEXTS = st.text(st.sampled_from("\\'\"${}`;,:=[](){} \n#%|~aé1") | st.characters(codec="utf-8"), min_size=1)


def commands(target, **variables):
    return [step.command for step in make.steps(target, make.Variables(variables))]


def read_back(override):
    """The value of an override as the launcher composes it."""
    item = parse([override])[0]
    assert not item.is_sweep_override()
    return OmegaConf.create({"key": item.value()}).key


@settings(max_examples=100)
@given(TEXTS)
def test_a_quoted_text_is_read_as_it_is(text):
    assert read_back(f"results={quoted(text)}") == text


@pytest.mark.parametrize(
    "text", ["o'brien", "my results", "run_10:30", "${oc.env:HOME}", "\\${x}", "a\\", "1e3", "null"]
)
def test_folders_are_read_as_they_are(text):
    given = make.Variables({"RESULTS": text, "DATA_DIR": text, "IMAGE": text, "HOSTS": "1e3,n2"})
    found = dict(line.split("=", 1) for line in make.overrides(given))
    for key in ("results", "dataset.data_dir", "container.image"):
        assert read_back(f"{key}={found[key]}") == text
    assert found["launcher.hosts"] == "['1e3','n2']"


def test_overrides_of_a_launch():
    assert commands("weak-scaling", NODES="4", MODELS="a, b-2", MEASURE="report", ARGS="x=1 'y=[2, 3]'", FORCE="1") == [
        (
            "train.launch", "--force", "experiment=weak_scaling",
            "device=cpu", "nodes=4", "model=a,b-2", "measure=report", "x=1", "y=[2, 3]",
        ),
        ("analysis", "summary", "weak_scaling", "--brief", "--draw"),
    ]  # fmt: skip


def test_a_name_that_hydra_would_read_is_quoted():
    assert make.overrides(make.Variables({"MODELS": "null,o'brien"})) == ["device=cpu", "model='null','o\\'brien'"]


def test_a_switch_is_off_by_zero():
    assert commands("bundle", SCRUB="0") == [("analysis", "bundle")]
    assert commands("bundle", SCRUB="1") == [("analysis", "bundle", "--scrub")]


@pytest.mark.parametrize("variables", [{"DRY_RUN": "1"}, {"LAUNCHER": "slurm"}])
def test_what_measures_later_has_no_summary(variables):
    assert len(commands("weak-scaling", **variables)) == 1


def test_diagnose_reads_records_of_an_experiment_or_measures():
    assert commands("diagnose", EXPERIMENT="x", RESULTS="r") == [("analysis", "diagnose", "x", "--draw", "--results=r")]
    assert [command[0] for command in commands("diagnose")] == ["train.launch", "analysis"]


def test_tune_first_looks_whether_it_can_write():
    assert [command[:3] for command in commands("tune", WRITE="mine")] == [
        ("analysis", "tune", "--dry-run"),
        ("train.launch", "experiment=tune", "device=cpu"),
        ("analysis", "tune", "--write=mine"),
    ]


def test_reproduce_writes_the_page_of_the_report():
    assert commands("reproduce", REPORT="001", NODES="2", RESULTS="r") == [
        ("train.launch.reproduce", "--", "001", "device=cpu", "nodes=2", "results='r'"),
        ("analysis", "report", "--report=001", "--out=figures/reproduce-001.html", "--results=r"),
    ]


@pytest.mark.parametrize(
    ("target", "variables", "command"),
    [
        ("audit", {"RESULTS": "my results"}, ("analysis", "audit", "my results")),
        ("audit", {"RESULTS": "r", "FILE": "-x"}, ("analysis", "audit", "--file=-x")),
        ("appendix", {"STYLE": "eurosys"}, ("analysis", "appendix", "--style=eurosys")),
        ("evaluate", {"ONLY": "E1, E3"}, ("analysis", "evaluate", "--only=E1,E3", "figures/bundle.tar.gz")),
        (
            "proposal",
            {"EXPERIMENT": "weak_scaling,strong_scaling", "THRESHOLD": "0.7", "RUNS": "3"},
            ("analysis", "proposal", "--experiment=weak_scaling,strong_scaling", "--threshold=0.7", "--runs=3"),
        ),
        ("release", {}, ("train.tools.release",)),
        ("bundle-check", {"FILE": "-x"}, ("analysis", "bundle-check", "./-x")),
        ("bundle-check", {}, ("analysis", "bundle-check", "figures/bundle.tar.gz")),
        ("compare", {"A": "a b", "B": "c"}, ("analysis", "compare", "A=a b", "B=c")),
        (
            "compare",
            {"A": "a", "B": "b", "COLUMNS": "x=ranks"},
            ("analysis", "compare", "--columns=x=ranks", "A=a", "B=b"),
        ),
        ("data-check", {"DATASET": "fruit"}, ("train.tools.data_check", "dataset=fruit")),
        ("data-fetch", {"URL": "u"}, ("train.tools.data_fetch", "--url=u", "--", "cifar10", "data/cifar10")),
        ("doctor", {"NODES": "4"}, ("train.tools.doctor", "--ranks=4")),
        ("explain", {}, ("analysis", "explain", "analysis/published/000_hacksa.csv")),
        ("explain", {"EXPERIMENT": "x"}, ("analysis", "explain", "--experiment=x")),
        ("history", {}, ("analysis", "history", "--draw", "weak_scaling")),
        ("input-bench", {"NODES": "4"}, ("train.tools.input_bench", "device=cpu")),
        ("predict", {"TO": "8 16"}, ("analysis", "predict", "--draw", "--to=8,16")),
        ("reference", {"NAME": "here"}, ("analysis", "reference", "here")),
        ("status", {}, ("train.launch.status", "results")),
    ],
)
def test_targets_of_one_command(target, variables, command):
    assert commands(target, **variables) == [command]


def test_a_quote_without_its_partner_is_named():
    with pytest.raises(ValueError, match="ARGS=a='b: No closing quotation"):
        make.overrides(make.Variables({"ARGS": "a='b"}))


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that ends with the exit status that it is given, after it wrote that down."""
    (tmp_path / "ended.py").write_text(
        "import sys\nopen(sys.argv[1], 'a').write(sys.argv[2])\nsys.exit(int(sys.argv[2]))"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return lambda status, counts=True: make.Step(("ended", str(tmp_path / "log"), str(status)), counts)


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
def test_the_exit_status(module, tmp_path, statuses, status, log):
    assert make.run([module(*one) for one in statuses]) == status
    assert (tmp_path / "log").read_text() == log


@pytest.mark.slow
def test_sigterm_ends_the_command_and_the_target(tmp_path):
    (tmp_path / "waits.py").write_text("import sys, time\nopen(sys.argv[1], 'w').close()\ntime.sleep(600)")
    began, later = tmp_path / "began", tmp_path / "later"
    steps = f"[make.Step(('waits', {str(began)!r})), make.Step(('waits', {str(later)!r}))]"
    child = subprocess.Popen(
        [sys.executable, "-c", f"import sys; from train import make; sys.exit(make.run({steps}))"],
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}"},
    )
    end = time.monotonic() + 60
    while not began.exists() and time.monotonic() < end:
        time.sleep(0.05)
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=60) == 128 + signal.SIGTERM
    assert not later.exists()


def test_a_command_of_ones_own_is_one_value_whatever_is_in_it():
    command = "horovodrun -np {ranks} python 'my dir/my_train.py' --x \"$HOME\",1"
    variables = make.Variables({"COMMAND": command, "RATE": r"rate on \d+: ([0-9.]+)", "GLOBAL_BATCH": "64"})
    result = make.overrides(variables)
    assert "batch_per_rank=null" in result
    assert "global_batch=64" in result
    (text,) = [line.partition("=")[2] for line in result if line.startswith("program.command=")]
    parsed = parse([f"program.command={text}", next(line for line in result if line.startswith("program.rate="))])
    assert [item.value() for item in parsed] == [command, r"rate on \d+: ([0-9.]+)"]
    assert "program.name='my_train'" in result
