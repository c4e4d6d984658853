"""What each launcher refuses of a configuration."""

import re

import pytest

from tests.helpers.launches import planned
from train.config.checks import ConfigError
from train.config.compose import load
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import named

SSH = ("launcher=ssh", "launcher.hosts=[a,b]")
PS_CPU = ("distribution=ps_cpu",)
SYNTHETIC = ("dataset=synthetic", "model=tiny")
ON_ONE_MACHINE = "works on one machine; with launcher"
TIMED = "launcher=emulated: its quotas hold for timed training steps"
NETWORKS = ("launcher=emulated", "launcher.separate_networks=true")
GLOO = "launcher.separate_networks=True: works with distribution.controller=gloo and container=none"


def check(overrides: list[str]) -> None:
    config = load(overrides)
    named(LAUNCHERS, config.launcher.name).check(config)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["distribution.elastic=true", "measure.epochs=1"], "distribution.elastic=True: needs launcher=ssh"),
        (["launcher.separate_networks=true"], "launcher.separate_networks=True: needs launcher=emulated"),
        (["system.cpus_per_node=0.5"], "system.cpus_per_node=0.5: needs launcher=emulated"),
        (["launcher.hosts=[a,b]"], "launcher.hosts=a,b: launcher=local takes none; choose launcher=ssh"),
        (["launcher=slurm", "launcher.hosts=[a]"], "launcher.hosts=a: launcher=slurm takes none; choose launcher=ssh"),
        (["launcher=ssh"], "launcher.hosts=none: 1 node needs a host: make ... LAUNCHER=ssh HOSTS=a,b,c"),
        ([*SSH, "nodes=3"], "launcher.hosts=a,b: 3 nodes need as many hosts: make ... LAUNCHER=ssh HOSTS=a,b,c"),
        ([*SSH, "container=docker"], f"container=docker: {ON_ONE_MACHINE}=ssh allowed are none, singularity"),
        (["launcher=slurm", "container=podman"], f"container=podman: {ON_ONE_MACHINE}=slurm allowed are none"),
        (["launcher=emulated", "device=gpu"], "device=gpu: launcher=emulated divides CPU time; use device=cpu"),
        (["launcher=emulated", "dataset=digits", "measure.epochs=1"], TIMED),
        (["launcher=emulated", "experiment=allreduce_bench", "nodes=2"], TIMED),
        ([*NETWORKS, "distribution.controller=mpi"], GLOO),
        ([*NETWORKS, "container=podman"], GLOO),
        (
            [*SSH, "nodes=2", *PS_CPU],
            "one process cannot be on 2 hosts; with launcher=ssh give nodes=1, ranks_per_node=N",
        ),
        (["launcher=emulated", "nodes=2", *PS_CPU], "ps_cpu: its one process cannot be held to the quotas of several"),
        (
            ["launcher=emulated", "nodes=2", "distribution=ps", *SYNTHETIC],
            "ps: it has no run without allreduce, the control that shows whether the quotas held; with "
            "launcher=emulated allowed are horovod, mwms, none, or take launcher=local",
        ),
    ],
)
def test_what_a_launcher_cannot_do_is_refused(overrides, message):
    few = ["experiment=overhead", "model=tiny", "dataset=digits", "model=digits_cnn"]
    with pytest.raises(ConfigError, match=re.escape(message)):
        check([*few, *overrides])


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_plain_configuration_is_accepted(name):
    hosts = ["launcher.hosts=[a]"] if name == "ssh" else []
    LAUNCHERS[name].check(load(["nodes=1", f"launcher={name}", *hosts]))


def test_a_name_that_no_launcher_has_is_refused_with_those_that_there_are():
    with pytest.raises(ConfigError, match=r"launcher\.name=lsf: allowed are emulated, local, slurm, ssh"):
        planned("experiment=weak_scaling", "launcher.name=lsf")
