"""Other hosts, over ssh: whether they can run a job, their hardware, and the end of processes that a job left there.

Before anything starts, `python -m train.launch.launchers.hosts` runs on each host and prints one line of JSON.
"""

import argparse
import functools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import msgspec
import psutil

from common import affinity
from common.grouping import gathered
from common.printable import escaped
from common.programs import finished
from record.this_kit import ROOT
from train.config.checks import ConfigError
from train.launch.start.start_commands import ssh_command
from train.rank import environment, gpus
from train.rank import host as machine

_TIMEOUT_S = 120  # Python may start slowly there; ssh itself gives up a host that does not answer after 10 s
_MARK, _MOST_BYTES = "kit-host ", 1 << 20  # before the answer of a host; its shell may print anything else
_NAME = "<host>"  # in a message about several hosts

# Part of ssh's message -> what to do about it.
_FIXES = {
    "Permission denied": "it refuses this user's key; put the public key into ~/.ssh/authorized_keys there",
    "IDENTIFICATION HAS CHANGED": "its host key is another than before: it was installed again, or another machine "
    f"answers; if you know which, forget the old key: ssh-keygen -R {_NAME}",
    "Host key verification failed": f"its host key is not known yet; log in once by hand: ssh {_NAME}",
    "Could not resolve hostname": "no such host; check the name, or give its address",
    "Connection refused": "no sshd listens there",
    "timed out": "it does not answer; is it up, and in this network?",
    "No route to host": "it cannot be reached from here; is it up, and in this network?",
}


@dataclass(frozen=True)
class SshHost:
    """A host's answer."""

    hostname: str
    cores: int
    threads: int  # hardware threads
    gpus: list[str]
    cpu_model: str
    free_bytes: int
    sees_results: bool
    has_image: bool
    has_singularity: bool
    cpu_flags: list[str]  # instruction sets that decide how fast it trains
    name: str = ""  # as in launcher.hosts


Problem = tuple[str, str]  # a host, by its name in launcher.hosts, and why it cannot run the job


def _ask(host: str, token: Path, image: str | None) -> SshHost | Problem:
    """Return the answer of a host, or why there is none."""
    # The ranks get this host's PATH too.
    probe = ["env", f"PATH={os.environ['PATH']}", sys.executable, "-m", "train.launch.launchers.hosts", str(token)]
    command = ssh_command(host, [*probe, image] if image else probe)
    try:
        status, output, errors = _bounded(command)
    except subprocess.TimeoutExpired:
        return host, f"did not answer within {_TIMEOUT_S} s"
    if status == 0 or len(output) == _MOST_BYTES:  # it was ended
        return _answer(host, output)
    last = escaped((errors.strip().splitlines() or ["no message"])[-1])
    message = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", _NAME, last)  # to be equal for several hosts
    if status == 255:
        fix = next((fix for sign, fix in _FIXES.items() if sign in errors), "see `man ssh`")
        return host, f"ssh: {message}: {fix}"
    return host, (
        f"cannot run {sys.executable} in {ROOT} ({message}); the folder of the kit, with its "
        "environment, must be on all hosts under the same path: on a shared file system, or copied to each"
    )


def _bounded(command: Sequence[str]) -> tuple[int, str, str]:
    """Return exit status, output and errors of a command, as much as an answer can have; it ends when it writes more.

    Raises subprocess.TimeoutExpired.
    """
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def read(stream: IO[bytes]) -> str:
        with stream:
            return stream.read(_MOST_BYTES).decode(errors="replace")

    with ThreadPoolExecutor(2) as pool:
        assert child.stdout
        assert child.stderr
        texts = [pool.submit(read, stream) for stream in (child.stdout, child.stderr)]
        try:
            status = child.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
    return status, texts[0].result(), texts[1].result()


def _answer(host: str, output: str) -> SshHost | Problem:
    """Return what a host answered: the marked line, among whatever its shell prints."""
    line = next((line for line in output.splitlines() if line.startswith(_MARK)), "")
    try:
        return replace(msgspec.json.decode(line.removeprefix(_MARK).encode(), type=SshHost, strict=True), name=host)
    except msgspec.MsgspecError:
        printed = escaped(output.strip().partition("\n")[0][:100]) or "nothing"
        return host, f"gave no answer of this kit, but printed: {printed}; log in by hand and see what its shell does"


def _lines(problems: Sequence[Problem]) -> list[str]:
    """Return a line for each problem, with all the hosts that have it."""
    count = Counter(text for _, text in problems)
    return [
        f"launcher.hosts: {hosts}: {text.replace(_NAME, hosts) if count[text] == 1 else text}"
        for text, hosts in machine.hosts_by_text(problems).items()
    ]


