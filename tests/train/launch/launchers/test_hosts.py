import json
import os
import sys
from dataclasses import replace

import pytest

from train.config.checks import ConfigError
from train.launch.launchers import hosts
from train.launch.launchers.hosts import Host, problem_lines, same_hosts, unfit
from train.rank import placement

GOOD = Host("a", "node-a", 28, [], "Xeon", 2**34, sees_results=True, has_image=True, has_singularity=True,
            cpu_flags=["avx2"])  # fmt: skip
OTHER = replace(GOOD, name="b", hostname="node-b")


def test_fit_hosts_are_fit(tmp_path):
    assert unfit([GOOD, OTHER], tmp_path, None) == []
    assert same_hosts([GOOD, OTHER]) == []


def test_each_unfit_host_is_named_with_what_to_do(tmp_path):
    result = [replace(GOOD, sees_results=False), replace(OTHER, has_image=False, has_singularity=False)]
    folder, image, engine = problem_lines(unfit(result, tmp_path, "/images/kit.sif"))
    assert folder.startswith("launcher.hosts: a: does not see")
    assert str(tmp_path) in folder
    assert "RESULTS=" in folder
    assert image.startswith("launcher.hosts: b: lacks the image /images/kit.sif")
    assert engine.startswith("launcher.hosts: b: there is no command singularity")


def test_two_names_of_one_host_are_not_two_nodes():
    [problem] = same_hosts([GOOD, replace(GOOD, name="a.cluster"), OTHER])
    assert problem == "launcher.hosts: a, a.cluster are the same host, node-a"


def test_what_256_hosts_have_in_common_is_one_line(tmp_path):
    result = [replace(GOOD, name=f"n{i:03d}", hostname=f"n{i:03d}", sees_results=False) for i in range(256)]
    down = [("n256", "did not answer within 40 s")]
    lines = problem_lines([*down, *unfit(result, tmp_path, None)])
    assert [line.partition(":")[2].partition(" does")[0].partition(" did")[0] for line in lines] == [
        " n256:", " n[000-255]:",
    ]  # fmt: skip


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """An ssh that cannot reach any host, and says so as OpenSSH does."""
    command = tmp_path / "bin" / "ssh"
    command.parent.mkdir()
    command.write_text(
        '#!/bin/sh\nfor word; do case "$word" in n[0-9]*) host=$word;; esac; done\n'
        'echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.slow
def test_hosts_that_refuse_alike_are_named_together_and_one_alone_by_its_name(ssh, tmp_path):
    with pytest.raises(ConfigError) as several:
        hosts.ask(tuple(f"n{i}" for i in range(1, 9)), tmp_path)
    assert str(several.value) == (
        "launcher.hosts: n[1-8]: ssh: ssh: connect to host <host> port 22: Connection refused: no sshd listens there"
    )
    with pytest.raises(ConfigError, match="n1: ssh: ssh: connect to host n1 port 22: Connection refused"):
        hosts.ask(("n1",), tmp_path)


def test_a_host_answers_all_that_is_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hosts", str(tmp_path)])
    hosts.main()
    answer = Host(name="here", **json.loads(capsys.readouterr().out))
    assert answer.cores == len(placement.usable_cores())
    assert answer.free_bytes > 0
    assert (answer.sees_results, answer.has_image, answer.has_singularity) == (True, True, True)


def test_a_missing_folder_image_and_singularity_are_found(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hosts", str(tmp_path / "none"), str(tmp_path / "kit.sif")])
    monkeypatch.setenv("PATH", str(tmp_path))
    hosts.main()
    answer = json.loads(capsys.readouterr().out)
    assert [answer[key] for key in ("sees_results", "has_image", "has_singularity")] == [False, False, False]
