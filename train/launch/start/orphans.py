"""Processes of a job that outlived it, on this host and on others, and their end.

`python -m train.launch.start.orphans JOB_ID` ends those of this host.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import psutil

from train.launch.start.commands import ssh_command
from train.record.protocol import JOB_ID

_GONE_WITHIN_S = 30.0  # the kernel takes a large process apart before it is gone
_ANSWER_WITHIN_S = 120.0  # Python may start slowly there; ssh itself gives up a host that does not answer after 10 s


def job_processes(job_id: str) -> list[psutil.Process]:
    """Return the processes on this host whose environment names the job, except this one."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(JOB_ID) == job_id:
                processes.append(process)
        except psutil.Error:
            continue
    return processes


def kill(job_id: str) -> None:
    """Kill the processes of the job on this host; return when they are gone."""
    processes = job_processes(job_id)
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, timeout=_GONE_WITHIN_S)


def kill_on(hosts: Sequence[str], job_id: str) -> list[str]:
    """Kill the processes of the job on other hosts, over ssh; returns the hosts that did not answer."""

    def kill_there(host: str) -> bool:
        command = ssh_command(host, [sys.executable, "-m", "train.launch.start.orphans", job_id])
        try:
            # In a new session: a second Ctrl-C must not interrupt the command that ends the ranks.
            done = subprocess.run(
                command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_ANSWER_WITHIN_S, start_new_session=True
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    if not hosts:
        return []
    with ThreadPoolExecutor(len(hosts)) as pool:
        ended = list(pool.map(kill_there, hosts))
    return [host for host, done in zip(hosts, ended, strict=True) if not done]


if __name__ == "__main__":
    kill(sys.argv[1])
