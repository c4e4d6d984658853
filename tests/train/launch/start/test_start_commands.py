from dataclasses import replace
from pathlib import Path

import pytest

from record.run_files import ROOT
from tests.helpers import GOLDEN
from tests.helpers.launch_plans import job
from train.config.machine_config import ContainerConfig
from train.launch.job import MPICH, Exchange, Nodes, Shared
from train.launch.launchers.emulated import in_networks
from train.launch.start.start_commands import across_hosts, on_this_machine, ssh_command, ssh_prefix

MPICH_JOB = replace(job(nodes=1, ranks_per_node=2), exchange=Exchange("mpi", mpirun=MPICH), env={})
IN_PODMAN = replace(
    job("mpi"),
    container=ContainerConfig("podman", "kit:cpu"),
    shared=Shared(Path("/kit"), writes=(Path("/r"),), variables=("KIT_EXAMPLE", "KIT_JOB_ID"), cores=(0, 1)),
)
COMMANDS = {
    "local-gloo": on_this_machine(job("gloo", 2)),
    "local-mpi": on_this_machine(job("mpi", 2)),
    "local-none": on_this_machine(job("none", 1)),
    "local-mpich": on_this_machine(MPICH_JOB),
    "local-mpi-podman": on_this_machine(IN_PODMAN),  # launcher and ranks share one container
    "emulated-networks": in_networks(job(nodes=2, ranks_per_node=2), "kit7"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_is_the_golden_one(name):
    command = [word.replace(str(ROOT), "/kit") for word in COMMANDS[name]]
    assert command == (GOLDEN / f"{name}.txt").read_text().splitlines()


def on_hosts(controller: str):
    return replace(job(controller), nodes=Nodes(("a", "b")), container=ContainerConfig("singularity", "kit.sif"))


def test_on_other_hosts_each_rank_has_its_own_container():
    command = across_hosts(on_hosts("gloo"))[1:]
    starter, rank = command[: command.index("--")], command[command.index("--") + 1 :]
    assert starter == ["-m", "train.launch.start.gloo", "--ranks", "2", "--hosts", "a:1,b:1"]
    assert rank[:2] == ["singularity", "exec"]
    assert tuple(rank[-len(job().argv) :]) == job().argv


def test_mpirun_over_ssh_drops_silent_hosts_and_passes_the_variables_on():
    command = across_hosts(on_hosts("mpi"))
    assert command[command.index("-H") + 1] == "a:1,b:1"
    assert "ServerAliveInterval=5" in command[command.index("plm_rsh_args") + 1]
    assert [command[i + 1] for i, word in enumerate(command) if word == "-x"] == ["KIT_EXAMPLE"]


def test_over_ssh_a_command_runs_in_the_folder_of_the_kit_and_a_silent_host_is_dropped():
    *ssh, host, line = ssh_command("n1", ["echo", "two words"])
    assert (ssh[0], ssh[1::2]) == ("ssh", ["-o"] * 4)
    assert (host, line) == ("n1", f"cd {ROOT} && echo 'two words'")
    assert "-o ServerAliveInterval=5 -o ServerAliveCountMax=2" in ssh_prefix()
