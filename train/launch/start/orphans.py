"""The end of processes of a job that outlived it on other hosts.

`python -m train.launch.start.orphans JOB_ID` ends those of this host.
"""

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from train.launch.start.commands import ssh_command
from train.rank.process import kill_job

_ANSWER_WITHIN_S = 120.0  # Python may start slowly there; ssh itself gives up a host that does not answer after 10 s


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
    kill_job(sys.argv[1])
