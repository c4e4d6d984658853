"""The commands of README.md and docs/README.md in their order, as printed, in one folder."""

import functools
import os
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from analysis.table import loading
from tests.helpers import ROOT
from tests.helpers.composition_cache import cache_compositions  # noqa: F401  of a dozen plans
from tests.helpers.drawn_figures import draw_quickly
from tests.helpers.kit import make_command, needs_setup, run
from tests.helpers.path_programs import write_program
from tests.helpers.published_once import published_numbers_are_read_and_audited_once  # noqa: F401
from tests.helpers.run_records import make_record, save
from tests.helpers.studies import long_curve, strategies
from tests.helpers.targets import run_target

pytestmark = [pytest.mark.end_to_end, needs_setup]

# They measure: the plan alone is made.
MEASURING = {
    *("weak-scaling", "strong-scaling", "scaling", "batch-sweep", "ranks-threads", "network-sweep", "overhead"),
    *("allreduce-bench", "strategies", "accuracy-digits", "equivalence", "fixed-work", "timeline", "tune"),
    *("reproduce", "fruit"),
}
# Their own tests run them: they need hosts, images, accounts or data, or take long.
ELSEWHERE = {"wandb-sync", "data-check", "image", "test-gpu", "test", "release", "evaluate", "figures", "report"}
ELSEWHERE |= {"doctor", "bundle", "bundle-check"}  # made-up records have no files of which they could be made again
ELSEWHERE |= {"network-sweep"} if os.geteuid() else set()  # "as root"
ABSENT = {"DEVICE=gpu", "CONTAINER=podman", "LAUNCHER=ssh", "LAUNCHER=slurm"}
TABLE = """\
model,ranks,batch_per_rank,steps_per_rank,images_per_s,wall_s
resnet50,1,32,120,10,394
resnet50,2,32,60,19,212
resnet50,4,32,30,36,117
"""


def readme_commands() -> list[list[str]]:
    """Return the words of each command of make, in the block of the first commands and in the tables."""
    text = "".join((ROOT / page).read_text() for page in ("README.md", "docs/README.md"))
    return [shlex.split(command, comments=True) for command in re.findall(r"^make .*|(?<=`)make [^`]+", text, re.M)]


def save_study(folder: Path) -> None:
    """Save weak and strong scaling to eight nodes, the strategies on two, and a fixed work on one to four."""
    long_curve(folder, "weak_scaling", (1, 0.95, 0.9, 0.85))
    long_curve(folder, "strong_scaling", (1, 0.9, 0.8, 0.7), strong=True)
    strategies(folder)
    for nodes in (1, 2, 4):
        steps = 16 // nodes
        measure = {"name": "quick", "warm_up_steps": 2, "timed_steps": steps, "total_steps": 16}
        save(make_record("fixed_work", "vgg19", nodes, step_s=1.9, steps=steps, measure=measure), folder)


def test_the_commands_of_the_readme_in_their_order(tmp_path, monkeypatch, capfd):
    """Make runs each; what its Python would run then runs here, and draws the figures of the records alone."""
    kit = tmp_path / "kit"
    for name in ("results", "results-a", "results-b"):
        save_study(kit / name)
    for name in ("study.csv", "table.csv", "before.csv"):
        (kit / name).write_text(TABLE)
    pd.read_csv(kit / "before.csv").to_excel(kit / "after.xlsx", index=False)
    (tmp_path / "data/fruit").mkdir(parents=True)
    write_program(kit / ".venv/bin/python", "env -0 >variables")
    monkeypatch.chdir(kit)
    draw_quickly(monkeypatch)
    monkeypatch.setattr(loading, "local", functools.cache(loading.local))  # no command changes the records
    failed = {}
    for words in readme_commands():
        target, *variables = words[1:]
        if target in ELSEWHERE or ABSENT & {*variables}:
            continue
        plan = target in MEASURING or (target == "diagnose" and "NODES=4" in variables)
        variables = [word.replace("/data/", f"{tmp_path}/data/") for word in variables]
        status, output = run(*make_command(kit, target, *variables, *["DRY_RUN=1"] * bool(plan)))
        if target != "help" and status == 0:
            lines = (kit / "variables").read_text().split("\0")
            (kit / "variables").unlink()
            status, output = run_target(target, dict(line.split("=", 1) for line in lines if line), monkeypatch, capfd)
        if status or "Traceback" in output:
            failed[shlex.join(words)] = output
    assert failed == {}
