"""The processes of a job on this host, and their end, whoever their parent is."""

import os
import sys

import psutil

from train.launch.plan.job import JOB_ID

_GONE_WITHIN_S = 5.0


def of_job(job_id: str) -> list[psutil.Process]:
    """The processes whose environment names the job, but for this one."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(JOB_ID) == job_id:
                found.append(process)
        except psutil.Error:
            continue
    return found


def kill(job_id: str) -> None:
    """Kill the processes of the job; return when they are gone."""
    found = of_job(job_id)
    for process in found:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(found, timeout=_GONE_WITHIN_S)


if __name__ == "__main__":
    kill(sys.argv[1])
