from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers import GOLDEN
from tests.helpers.launches import job
from train.config.schema import Container
from train.launch.job import MPICH, Exchange, Nodes, Shared
from train.launch.launchers.emulated import in_networks
from train.launch.start.commands import across_hosts, on_this_machine, ssh_command, ssh_prefix
from train.record.files import ROOT


def golden(name: str) -> list[str]:
    return (GOLDEN / f"{name}.txt").read_text().splitlines()


@pytest.mark.parametrize(("controller", "nodes"), [("gloo", 2), ("mpi", 2), ("none", 1)])
def test_the_command_is_the_golden_one(controller, nodes):
    assert on_this_machine(job(controller, nodes)) == golden(f"local-{controller}")


def test_the_mpirun_of_mpich_gets_the_same_in_its_own_words():
    of_mpich = replace(job(nodes=1, ranks_per_node=2), exchange=Exchange("mpi", mpirun=MPICH), env={})
    assert on_this_machine(of_mpich) == golden("local-mpich")


def test_launcher_and_ranks_share_one_container():
    contained = replace(
        job("mpi"),
        container=Container("podman", "kit:cpu"),
        shared=Shared(Path("/kit"), writes=(Path("/r"),), variables=("KIT_EXAMPLE", "KIT_JOB_ID"), cores=(0, 1)),
    )
    assert on_this_machine(contained) == golden("local-mpi-podman")


def test_emulated_nodes_have_their_own_networks():
    assert in_networks(job(nodes=2, ranks_per_node=2), "kit7") == golden("emulated-networks")


def on_hosts(controller: str):
    return replace(job(controller), nodes=Nodes(("a", "b")), container=Container("singularity", "kit.sif"))


@pytest.mark.parametrize("controller", ["gloo", "elastic"])
def test_on_other_hosts_each_rank_has_its_own_container(controller):
    command = across_hosts(on_hosts(controller))[1:]
    starter, rank = command[: command.index("--")], command[command.index("--") + 1 :]
    folder = ["--elastic", str(job().folder)] if controller == "elastic" else []
    assert starter == ["-m", "train.launch.start.gloo", "--ranks", "2", "--hosts", "a:1,b:1", *folder]
    assert rank[:2] == ["singularity", "exec"]
    assert tuple(rank[-len(job().argv) :]) == job().argv


def test_mpirun_over_ssh_gives_up_silent_hosts_and_passes_the_path_on():
    command = across_hosts(on_hosts("mpi"))
    assert command[command.index("-H") + 1] == "a:1,b:1"
    assert "ServerAliveInterval=5" in command[command.index("plm_rsh_args") + 1]
    passed_on = [command[i + 1] for i, word in enumerate(command) if word == "-x"]
    assert passed_on == ["KIT_EXAMPLE", "PATH"]


def test_one_rank_on_another_host_is_started_there():
    alone = replace(on_hosts("none"), nodes=Nodes(("a",)))
    assert across_hosts(alone)[2:7] == ["train.launch.start.gloo", "--ranks", "1", "--hosts", "a:1"]


@pytest.mark.parametrize("controller", ["gloo", "elastic", "mpi"])
def test_256_hosts_of_4_ranks(controller):
    names = tuple(f"node{number:04d}.cluster.example.org" for number in range(256))
    command = across_hosts(replace(job(controller), nodes=Nodes(names, ranks_per_node=4)))
    [listed] = [word for word in command if word.startswith("node0000")]
    assert listed.split(",") == [f"{name}:4" for name in names]
    assert "1024" in command
    assert len(listed) < 131_072 / 10  # the longest word that Linux passes to a program


def test_a_command_runs_in_the_folder_of_the_kit_with_its_words_kept():
    *ssh, host, line = ssh_command("n1", ["echo", "two words"])
    assert ssh[0] == "ssh"
    assert ssh[1::2] == ["-o"] * 4
    assert (host, line) == ("n1", f"cd {ROOT} && echo 'two words'")


def test_a_host_that_no_longer_answers_is_dropped():
    assert "-o ServerAliveInterval=5 -o ServerAliveCountMax=2" in ssh_prefix()
