"""What hosts answer. What they ask and find: tests/end_to_end/test_clusters.py."""

import json
import socket
from dataclasses import replace
from unittest.mock import Mock

import pytest

from train.config.checks import ConfigError
from train.launch.launchers import hosts
from train.launch.launchers.hosts import SshHost, problem_lines

GOOD = SshHost("node-a", 28, 56, [], "Xeon", 2**34, sees_results=True, has_image=True, has_singularity=True,
            cpu_flags=["avx2"], name="a")  # fmt: skip
ANSWER = json.dumps({key: value for key, value in vars(GOOD).items() if key != "name"})
SECOND = replace(GOOD, name="b", hostname="node-b")


def test_each_unfit_host_is_named_with_what_to_do(tmp_path, monkeypatch):
    no_ipv4 = socket.gaierror(-5, "No address associated with hostname")  # of glibc, for a name with IPv6 alone
    monkeypatch.setattr(socket, "gethostbyname", Mock(side_effect=["192.0.2.1"] * 5 + [no_ipv4]))
    assert problem_lines([GOOD, SECOND], tmp_path, None) == []
    unfit = [
        replace(GOOD, sees_results=False),
        replace(SECOND, has_image=False, has_singularity=False),
        replace(GOOD, name="a.cluster"),
        replace(GOOD, name="d", hostname="node-d"),
    ]
    expected = (
        f"a: does not see {tmp_path}", "b: lacks the image /images/kit.sif", "b: there is no command singularity",
        "d: its name has no IPv4 address here", "a, a.cluster are the same host, node-a",
    )  # fmt: skip
    lines = problem_lines(unfit, tmp_path, "/images/kit.sif")
    assert [line.startswith(f"launcher.hosts: {text}") for line, text in zip(lines, expected, strict=True)] == [
        True
    ] * 5


@pytest.mark.slow
def test_hosts_that_refuse_alike_are_named_together_and_one_alone_by_its_name(program, tmp_path):
    program("ssh").write_text(  # as OpenSSH writes it
        '#!/bin/sh\nfor word; do case "$word" in n[0-9]*) host=$word;; esac; done\n'
        'echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255\n'
    )
    refused = "port 22: Connection refused: no sshd listens there"
    with pytest.raises(ConfigError) as several:
        hosts.ask(tuple(f"n{i}" for i in range(1, 9)), tmp_path)
    assert str(several.value) == f"launcher.hosts: n[1-8]: ssh: ssh: connect to host <host> {refused}"
    with pytest.raises(ConfigError, match=f"n1: ssh: ssh: connect to host n1 {refused}"):
        hosts.ask(("n1",), tmp_path)


ODD = {
    "nothing": ("true", "gave no answer of this kit, but printed: nothing"),
    "a banner": ("echo Welcome to the cluster", "printed: Welcome to the cluster"),
    "a last line after the answer": (f"echo 'kit-host {ANSWER}'; echo logout", None),
    "Latin-1": ("printf 'gr\\374\\337e'", "printed: gr"),
    "escape codes": ("printf '\\033[2Jcleared'", r"printed: \x1b[2Jcleared"),
    "without end": ("while :; do echo y; done", "printed: y"),
    "another type": ("echo 'kit-host {\"hostname\": 3}'", "gave no answer of this kit"),
    "a changed key": (
        "echo '@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.' >&2; exit 255",
        "another than before: it was installed again, or another machine answers; if you know which, forget the old "
        "key: ssh-keygen -R n1",
    ),
    "an unknown key": ("echo 'Host key verification failed.' >&2; exit 255", "is not known yet; log in once by hand"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_an_odd_answer_of_a_host_is_an_error_that_names_it(program, tmp_path, name):
    script, problem = ODD[name]
    program("ssh").write_text(f"#!/bin/sh\n{script}\n")
    if problem is None:
        assert hosts.ask(("localhost",), tmp_path) == (replace(GOOD, name="localhost"),)
        return
    with pytest.raises(ConfigError, match=r"^launcher\.hosts: n1: ") as error:
        hosts.ask(("n1",), tmp_path)
    assert problem in str(error.value)
    assert str(error.value).isprintable()
