"""Folders and files of any name, through all targets: real commands of make, without a launch."""

import os
import re
import shutil

import pytest

from tests.helpers.kit import ROOT, make_command, needs_setup, run
from tests.helpers.own_records import make_record, save

pytestmark = [pytest.mark.end_to_end, needs_setup]

# Each of Make, the shell, Hydra, OmegaConf, Docker and Slurm would read something into it.
NASTY = "it's \"a`touch b`$(touch c)${HOME};[é]: #%|(1), x=2\\"
LATIN = os.fsdecode(b"caf\xe9")
DRY = ("DRY_RUN=1", "MODELS=tiny", "NODES=2", "RESULTS={}")
SLURM = ("LAUNCHER=slurm", "SYSTEM=slurm", "ARGS=system.cores_per_node=4")
WORKS = (
    *(("figures", "RESULTS={}"), ("tables", "RESULTS={}"), ("audit", "RESULTS={}"), ("claims", "RESULTS={}")),
    *(("audit", "FILE={}.csv"), ("table", "FILE={}.csv"), ("explain", "FILE={}.csv"), ("predict", "FILE={}.csv")),
    *(("compare", "RESULTS={}"), ("compare", "A={}", "B={}"), ("history", "RESULTS={}"), ("status", "RESULTS={}")),
    *(("diagnose", "EXPERIMENT=weak_scaling", "RESULTS={}"), ("report", "RESULTS={}"), ("wandb-sync", "RESULTS={}")),
    ("summary", "RESULTS={}"),
    *(("bundle", "RESULTS={}"), ("bundle", "RESULTS={}", "SCRUB=1"), ("bundle-check",)),
    *(("reference", "RESULTS={}", "NAME=here"), ("check-reference", "RESULTS={}", "NAME=here")),
    *(("weak-scaling", *DRY), ("weak-scaling", *DRY, *SLURM), ("weak-scaling", *DRY, "CONTAINER=podman")),
    *(("tune", *DRY), ("timeline", *DRY), ("diagnose", *DRY), ("reproduce", *DRY, "REPORT=001", "DATA_DIR={}")),
)
REFUSED = (  # by a message that has the name
    ("weak-scaling", *DRY, "CONTAINER=singularity"),
    *(
        ("reference", "RESULTS={}", "NAME={}"),
        ("bundle-check", "FILE={}.csv"),
    ),
    *(
        ("proposal", "RESULTS={}"),  # one launch is no curve
        ("evaluate", "FILE={}.csv"),
        ("appendix", "FILE={}.csv"),
        ("doctor", "CONTAINER=podman", "IMAGE={}"),
    ),
    *(("data-check", "DATASET=cifar10", "DATA_DIR={}"), ("input-bench", "DATASET=cifar10", "DATA_DIR={}")),
    ("data-fetch", "DATASET=cifar10", "DATA_DIR={}.csv/folder"),
)


def targets() -> set[str]:
    """The targets that take names of files or folders, with one experiment for all."""
    listed = re.findall(r"^(?:MEASURING|ANALYSING) := (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = " ".join(listed).replace("$(EXPERIMENTS)", "weak-scaling").split()
    return {*shown, "diagnose", "evaluate"} - {"release"}


@pytest.fixture
def make(tmp_path):
    """Run a target with the path of a folder of results, beside which a table has the same name."""

    def command(name: str, target: str, *values: str) -> tuple[int, str]:
        path = tmp_path / name
        if not path.exists():
            save(make_record(), path)
            shutil.copy(ROOT / "analysis/published/000_hacksa.csv", f"{path}.csv")
        return run(*make_command(tmp_path / "kit", target, *(value.replace("{}", str(path)) for value in values)))

    return command


def test_a_nasty_name_goes_through_all_targets(make, tmp_path):
    assert {target for target, *_ in (*WORKS, *REFUSED)} == targets()
    for words in WORKS:
        status, output = make(NASTY, *words)
        assert status == 0, (words, output)
    for words in REFUSED:
        status, output = make(NASTY, *words)
        assert status == 2, (words, output)
        assert "Traceback" not in output
        assert NASTY in output, (words, output)
    assert not {"b", "c"} & {path.name for folder in (tmp_path, tmp_path / "kit") for path in folder.iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == {"kit", NASTY, f"{NASTY}.csv"}


def test_bytes_that_are_no_text_are_no_traceback(make):
    for words in WORKS:
        if words[0] in ("audit", "table", "compare", "report", "bundle", "reference", "status"):
            status, output = make(LATIN, *words)
            assert status in (0, 2), (words, output)
            assert "Traceback" not in output, (words, output)
    assert "not UTF-8" in make(LATIN, "weak-scaling", *DRY)[1]
    assert "rename the folder" in make(LATIN, "audit", "RESULTS={}")[1]