@functools.cache  # several checks need the answers
def ask(hosts: tuple[str, ...], results: Path, image: str | None = None) -> tuple[SshHost, ...]:
    """Return the answers of all hosts, which are asked at the same time.

    Raises ConfigError with a line for each reason why hosts cannot run the job, and what to do about it; OSError if the
    results folder cannot be made.

    results: the folder that all of them must see. image: the SIF that the ranks will run in, if any.
    """
    if not shutil.which("ssh"):
        raise ConfigError("launcher.hosts: there is no command ssh on this machine (Debian: openssh-client)")
    results.mkdir(parents=True, exist_ok=True)
    token = results.resolve() / f".seen-{uuid.uuid4().hex}"
    token.touch()
    try:
        with ThreadPoolExecutor(len(hosts)) as pool:
            answers = list(pool.map(lambda host: _ask(host, token, image), hosts))
    finally:
        token.unlink()
    answering = [answer for answer in answers if isinstance(answer, SshHost)]
    silent = [answer for answer in answers if not isinstance(answer, SshHost)]
    if lines := [*_lines(silent), *problem_lines(answering, results, image)]:
        raise ConfigError("\n       ".join(lines))
    return tuple(answering)


def problem_lines(hosts: Sequence[SshHost], results: Path, image: str | None) -> list[str]:
    """Return why hosts that answered cannot run the job, a line for each reason; empty if all can."""
    not_shared = (
        f"does not see {results.resolve()} of {socket.gethostname()}; the results folder must be on a file system "
        "that all hosts share: RESULTS=folder"
    )
    no_image = f"lacks the image {image}; copy it there, under the same path"
    no_engine = "there is no command singularity; install it there, or take container=none"
    no_ipv4 = "its name has no IPv4 address here, over which ranks exchange; give it one in DNS or /etc/hosts"
    problems = []
    for host in hosts:
        problems += [] if host.sees_results else [(host.name, not_shared)]
        problems += [] if host.has_image else [(host.name, no_image)]
        problems += [] if host.has_singularity else [(host.name, no_engine)]
        problems += [] if _has_ipv4(host.name) else [(host.name, no_ipv4)]
    return [*_lines(problems), *_same_hosts(hosts)]


def _has_ipv4(name: str) -> bool:
    """Return whether a name has an IPv4 address here, unlike that of a host with IPv6 alone, or an alias of ssh."""
    try:
        return bool(socket.gethostbyname(name))
    except OSError:
        return False


def _same_hosts(hosts: Sequence[SshHost]) -> list[str]:
    """Return a line for each host that launcher.hosts has under several names: it would be several nodes."""
    names = gathered((host.hostname, host.name) for host in hosts)
    return [
        f"launcher.hosts: {machine.folded(aliases)} are the same host, {hostname}"
        for hostname, aliases in names.items()
        if len(set(aliases)) > 1
    ]


def kill_on(hosts: Sequence[str], job_id: str) -> list[str]:
    """Kill the processes of the job on other hosts; returns the hosts that did not answer."""

    def kill_on_host(host: str) -> bool:
        command = ssh_command(host, [sys.executable, "-m", "train.rank.process", job_id])
        # In a new session: a second Ctrl-C must not interrupt the command that ends the ranks.
        return finished(command, _TIMEOUT_S, new_session=True).returncode == 0

    with ThreadPoolExecutor(len(hosts)) as pool:
        ended = list(pool.map(kill_on_host, hosts))
    return [host for host, done in zip(hosts, ended, strict=True) if not done]


def main() -> None:
    """Print the fields of SshHost except its name, marked."""
    parser = argparse.ArgumentParser(prog="python -m train.launch.launchers.hosts", description=__doc__.splitlines()[0])
    parser.add_argument("token", type=Path, help="a file that the launcher has just made in the results folder")
    parser.add_argument("image", type=Path, nargs="?", help="the SIF that ranks will run in")
    arguments = parser.parse_args()
    image = arguments.image
    answer = {
        "hostname": socket.gethostname(),
        "cores": len(affinity.whole_cores(affinity.usable_cores())),
        "threads": len(affinity.usable_cores()),
        "gpus": gpus.names(),
        "free_bytes": psutil.virtual_memory().available,
        "cpu_model": environment.cpu_model(),
        "cpu_flags": machine.cpu_flags(),
        "sees_results": arguments.token.exists(),
        "has_image": image is None or image.is_file(),
        "has_singularity": image is None or shutil.which("singularity") is not None,
    }
    print(_MARK + json.dumps(answer))


if __name__ == "__main__":
    main()
