"""The limits of this process, its end when those that need it are gone, and the end of all processes of a job.

`python -m train.rank.process JOB_ID` ends those of this host.
"""

import ctypes
import os
import resource
import select
import sys
import threading

import psutil

from train.record.protocol import JOB_ID

# Horovod's launcher has five pipes and sockets for each rank; Gloo connects each rank with every other one.
_FILES_PER_RANK = 8
_OTHER_FILES = 512
_GONE_WITHIN_S = 30.0  # the kernel takes a large process apart before it is gone
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)  # loaded here: a child of a program with threads should do as little as possible before exec


def allow_open_files(ranks: int) -> None:
    """Raise the limit of open files for a process that serves or joins so many ranks, up to `ulimit -Hn`.

    Most systems begin with 1,024, which is too few from some hundred ranks on. It is not raised further than needed:
    some programs, as Open MPI's, close every number that could be open before they start another one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _OTHER_FILES + _FILES_PER_RANK * ranks
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def end_with_parent(signal_number: int) -> None:
    """Get this signal when the parent of this process dies, however it dies (prctl(2))."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal_number)


def end_with_launcher(output: int) -> None:
    """End this process at once when no process is left that could read what it writes to `output`, a descriptor.

    On another host neither ssh nor Horovod would end it. The launcher holds the other end of a rank's standard output:
    itself, or through ssh, mpirun or srun, whose server on this host closes it when they are gone. A file is never
    closed: then this does nothing.
    """

    def wait() -> None:
        closed = select.poll()
        closed.register(output, 0)  # no events: poll then reports only errors and the end (POLLERR, POLLHUP)
        closed.poll()
        print("the launcher has ended: this rank exits", file=sys.stderr, flush=True)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def of_job(job_id: str) -> list[psutil.Process]:
    """Return the processes on this host whose environment names the job, except this one."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(JOB_ID) == job_id:
                processes.append(process)
        except psutil.Error:
            continue
    return processes


def kill_job(job_id: str) -> None:
    """Kill the processes of the job on this host, except this one; return when they are gone."""
    processes = of_job(job_id)
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, timeout=_GONE_WITHIN_S)


if __name__ == "__main__":
    kill_job(sys.argv[1])
