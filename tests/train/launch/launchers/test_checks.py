"""Configurations that launchers refuse."""

import re

import pytest

from tests.helpers.launch_plans import make_plan
from train.config.checks import ConfigError
from train.config.compose import load
from train.launch.launchers import LAUNCHERS

SSH = ("launcher=ssh", "launcher.hosts=[a,b]")
EMULATED = ("launcher=emulated", "nodes=2")
PS = ("distribution=ps", "dataset=synthetic", "model=tiny")
NETWORKS = ("launcher=emulated", "launcher.separate_networks=true")
GLOO = "launcher.separate_networks=True: works with distribution.controller=gloo and container=none"
TIMED = "launcher=emulated: its quotas hold for timed training steps"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["launcher.separate_networks=true"], "launcher.separate_networks=True: needs launcher=emulated"),
        (["system.cpu_quota_per_node=0.5"], "system.cpu_quota_per_node=0.5: needs launcher=emulated"),
        (["launcher.hosts=[a,b]"], "launcher.hosts=a,b: launcher=local takes none; choose launcher=ssh"),
        (["launcher=slurm", "launcher.hosts=[a]"], "launcher.hosts=a: launcher=slurm takes none; choose launcher=ssh"),
        (["launcher=ssh", "nodes=1"], "launcher.hosts=none: 1 node needs a host: make ... LAUNCHER=ssh HOSTS=a,b,c"),
        ([*SSH, "nodes=3"], "launcher.hosts=a,b: 3 nodes need as many hosts: make ... LAUNCHER=ssh HOSTS=a,b,c"),
        ([*SSH, "container=docker"], "container=docker: works on one machine; with launcher=ssh allowed are none"),
        (["launcher=slurm", "container=podman"], "container=podman: works on one machine; with launcher=slurm"),
        ([*SSH, "nodes=2", "distribution=ps_cpu"], "on 2 hosts; with launcher=ssh give nodes=1, ranks_per_node=N"),
        (["launcher=emulated", "device=gpu"], "device=gpu: launcher=emulated divides CPU time; use device=cpu"),
        (["launcher=emulated", "dataset=digits", "model=digits_cnn", "measure.epochs=1"], TIMED),
        ([*EMULATED, "experiment=allreduce_bench"], TIMED),
        ([*NETWORKS, "distribution.controller=mpi"], GLOO),
        ([*NETWORKS, "container=podman"], GLOO),
        ([*EMULATED, "distribution=ps_cpu"], "ps_cpu: its one process cannot be held to the quotas of several nodes"),
        ([*EMULATED, *PS], "launcher=emulated allowed are horovod, mwms, none, or take launcher=local"),
    ],
)
def test_what_a_launcher_cannot_do_is_refused(overrides, message):
    config = load(overrides)
    with pytest.raises(ConfigError, match=re.escape(message)):
        LAUNCHERS[config.launcher.name].check(config)


def test_an_unknown_launcher_is_refused_with_all_names():
    with pytest.raises(ConfigError, match=r"launcher\.name=none: allowed are emulated, local, lsf, pbs, slurm, ssh"):
        make_plan("experiment=weak_scaling", "launcher.name=none")
