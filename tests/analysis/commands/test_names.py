"""Folders and files of any name, given to the commands of all targets, without a launch.

How make passes a name on: tests/docs/test_makefile.py.
"""

import os
import re
import shutil

import pytest

from tests.helpers import ROOT
from tests.helpers.composition_cache import cache_compositions  # noqa: F401  a reproduction composes each experiment
from tests.helpers.drawn_figures import draw_quickly
from tests.helpers.path_programs import write_program
from tests.helpers.run_records import make_record, save
from tests.helpers.targets import run_target

pytestmark = pytest.mark.slow

# Make, the shell, Hydra, OmegaConf, Docker and Slurm would each interpret a part of it.
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
REFUSED = (  # with a message that has the name
    ("weak-scaling", *DRY, "CONTAINER=singularity"),
    ("reference", "RESULTS={}", "NAME={}"),
    ("proposal", "RESULTS={}"),  # one launch is no curve
    *((name, "FILE={}.csv") for name in ("bundle-check", "evaluate")),
    ("doctor", "CONTAINER=podman", "IMAGE={}"),
    *((name, "DATASET=cifar10", "DATA_DIR={}") for name in ("data-check", "input-bench")),
    ("data-fetch", "DATASET=cifar10", "DATA_DIR={}.csv/folder"),
)


def targets():
    """The targets that take names of files or folders, with one experiment for all."""
    lists = re.findall(r"^(?:MEASURING|ANALYSING) := (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    names = " ".join(lists).replace("$(EXPERIMENTS)", "weak-scaling").split()
    return {*names, "diagnose", "evaluate"} - {"release"}


@pytest.fixture
def target(tmp_path, monkeypatch, capfd):
    """Return a function that runs the commands of a target on a folder of results and a table of the same name.

    They run in this process where possible, and draw the figures of the records alone: all else takes minutes.
    """
    draw_quickly(monkeypatch)
    podman = write_program(tmp_path / "programs/podman", "echo 'Error: no such image' >&2; exit 125")
    monkeypatch.setenv("PATH", f"{podman.parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "kit").mkdir()
    monkeypatch.chdir(tmp_path / "kit")

    def command(name, target, *values):
        path = tmp_path / name
        if not path.exists():
            save(make_record(), path)
            shutil.copy(ROOT / "analysis/published/000_hacksa.csv", f"{path}.csv")
        variables = dict(value.replace("{}", str(path)).split("=", 1) for value in values)
        return run_target(target, variables, monkeypatch, capfd)

    return command


def test_a_nasty_name_goes_through_all_targets(target, tmp_path):
    assert {name for name, *_ in (*WORKS, *REFUSED)} == targets()
    for case in WORKS:
        status, output = target(NASTY, *case)
        # Made-up records have no files of ranks, of which they could be made again.
        assert status == int(case[0] == "bundle-check"), (case, output)
    for case in REFUSED:
        status, output = target(NASTY, *case)
        assert status in (1, 2), (case, output)
        assert "Traceback" not in output
        assert NASTY in output, (case, output)
    assert not {"b", "c"} & {path.name for folder in (tmp_path, tmp_path / "kit") for path in folder.iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == {"kit", "programs", NASTY, f"{NASTY}.csv"}


def test_bytes_that_are_no_text_are_no_traceback(target):
    for case in WORKS:
        if case[0] in ("audit", "table", "compare", "report", "reference", "status"):
            status, output = target(LATIN, *case)
            assert status in (0, 2), (case, output)
            assert "Traceback" not in output, (case, output)
            assert case[:2] != ("audit", "RESULTS={}") or "rename the folder" in output
    assert "not UTF-8" in target(LATIN, "weak-scaling", *DRY)[1]
