"""A launcher is one Python file and one YAML file: no other code names it."""

import re

import pytest

from record.this_kit import CODE, ROOT
from train.config.checks import ConfigError
from train.config.compose import choices, load
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import BatchLauncher

BATCH = [name for name, launcher in LAUNCHERS.items() if isinstance(launcher, BatchLauncher)]


def test_each_launcher_has_both_files():
    assert choices("launcher") == sorted(LAUNCHERS)
    assert {"lsf", "pbs", "slurm"} <= {*BATCH}


@pytest.mark.parametrize("name", BATCH)
def test_no_other_code_names_a_batch_system(name):
    """Its name alone in quotes, or a choice of it; advice in a text may name one."""
    naming = re.compile(rf"""["']{name}["']|LAUNCHER\)?,? *(?:==)? *{name}""")
    files = [path for folder in CODE if folder != "conf" for path in (ROOT / folder).rglob("*.py")]
    files = [path for path in files if path.parent.name != "launchers"]
    assert len(files) > 100
    assert [str(path) for path in [*files, ROOT / "Makefile"] if naming.search(path.read_text())] == []


def test_its_file_says_where_ranks_are_started():
    for launcher in LAUNCHERS.values():
        if not launcher.takes_hosts:
            launcher.check(load([f"launcher={launcher.name}"]))
    with pytest.raises(ConfigError, match=r"launcher\.starts=here: launcher=slurm needs by_scheduler, in its file"):
        LAUNCHERS["slurm"].check(load(["launcher=slurm", "launcher.starts=here"]))


def test_a_program_gets_its_size_from_the_batch_system_or_from_its_command():
    program = ("experiment=scaling", "program.command='solve {batch_per_rank}'", "nodes=2")
    LAUNCHERS["slurm"].check(load(["launcher=slurm", *program]))
    with pytest.raises(ConfigError, match=r"program\.command=.*: it is the same on 1 node and on 2; give \{ranks\}"):
        LAUNCHERS["local"].check(load(program))
