"""Other hosts, over ssh: are they fit for the job, and is nothing of it left on them?

Each host is asked by `python -m train.launch.plan.host_probe`, which runs there.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from train.config.schema import ConfigError
from train.launch.plan.job import ROOT

# A host that falls silent is given up after 10 s: without this, ssh would wait for TCP, which takes minutes.
SSH_OPTIONS = ("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=2")
_PROBE_TIMEOUT_S = 40

# What ssh says -> what to do about it.
_MENDS = {
    "Permission denied": "it refuses this user's key; put the public key into ~/.ssh/authorized_keys there",
    "Host key verification failed": "its host key is unknown or changed; log in once by hand: ssh {host}",
    "Could not resolve hostname": "no such host; check the name, or give its address",
    "Connection refused": "no sshd listens there",
    "timed out": "it does not answer; is it up, and in this network?",
    "No route to host": "it cannot be reached from here; is it up, and in this network?",
}


@dataclass(frozen=True)
class Host:
    """What a host said of itself."""

    name: str  # as the user gave it
    hostname: str
    cores: int
    gpus: list[str]
    cpu_model: str
    free_bytes: int
    sees_results: bool
    has_image: bool
    has_singularity: bool


def ssh_prefix() -> str:
    """How Horovod's launchers are to call ssh."""
    return " ".join(["ssh", *(f"-o {option}" for option in SSH_OPTIONS)])


def _ssh(host: str, command: Sequence[str]) -> list[str]:
    options = [word for option in SSH_OPTIONS for word in ("-o", option)]
    return ["ssh", *options, host, f"cd {shlex.quote(str(ROOT))} && {shlex.join(command)}"]


def _ask(host: str, token: Path, image: str | None) -> Host:
    """Ask one host. Raises ConfigError, naming it."""
    # The ranks get this host's PATH too.
    asked = ["env", f"PATH={os.environ['PATH']}", sys.executable, "-m", "train.launch.plan.host_probe", str(token)]
    asked += [image] if image else []
    try:
        done = subprocess.run(
            _ssh(host, asked), capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"launcher.hosts: {host}: gave no answer within {_PROBE_TIMEOUT_S} s") from None
    if done.returncode == 0:
        return Host(name=host, **json.loads(done.stdout.splitlines()[-1]))
    said = (done.stderr.strip().splitlines() or ["no message"])[-1]
    if done.returncode == 255:
        mend = next((mend for sign, mend in _MENDS.items() if sign in done.stderr), "see `man ssh`")
        raise ConfigError(f"launcher.hosts: {host}: ssh: {said}: {mend.format(host=host)}")
    raise ConfigError(
        f"launcher.hosts: {host}: cannot run {sys.executable} in {ROOT} ({said}); the folder of the kit, with its "
        "environment, must be on all hosts under the same path: on a shared file system, or copied to each"
    )


def ask(hosts: Sequence[str], results: Path, image: str | None = None) -> list[Host]:
    """Ask all hosts at once. Raises ConfigError with a line for each host that is unfit, and what to do about it."""
    results.mkdir(parents=True, exist_ok=True)
    token = results.resolve() / f".seen-{uuid.uuid4().hex}"
    token.touch()
    found, problems = [], []
    try:
        with ThreadPoolExecutor(len(hosts)) as pool:
            for answer in [pool.submit(_ask, host, token, image) for host in hosts]:
                try:
                    found.append(answer.result())
                except ConfigError as error:
                    problems.append(str(error))
    finally:
        token.unlink()
    problems += unfit(found, results, image)
    if problems:
        raise ConfigError("\n       ".join(problems))
    return found


def unfit(found: Sequence[Host], results: Path, image: str | None) -> list[str]:
    """What is wrong with hosts that answered."""
    here = socket.gethostname()
    problems = [
        f"launcher.hosts: {host.name}: does not see {results.resolve()} of {here}; the results folder must be "
        "on a file system that all hosts share: RESULTS=folder"
        for host in found
        if not host.sees_results
    ]
    problems += [
        f"launcher.hosts: {host.name}: lacks the image {image}; copy it there, under the same path"
        for host in found
        if not host.has_image
    ]
    problems += [
        f"launcher.hosts: {host.name}: there is no command singularity; install it there, or take container=none"
        for host in found
        if not host.has_singularity
    ]
    same: dict[str, str] = {}
    for host in found:
        if (other := same.setdefault(host.hostname, host.name)) != host.name:
            problems.append(f"launcher.hosts: {other} and {host.name} are the same host, {host.hostname}")
    return problems


def unequal(found: Sequence[Host]) -> str | None:
    """How the hosts differ in make, in words; None where they are alike. A synchronous step waits for the slowest."""
    makes = {(host.cpu_model, host.cores, tuple(host.gpus)) for host in found}
    if len(makes) < 2:
        return None
    each = "; ".join(f"{h.name} {h.cores} cores, {h.cpu_model}, {len(h.gpus)} GPUs" for h in found)
    return f"the hosts are of unequal make, and every step waits for the slowest: {each}"


def end_strays(hosts: Sequence[str], job_id: str) -> list[str]:
    """Kill what is left of a job on other hosts; gives the hosts that could not be asked."""

    def end(host: str) -> bool:
        command = _ssh(host, [sys.executable, "-m", "train.launch.supervise.strays", job_id])
        try:
            # In a session of its own: a second Ctrl-C must not end what ends the ranks.
            done = subprocess.run(
                command, capture_output=True, stdin=subprocess.DEVNULL, timeout=20, start_new_session=True
            )
            return done.returncode == 0
        except subprocess.TimeoutExpired:
            return False

    if not hosts:
        return []
    with ThreadPoolExecutor(len(hosts)) as pool:
        ended = list(pool.map(end, hosts))
    return [host for host, done in zip(hosts, ended, strict=True) if not done]
