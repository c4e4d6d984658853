"""Other hosts, asked over ssh before anything starts: whether they can run the job, and what they have.

Each host is asked by `python -m train.launch.plan.host_probe`, which runs there.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from train.config.checks import ConfigError
from train.launch.plan.ssh import ssh_command
from train.record.source import ROOT

_PROBE_TIMEOUT_S = 40

# What ssh says -> what to do about it.
_FIXES = {
    "Permission denied": "it refuses this user's key; put the public key into ~/.ssh/authorized_keys there",
    "Host key verification failed": "its host key is unknown or changed; log in once by hand: ssh {host}",
    "Could not resolve hostname": "no such host; check the name, or give its address",
    "Connection refused": "no sshd listens there",
    "timed out": "it does not answer; is it up, and in this network?",
    "No route to host": "it cannot be reached from here; is it up, and in this network?",
}


@dataclass(frozen=True)
class Host:
    """A host's answer."""

    name: str  # as the user gave it
    hostname: str
    cores: int
    gpus: list[str]
    cpu_model: str
    free_bytes: int
    sees_results: bool
    has_image: bool
    has_singularity: bool
    cpu_flags: list[str]  # instruction sets that decide how fast it trains


def _ask(host: str, token: Path, image: str | None) -> Host:
    """Ask one host. Raises ConfigError, naming it."""
    # The ranks get this host's PATH too.
    probe = ["env", f"PATH={os.environ['PATH']}", sys.executable, "-m", "train.launch.plan.host_probe", str(token)]
    command = ssh_command(host, [*probe, image] if image else probe)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"launcher.hosts: {host}: did not answer within {_PROBE_TIMEOUT_S} s") from None
    if done.returncode == 0:
        return Host(name=host, **json.loads(done.stdout.splitlines()[-1]))
    message = (done.stderr.strip().splitlines() or ["no message"])[-1]
    if done.returncode == 255:
        fix = next((fix for sign, fix in _FIXES.items() if sign in done.stderr), "see `man ssh`")
        raise ConfigError(f"launcher.hosts: {host}: ssh: {message}: {fix.format(host=host)}")
    raise ConfigError(
        f"launcher.hosts: {host}: cannot run {sys.executable} in {ROOT} ({message}); the folder of the kit, with its "
        "environment, must be on all hosts under the same path: on a shared file system, or copied to each"
    )


@functools.cache  # several checks need the answers
def ask(hosts: tuple[str, ...], results: Path, image: str | None = None) -> tuple[Host, ...]:
    """The answers of all hosts, asked at once.

    Raises ConfigError with a line for each host that cannot run the job, and what to do about it; OSError where the
    results folder cannot be made.

    Args:
        hosts: their names, as ssh takes them.
        results: the folder that all of them must see.
        image: the SIF that the ranks will run in, if any.
    """
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
    return tuple(found)


def unfit(found: Sequence[Host], results: Path, image: str | None) -> list[str]:
    """Why hosts that answered cannot run the job; empty where all can."""
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


def heterogeneous(found: Sequence[Host]) -> str | None:
    """How the hardware of the hosts differs; None where it is the same. A synchronous step waits for the slowest."""
    kinds = {(host.cpu_model, host.cores, tuple(host.gpus)) for host in found}
    if len(kinds) < 2:
        return None
    each = "; ".join(f"{h.name} {h.cores} cores, {h.cpu_model}, {len(h.gpus)} GPUs" for h in found)
    return f"heterogeneous hardware, and every step waits for the slowest host: {each}"
