"""Every command that the kit prints as advice is one that it could run: in its code, and over the golden records."""

import ast
import re
import shlex
import tomllib

import pytest

from tests.helpers import ROOT
from tests.helpers.launches import make_plan
from train.make import Variables, steps

VARIABLES = set(re.findall(r"^about\.([A-Z_]+)", (ROOT / "Makefile").read_text(), re.MULTILINE))
TARGETS = set(re.findall(r"^([a-z][a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
TARGETS |= {path.stem.replace("_", "-") for path in (ROOT / "conf/experiment").glob("*.yaml")}
WORD = r"(?:[A-Z_]+=(?:\"[^\"]*\"|'[^']*'|[^\s`;,:'\")]*)|'[A-Z_]+=[^']*')"
COMMAND = re.compile(rf"`make ([a-z-]+)((?: {WORD})*)`|\bmake ([a-z-]+)((?: {WORD})+)")
SHARING = {"experiment=equivalence"}  # losses, no times
FOLDERS = ("analysis", "train", "record", "common", "containers")


def literals(path):
    """Yield the texts in a Python file; a value that is filled in becomes 2."""
    tree = ast.parse(path.read_text())
    parts = {id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(value.value if isinstance(value, ast.Constant) else "2" for value in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def commands(text):
    """Yield the words of each command of make in a text, which may be wrapped."""
    for match in COMMAND.finditer(" ".join(text.split())):
        yield ["make", match[1] or match[3], *shlex.split((match[2] or match[4] or "").rstrip("."))]


def in_code():
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return {shlex.join(words): path for path in files for text in literals(path) for words in commands(text)}


def printed():
    files = [path for path in (ROOT / "tests/golden/printed").rglob("*.txt")]
    return {shlex.join(words): path for path in files for words in commands(path.read_text())}


def measures(words):
    """Return the overrides of the launch of a command; None if it starts none."""
    variables = Variables(dict(word.split("=", 1) for word in words[2:]) | {"DRY_RUN": "1"})
    launches = [step.command for step in steps(words[1], variables) if step.command[0] == "train.launch"]
    return [word for word in launches[0][1:] if not word.startswith("--")] if launches else None


@pytest.mark.slow
@pytest.mark.parametrize("source", [in_code, printed])
def test_advice_names_targets_and_variables_that_exist(source):
    commands = source()
    assert len(commands) >= 3
    for command, path in commands.items():
        _, target, *words = shlex.split(command)
        assert target in TARGETS, f"{path}: {command}"
        assert {word.partition("=")[0] for word in words} <= VARIABLES, f"{path}: {command}"


@pytest.mark.slow
@pytest.mark.parametrize("command", printed())
def test_printed_advice_could_run_on_the_machine_of_the_records(command):
    """Two cores, with CPU quotas only where the records are of emulated nodes: as many nodes as advised are planned."""
    overrides, emulated = measures(shlex.split(command)), "/emulated" in command
    if overrides is not None and not command.endswith("HOSTS="):  # the user's hosts: ...
        plan = make_plan(*overrides, no_quotas=None if emulated else "no control groups")
        assert plan.points
        for config in (point.config for point in plan.points if not {*overrides} & SHARING):
            assert config.system.cpu_quota_per_node or config.ranks_of_job * config.threads_per_rank <= 2


def test_the_commands_of_the_diagnosis_exist():
    cases = tomllib.loads((ROOT / "analysis/diagnose/advice.toml").read_text())
    assert {case["command"] for case in cases.values()} == {"larger batch", "again", "diagnose", "input-bench"}


def test_a_wrapped_command_is_read_and_a_target_that_does_not_exist_is_none():
    [words] = commands("try `make weak-scalin\nNODES=2 ARGS='a=1 b=2'`")
    assert words == ["make", "weak-scalin", "NODES=2", "ARGS=a=1 b=2"]
    assert words[1] not in TARGETS
