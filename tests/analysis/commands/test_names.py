"""Folders and files of any name, through the commands of all targets, without a launch.

How a name comes from make to these commands: tests/docs/test_makefile.py, tests/end_to_end/test_names.py.
"""

import os
import re
import runpy
import shutil
import sys

import pytest

from analysis.figures import registry
from tests.helpers import ROOT
from tests.helpers.composition_cache import cache_compositions  # noqa: F401  of a reproduction: each experiment
from tests.helpers.kit import run
from tests.helpers.run_records import make_record, save
from train.make import Variables, steps

pytestmark = pytest.mark.slow

# Each of Make, the shell, Hydra, OmegaConf, Docker and Slurm would read something into it.
NASTY = "it's \"a`touch b`$(touch c)${HOME};[é]: #%|(1), x=2\\"
LATIN = os.fsdecode(b"caf\xe9")
DRY = ("DRY_RUN=1", "MODELS=tiny", "NODES=2", "RESULTS={}")
SLURM = ("LAUNCHER=slurm", "SYSTEM=slurm", "ARGS=system.cores_per_node=4")
WORKS = (
    *((name, "RESULTS={}") for name in ("figures", "tables", "audit", "claims", "compare", "history", "status")),
    *((name, "RESULTS={}") for name in ("report", "wandb-sync", "summary")),
    *((name, "FILE={}.csv") for name in ("audit", "table", "explain", "predict")),
    *(("compare", "A={}", "B={}"), ("diagnose", "EXPERIMENT=weak_scaling", "RESULTS={}")),
    *(("bundle", "RESULTS={}", "SCRUB=1"), ("bundle-check",)),
    *(("reference", "RESULTS={}", "NAME=here"), ("check-reference", "RESULTS={}", "NAME=here")),
    *(("weak-scaling", *DRY), ("weak-scaling", *DRY, *SLURM), ("weak-scaling", *DRY, "CONTAINER=podman")),
    *(("tune", *DRY), ("timeline", *DRY), ("diagnose", *DRY), ("reproduce", *DRY, "REPORT=001", "DATA_DIR={}")),
)
REFUSED = (  # by a message that has the name
    ("weak-scaling", *DRY, "CONTAINER=singularity"),
    ("reference", "RESULTS={}", "NAME={}"),
    ("proposal", "RESULTS={}"),  # one launch is no curve
    *((name, "FILE={}.csv") for name in ("bundle-check", "evaluate", "appendix")),
    ("doctor", "CONTAINER=podman", "IMAGE={}"),
    *((name, "DATASET=cifar10", "DATA_DIR={}") for name in ("data-check", "input-bench")),
    ("data-fetch", "DATASET=cifar10", "DATA_DIR={}.csv/folder"),
)


def targets():
    """The targets that take names of files or folders, with one experiment for all."""
    listed = re.findall(r"^(?:MEASURING|ANALYSING) := (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = " ".join(listed).replace("$(EXPERIMENTS)", "weak-scaling").split()
    return {*shown, "diagnose", "evaluate"} - {"release"}


@pytest.fixture
def target(tmp_path, monkeypatch, capfd):
    """Run the commands of a target with the path of a folder of results, beside which a table has the same name.

    In this process, where that goes on, with the figures of the records alone: starting and drawing take minutes.
    """
    monkeypatch.setattr(registry, "figures", lambda local: {one.id: one for one in registry.experiment_figures(local)})
    (tmp_path / "kit").mkdir()
    monkeypatch.chdir(tmp_path / "kit")

    def command(name, target, *values):
        path = tmp_path / name
        if not path.exists():
            save(make_record(), path)
            shutil.copy(ROOT / "analysis/published/000_hacksa.csv", f"{path}.csv")
        variables = dict(value.replace("{}", str(path)).split("=", 1) for value in values)
        status = 0
        for step in steps(target, Variables(variables)):
            if step.command[0].startswith("train.tools"):  # which ends its process
                return run(sys.executable, "-m", *step.command)
            monkeypatch.setattr(sys, "argv", ["", *step.command[1:]])
            try:
                runpy.run_module(step.command[0], run_name="__main__", alter_sys=True)
            except SystemExit as ended:
                status = ended.code or 0
        return status, "".join(capfd.readouterr())

    return command


def test_a_nasty_name_goes_through_all_targets(target, tmp_path):
    assert {name for name, *_ in (*WORKS, *REFUSED)} == targets()
    for words in WORKS:
        status, output = target(NASTY, *words)
        assert status == 0, (words, output)
    for words in REFUSED:
        status, output = target(NASTY, *words)
        assert status in (1, 2), (words, output)
        assert "Traceback" not in output
        assert NASTY in output, (words, output)
    assert not {"b", "c"} & {path.name for folder in (tmp_path, tmp_path / "kit") for path in folder.iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == {"kit", NASTY, f"{NASTY}.csv"}


def test_bytes_that_are_no_text_are_no_traceback(target):
    for words in WORKS:
        if words[0] in ("audit", "table", "compare", "report", "reference", "status"):
            status, output = target(LATIN, *words)
            assert status in (0, 2), (words, output)
            assert "Traceback" not in output, (words, output)
            assert words[:2] != ("audit", "RESULTS={}") or "rename the folder" in output
    assert "not UTF-8" in target(LATIN, "weak-scaling", *DRY)[1]
