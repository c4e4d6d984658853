"""Every command that the kit prints as advice is one that it could run: in its code, and over the golden records."""

import ast
import re
import shlex
import subprocess

import pytest

from analysis.diagnose import diagnosis_text
from analysis.diagnose.split import LOSSES, LateRank, split_curves
from analysis.stats import unknown
from analysis.study import Study
from common.typed_commands import changed
from tests.helpers import ROOT
from tests.helpers.launch_plans import make_plan
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


def commands(prose):
    """Yield the words of each command of make in a text, which may be wrapped."""
    for match in COMMAND.finditer(" ".join(prose.split())):
        yield ["make", match[1] or match[3], *shlex.split((match[2] or match[4] or "").rstrip("."))]


def in_code():
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return {shlex.join(words): path for path in files for literal in literals(path) for words in commands(literal)}


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


def diagnosed():
    """Return each command that a diagnosis of the golden records in rounds advises, and that of a short budget."""
    study = Study(ROOT / "tests/golden/results/rounds")
    [(curve, [*_, split])] = split_curves(study.local, study.records)
    rank = LateRank("n1", 1, (1,), unknown(0.1), True, 0.2, 0.1)
    advised = [diagnosis_text.advice(curve, split, part, late) for part in LOSSES for late in (None, rank)]
    longer = changed(curve.command, {"NODES": "2"}, {"measure.budget_s": "600"})
    return {shlex.join(command) for *_, command in advised} | {shlex.join(longer)}


@pytest.mark.slow
def test_advice_runs_here_and_on_the_machine_of_the_records():
    """Planned for two cores, with CPU quotas only where the records are of emulated nodes; the longest with DRY_RUN."""
    advised = {command: measures(shlex.split(command)) for command in sorted({*printed(), *diagnosed()})}
    # Others measure nothing, or on the user's hosts (tests/end_to_end/test_clusters.py).
    planned = {command: words for command, words in advised.items() if words and not command.endswith("HOSTS=")}
    assert len(planned) >= 5
    longest, *_ = (command for command in planned if "measure.budget_s=660" in command)  # for all its launches
    run = subprocess.run([*shlex.split(longest), "DRY_RUN=1"], cwd=ROOT, text=True, capture_output=True, check=False)
    assert run.returncode == 0, f"{longest}\n{run.stdout}{run.stderr}"
    assert "about 11 min for all launches" in run.stdout
    for command, overrides in planned.items():
        plan = make_plan(*overrides, no_quotas=None if "/emulated" in command else "no control groups")
        assert plan.points, command
        for config in (point.config for point in plan.points if not {*overrides} & SHARING):
            assert config.system.cpu_quota_per_node or config.ranks_of_job * config.threads_per_rank <= 2, command


def test_a_wrapped_command_is_read_and_a_target_that_does_not_exist_is_none():
    [words] = commands("try `make weak-scalin\nNODES=2 ARGS='a=1 b=2'`")
    assert words == ["make", "weak-scalin", "NODES=2", "ARGS=a=1 b=2"]
    assert words[1] not in TARGETS
