"""A launcher is one Python file and one YAML file, no other code names it, and it refuses what it cannot do."""

import re

import pytest
import yaml

from record.this_kit import CODE, ROOT
from tests.helpers.launch_plans import make_plan
from train.config.checks import ConfigError
from train.config.compose import CONF, choices, load
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import BatchLauncher

BATCH = [name for name, launcher in LAUNCHERS.items() if isinstance(launcher, BatchLauncher)]
SSH = ("launcher.name=ssh", "launcher.starts=over_ssh", "launcher.hosts=[a,b]", "nodes=2")
SLURM = ("launcher.name=slurm", "launcher.starts=by_scheduler")
EMULATED = ("launcher.name=emulated", "nodes=2")
PS, PS_CPU = (("distribution.gradients=separate", f"distribution.backend={name}") for name in ("ps", "ps_cpu"))
NETWORKS = (*EMULATED, "launcher.separate_networks=true")
GLOO = "launcher.separate_networks=True: works with distribution.controller=gloo and container=none"
TIMED = "launcher=emulated: its quotas hold for timed training steps"
PROGRAM = ("experiment=scaling", "program.command='solve {batch_per_rank}'", "nodes=2")


def test_each_launcher_has_both_files_which_agree_where_ranks_are_started():
    assert choices("launcher") == sorted(LAUNCHERS)
    assert {"lsf", "pbs", "slurm"} <= {*BATCH}
    for name, launcher in LAUNCHERS.items():
        starts = yaml.safe_load((CONF / f"launcher/{name}.yaml").read_text()).get("starts", "here")
        hosts = ["launcher.hosts=[a,b]"] if launcher.takes_hosts else []
        launcher.check(load([f"launcher.name={name}", f"launcher.starts={starts}", *hosts]))


def test_no_other_code_names_a_batch_system():
    """Its name alone in quotes, or a choice of it; advice in a text may name one."""
    names = "|".join(BATCH)
    naming = re.compile(rf"""["'](?:{names})["']|LAUNCHER\)?,? *(?:==)? *(?:{names})""")
    files = [path for folder in CODE if folder != "conf" for path in (ROOT / folder).rglob("*.py")]
    files = [path for path in files if path.parent.name != "launchers"]
    assert len(files) > 100
    assert [str(path) for path in [*files, ROOT / "Makefile"] if naming.search(path.read_text())] == []


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["launcher.separate_networks=true"], "launcher.separate_networks=True: needs launcher=emulated"),
        (["system.cpu_quota_per_node=0.5"], "system.cpu_quota_per_node=0.5: needs launcher=emulated"),
        (["launcher.hosts=[a,b]"], "launcher.hosts=a,b: launcher=local takes none; choose launcher=ssh"),
        (["launcher.name=slurm"], "launcher.starts=here: launcher=slurm needs by_scheduler, in its"),
        ([*SSH, "launcher.hosts=[]", "nodes=1"], "launcher.hosts=none: 1 node needs a host: make ... LAUNCHER=ssh"),
        ([*SSH, "nodes=3"], "launcher.hosts=a,b: 3 nodes need as many hosts: make ... LAUNCHER=ssh HOSTS=a,b,c"),
        ([*SSH, "container.name=docker"], "container=docker: works on one machine; with launcher=ssh allowed are none"),
        ([*SLURM, "container.name=podman"], "container=podman: works on one machine; with launcher=slurm"),
        ([*SSH, *PS_CPU], "on 2 hosts; with launcher=ssh give nodes=1, ranks_per_node=N"),
        ([*EMULATED, "device=gpu"], "device=gpu: launcher=emulated divides CPU time; use device=cpu"),
        ([*EMULATED, "dataset.name=digits", "measure.epochs=1"], TIMED),
        ([*EMULATED, "experiment=allreduce_bench"], TIMED),
        ([*NETWORKS, "distribution.controller=mpi"], GLOO),
        ([*NETWORKS, "container.name=podman"], GLOO),
        ([*EMULATED, *PS_CPU], "ps_cpu: its one process cannot be held to the quotas of several"),
        ([*EMULATED, *PS], "launcher=emulated allowed are horovod, mwms, none, or take launcher=local"),
        (PROGRAM, "program.command=solve {batch_per_rank}: it is the same on 1 node and on 2; give {ranks}"),
    ],
)
def test_what_a_launcher_cannot_do_is_refused(overrides, message):
    config = load(overrides)
    with pytest.raises(ConfigError, match=re.escape(message)):
        LAUNCHERS[config.launcher.name].check(config)


def test_a_batch_system_tells_a_program_its_size():
    LAUNCHERS["slurm"].check(load([*SLURM, *PROGRAM]))


def test_an_unknown_launcher_is_refused_with_all_names():
    with pytest.raises(ConfigError, match=r"launcher\.name=none: allowed are emulated, local, lsf, pbs, slurm, ssh"):
        make_plan("experiment=weak_scaling", "launcher.name=none")
