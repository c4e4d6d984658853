"""The variables on the command line of make reach the commands unchanged; neither a shell nor Make executes them."""

import argparse
import importlib
import json
import os
import re
import subprocess
import sys

import pytest

from analysis import __main__ as analysis
from tests.helpers import ROOT
from tests.helpers.kit import make_command, run
from tests.helpers.path_programs import write_program
from tests.helpers.run_records import make_record, save
from train import make

pytestmark = pytest.mark.slow

# It replaces the environment's Python and logs its arguments and variables.
STUB = f"""#!{sys.executable}
import json, os, runpy, sys
if sys.argv[1:3] == ["-m", "train.make"]:
    sys.executable, sys.argv, sys.path[0] = __file__, sys.argv[2:], "."
    runpy.run_module("train.make", run_name="__main__")
with open(os.environ["LOG"], "a") as log:
    print(json.dumps([sys.argv[1:], dict(os.environ)]), file=log)
"""
# A file may have this name; Make, the shell, Hydra and OmegaConf would each interpret a part of it. A byte is no text.
NASTY = 'it\'s\\ "a`touch b`$(touch c)$(shell touch d)${SHELL}$$";touch e;\n [é]:#%|(1)' + os.fsdecode(b"\xe9") + "\\"
SWITCHES = {"ALL", "ATLAS", "DRY_RUN", "FORCE", "FROM_OCI", "SCRUB", "SPLIT", "STRICT", "UNIT"}


def variables() -> set[str]:
    return set(re.findall(r"^about\.([A-Z_]+)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def help_page(*arguments: str) -> list[str]:
    command = ["make", "help", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def help_targets() -> list[str]:
    return [match[1] for line in help_page("ALL=1") if (match := re.match("  ([a-z0-9-]+) ", line))]


def test_the_first_page_of_help_has_20_lines_and_names_targets_and_variables_that_exist():
    page = help_page()
    assert len(page) <= 20
    commands = [line.split() for line in page if line.startswith("make ")]
    assert {words[1] for words in commands} <= {*help_targets()}
    assert {word.partition("=")[0] for words in commands for word in words if re.match("[A-Z_]+=", word)} <= variables()
    assert page[-1].endswith("make help ALL=1")
    assert [line for line in [*page, *help_page("ALL=1")] if len(line) > 80] == []


def test_help_lists_each_variable_with_its_value_and_what_it_does():
    lines = [line for line in help_page("ALL=1") if re.match(r"  [A-Z_]+=\S", line)]
    assert {line.strip().partition("=")[0] for line in lines} == variables()
    assert '  ARGS="key=value"   any other key of conf/' in lines


@pytest.fixture
def kit(tmp_path, monkeypatch):
    """A kit with stubs for the programs of its environment."""
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    for part in ("Makefile", "common", "conf", "docs", "record", "train"):
        (tmp_path / part).symlink_to(ROOT / part)
    programs = [f".venv/bin/{name}" for name in ("python", "ruff", "mypy", "lint-imports")]
    for name in (*programs, ".venv/uv/bin/uv", ".ci/pythons", "requirements/setup.sh", "requirements/lock.sh"):
        write_program(tmp_path / name, STUB)
    return tmp_path


def commands(kit, *arguments):
    """Return the arguments and the variables of each command that make runs."""
    process = subprocess.run(["make", *arguments], cwd=kit, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in (kit / "log").read_text().splitlines()]


def test_no_value_is_run(kit, monkeypatch):
    """All targets are given to one make."""
    targets = [name for name in help_targets() if name not in ("help", "clean-env")]
    values = dict.fromkeys(sorted(variables() - {"ARGS", "DEVICE", "PYTHON"}), NASTY) | dict.fromkeys(SWITCHES, "0")
    del values["EXPERIMENT"]  # a target that measures refuses it
    (kit / NASTY).write_text("name: x")
    values["PROGRAM"] = str(kit / NASTY)
    values |= dict.fromkeys(("NODES", "REPEATS", "GLOBAL_BATCH"), "2")  # any other text is refused
    monkeypatch.setenv("PYTHON", str(kit / ".venv/bin/python"))
    half = dict(list(values.items())[::2])  # on the command line; the others are in the environment
    for name in values.keys() - half.keys():
        monkeypatch.setenv(name, values[name])
    before = set(kit.rglob("*"))
    commands(kit, "diagnose", "summary", f"EXPERIMENT={NASTY}")
    (kit / "log").unlink()
    calls = commands(kit, *targets, *(f"{name}={value}" for name, value in half.items()))
    assert len(calls) >= len(targets)
    assert {path.name for path in set(kit.rglob("*")) - before} <= {"log", "__pycache__"}
    for arguments, passed in calls:
        assert {name: passed[name] for name in values} == values, arguments


@pytest.mark.parametrize("name", sorted(variables() - SWITCHES - {"DEVICE", "PYTHON"}))
def test_every_variable_reaches_a_command(name):
    """Each is read in train/make.py, in containers/build.py or in a recipe."""
    readers = [ROOT / "train/make.py", ROOT / "containers/build.py"]
    recipes = "".join(re.findall(r"^\t.*", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert any(f'"{name}"' in path.read_text() for path in readers) or re.search(rf"\$\${{?{name}\b", recipes)


def test_targets_pass_on_each_variable_that_is_an_option_of_their_command():
    (targets,) = re.findall(r"^ANALYSING := (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    passed, declared = {}, {}
    for target in set(targets.split()) - {"release"}:
        (step,) = make.steps(target, make.Variables(dict.fromkeys(variables(), "1")))
        package, command, *arguments = step.command
        assert package == "analysis"
        parser = argparse.ArgumentParser()
        importlib.import_module(analysis.module(command)).declare(parser)
        options = {f"--{name.lower().replace('_', '-')}" for name in variables()} & {
            *re.findall(r"--[\w-]+", parser.format_usage())
        }
        by_others = {"--report"} if target == "report" else set()  # make reproduce passes that
        by_programs = {"--format"} if target != "summary" else set()  # docs/json.md
        declared[target] = options - by_others - by_programs
        passed[target] = {word.partition("=")[0] for word in arguments if word.startswith("--")} - {"--draw"}
    assert passed == declared


DEVICES = ("cpu ; touch b", "%", "cpu gpu")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (['";touch b;"'], "no target '\";touch b;\"'; make help ALL=1 lists them"),
        *((["doctor", f"DEVICE={device}"], f"DEVICE={device}: allowed are cpu gpu") for device in DEVICES),
        (["weak-scaling", "MODEL=resnet50"], "MODEL: no such variable; did you mean MODELS?"),
        (["weak-scaling", "nodes=2"], "nodes: no such variable; did you mean NODES?"),
        (["weak-scaling", "colour=2"], "colour: no such variable; make help ALL=1 lists them"),
        (["weak_scaling"], "no target 'weak_scaling'; did you mean weak-scaling?"),
    ],
)
def test_what_is_not_known_is_refused_and_not_run(kit, arguments, error):
    process = subprocess.run(["make", *arguments], cwd=kit, capture_output=True, text=True)
    assert process.returncode == 2
    assert error in process.stderr
    assert not (kit / "b").exists()


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["weak-scaling"], ".venv cpu"),
        (["weak-scaling", "DEVICE=gpu"], ".venv-gpu cuda"),
        (["weak-scaling", "DEVICE=gpu", "DRY_RUN=1"], ".venv-gpu launch"),
        (["reproduce", "REPORT=001", "DRY_RUN=1"], ".venv launch"),
        (["weak-scaling", "CONTAINER=podman"], ".venv launch"),
        (["weak-scaling", "CONTAINER=podman", "LAUNCHER=ssh"], ".venv cpu"),
        (["data-check", "CONTAINER=podman"], ".venv cpu"),
        (["scaling", "COMMAND=mpirun -np {ranks} ./solver"], ".venv launch"),
        (["scaling", "DEVICE=gpu"], ".venv-gpu launch"),
        (["summary"], ".venv analysis"),
    ],
)
def test_a_target_sets_up_what_it_needs_and_no_more(kit, arguments, environment):
    process = subprocess.run(["make", "-n", *arguments], cwd=kit, capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[0] == f"requirements/setup.sh {environment}"


# Of a module system, a notebook, pip.conf with `user = true`, and an encoding without German letters.
OTHERS = {
    "PYTHONHOME": "/opt/modules/python3.9",
    "PYTHONPATH": "/opt/modules/site-packages",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "PIP_USER": "1",
    "LC_ALL": "POSIX",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONOPTIMIZE": "2",  # removes docstrings, of which the help of commands is made
    "PYTHONINSPECT": "1",
    "PYTHONHASHSEED": "abc",
    "PYTHONSAFEPATH": "1",
}


def test_set_up_gets_no_setting_of_another_program(kit, monkeypatch):
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)
    [_, set_up], *_ = commands(kit, "summary")
    assert {name for name in OTHERS if name.startswith("PYTHON")} & set_up.keys() == {"PYTHONUTF8"}
    assert (set_up["PIP_USER"], set_up["PYTHONUTF8"]) == ("0", "1")
    *_, [_, launch] = commands(kit, "scaling", "COMMAND=./solver")
    assert launch["PYTHONPATH"] == OTHERS["PYTHONPATH"]  # the user's program may need it


def test_settings_of_other_programs_change_no_result(tmp_path):
    results = tmp_path / "größe"
    save(make_record(results=str(results)), results)
    for target in ("status", "audit"):
        command = make_command(tmp_path / "kit", target, f"RESULTS={results}", "STRICT=1")
        status, output = run(*command, variables=OTHERS)
        assert status == 0, output
        assert "Traceback" not in output


def test_python_may_have_a_space_in_its_path(kit):
    write_program(kit / "my python", STUB)
    assert commands(kit, "image", "PYTHON=./my python")[0][0] == ["-m", "containers.build", "image", "cpu"]


def test_more_options_for_pytest_are_read_as_by_a_shell(kit):
    calls = commands(kit, "test", "PYTEST_ARGS=-k 'a or b' tests/x.py")
    assert calls[-1][0] == ["-m", "pytest"]
    assert calls[-1][1]["PYTEST_ADDOPTS"].endswith("-k 'a or b' tests/x.py")
