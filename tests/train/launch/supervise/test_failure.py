import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from record.parts import RankPart
from record.schema import Failure
from tests.helpers import launch_plans
from train.launch.job import Job, JobOutcome, Nodes
from train.launch.launchers import LAUNCHERS
from train.launch.supervise import failure


def gloo(*exits: tuple[int, int]) -> str:
    """The output of Horovod's launcher when ranks end in this order with these exit statuses."""
    lines = [f"Process {rank} exit with status code {code}." for rank, code in exits]
    lines.insert(1, f"Terminating remaining workers after failure of Process {exits[0][0]}.")
    lines.append("RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing")
    first = f"Process name: {exits[0][0]}\nExit code: {exits[0][1]}\n"
    return "\n".join([*lines, f"the job to be terminated. The first process to do so was:\n{first}"])


KILLED = gloo((1, 137))
MPI_SIGNAL = "mpirun noticed that process rank 3 with PID 0 on node vm exited on signal 9 (Killed).\n"
MPI_EXIT = "job to be terminated. The first process to do so was:\n\n  Process name: [[57417,1],1]\n  Exit code:    1\n"
SRUN = "srun: error: n2: task 1: Exited with exit code 3\n"
SRUN_SIGNAL = "srun: error: n2: task 1: Killed\nsrun: error: n1: task 0: Terminated\n"
CANCELLED = (
    "0: slurmstepd-n1: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-11-25T15:26:42 ***\n"
    "srun: error: n2: task 1: Terminated\n"
)
# Output of srun five minutes after a node has crashed. Rank 0 dropped its peer a moment before.
NODE_FAILED = "srun: error: n1: task 0: Exited with exit code 1\nsrun: error: Node failure on n2\n"
# Rank 1 was stopped: Gloo dropped it after five minutes, then Horovod's launcher killed it.
STOPPED = gloo((0, 1), (1, 137))
TIMEOUT = "[0]: Horovod background loop uncaught exception: [unbound_buffer.cc:81] Timed out waiting 300000ms for recv"


def job(tmp_path: Path, controller: str = "gloo", ranks: int = 2) -> Job:
    return replace(launch_plans.job(controller, folder=tmp_path), nodes=Nodes(("n1", "n2", "n3", "n4")[:ranks]))


def running(rank: int, phase: str = "timed", **more) -> RankPart:
    """A rank that was in a phase when it ended."""
    return RankPart(rank=rank, host=f"host-of-{rank}", phase=phase, **more)


def done(rank: int) -> RankPart:
    return running(rank, "exit", finished=True)


def failed(rank: int, reason: str, consequence: bool = False, step: int | None = None) -> RankPart:
    return running(rank, failure=Failure(reason, rank, f"host-of-{rank}", "timed", step, consequence=consequence))


def side_by_side(tmp_path: Path) -> Job:
    """A rank without Horovod, and a rank group of two."""
    single, pair = launch_plans.job("none", nodes=1), replace(launch_plans.job(), first_rank=1)
    return replace(job(tmp_path, "none", ranks=1), groups=(single, pair))


def in_group(number: int, output: str, code: int) -> str:
    lines = [f"[group {number}] {line}" for line in output.splitlines()]
    return "\n".join([*lines, f"group {number} failed with exit status {code}\n"])


def find(
    job: Job, parts: Sequence[RankPart], output="", exit_code=0, ended_by=None, launcher="local"
) -> Failure | None:
    return failure.run_failure(job, LAUNCHERS[launcher], JobOutcome(0.0, 1.0, exit_code, ended_by, output), parts, 60)


LOST_0 = failed(0, "HorovodInternalError: peer closed", consequence=True)
LOST_1 = failed(1, "HorovodInternalError: peer closed", consequence=True)
# Rank 0 lost the others and ended first; then the ssh of rank 2, which was terminated, and that of rank 1.
SSH_ENDED = gloo((0, 1), (2, 143), (1, 255))
SHM_FULL = (  # with a full /dev/shm
    "Exception happened during safe_shell_exec, exception message: [Errno 28] No space left on device\n" + gloo((0, 1))
)
NO_LOG = (
    '[1]<stderr>:  File "/kit/train/__main__.py", line 47, in redirect_output\n[0]<stderr>:other\n'
    "[1]<stderr>:OSError: [Errno 28] No space left on device: '/r/rank-1.log'\n[1]<stderr>:\n"
)
UNKNOWN_HOST = "[1]<stderr>:Offending key in known_hosts:3\n[1]<stderr>:Host key verification failed.\n"
TRACEBACK = "Traceback (most recent call last):\n  File x\nsocket.gaierror: [Errno -2] Name or service not known\n"


@dataclass(frozen=True)
class Case:
    """How a job ended, and the expected fields of its failure and pattern of the reason."""

    output: str
    parts: Sequence[RankPart]
    fields: dict[str, object]
    reason: str = ""
    exit_code: int = 1
    ended_by: str | None = None
    launcher: str = "local"
    controller: str = "gloo"
    ranks: int = 2
    logs: dict[str, str] | None = None  # of the job


RANK_1 = {"rank": 1, "host": "host-of-1"}
CASES = {
    "interrupted, with a rank in its warm-up": Case(
        "", [running(0, "warm_up")], {"rank": None, "phase": "warm_up"},
        "interrupted by SIGTERM; rank 0 on host-of-0 in phase warm_up$", ended_by="SIGTERM",
    ),
    "interrupted before a rank came": Case("", [], {"rank": None}, "interrupted by SIGINT$", ended_by="SIGINT"),
    "timed out": Case("", [running(0, "init")], {"phase": "init"}, "launcher.timeout_s=60", ended_by="timeout"),
    "crashed, with what is known to cause it": Case(
        gloo((1, 139)), [], {},
        "killed by SIGSEGV; Horovod's Gloo crashes so where a host cannot resolve its own",
    ),
    "a rank that reported why": Case(
        MPI_EXIT, [running(0), failed(1, "NotFinite: the loss is not finite", step=3)],
        {"rank": 1, "step": 3, "exit_code": 1}, "NotFinite: the loss is not finite$", controller="mpi",
    ),
    "the cause, although one that only lost it ended first": Case(
        MPI_EXIT, [failed(0, "ValueError: broken"), LOST_1], {"rank": 0, "exit_code": None, "log": "rank-0.log"},
        "ValueError: broken$", controller="mpi",
    ),
    "consequences alone: the first": Case(
        MPI_EXIT, [running(0), LOST_1], {"rank": 1, "consequence": True}, controller="mpi"
    ),
    "killed, although its ssh ended after the rank that lost it": Case(
        SSH_ENDED, [LOST_0, running(1), running(2)], RANK_1 | {"exit_code": 255, "phase": "timed"},
        "killed by a signal", launcher="ssh", ranks=3,
    ),
    "a rank that did not finish": Case("", [done(0), running(1)], {}, r"did not finish: \[1\]", exit_code=0),
    "cancelled, by whom, and where each rank was": Case(
        CANCELLED, [running(0), running(1), done(2)], {"rank": None},
        r"interrupted by SIGTERM \(slurm: STEP 1.0 ON n1 CANCELLED AT 2026-11-25T15:26:42\); ranks 0-1 on "
        r"host-of-\[0-1\] in phase timed; rank 2 on host-of-2 finished$",
        ended_by="SIGTERM", launcher="slurm", ranks=3,
    ),
    "a node that Slurm dropped, and not the rank that lost it": Case(
        NODE_FAILED,
        [replace(failed(0, "an exchange failed", consequence=True), host="n1"), replace(running(1), host="n2")],
        {"rank": 1, "host": "n2", "phase": "timed", "log": "launcher.log"},
        "node n2 failed: the batch system gave it up and ended the job by SIGTERM$",
        ended_by="SIGTERM", launcher="slurm",
    ),
    "a rank that others waited for, before the job was ended": Case(
        "", [failed(0, "an exchange failed", consequence=True), running(1)], RANK_1,
        r"rank 1 \(host-of-1\) stopped answering: .*, until SIGTERM ended the job$",
        ended_by="SIGTERM", launcher="slurm", logs={"rank-0.log": TIMEOUT},
    ),
    "one process killed by a signal": Case(
        "", [running(0)], {"rank": 0, "exit_code": 137}, exit_code=-9, controller="none", ranks=1
    ),
    "the exit status of ssh": Case(
        gloo((1, 255)), [], {"rank": 1, "host": "n2"}, "its host or the link to it is gone", launcher="ssh"
    ),
    "the message of ssh": Case(
        UNKNOWN_HOST + gloo((1, 255)), [], {},
        "ssh ended with exit status 255; it printed last: Host key verification failed.$", launcher="ssh",
    ),
    "a rank that was never started": Case(
        SHM_FULL, [], {"log": "launcher.log"},
        r"ended with exit status 1; it printed last: \[Errno 28\] No space left on device$",
    ),
    "a rank that fails before it has a log": Case(
        NO_LOG + gloo((1, 1)), [], {},
        r"it printed last: OSError: \[Errno 28\] No space left on device: '/r/rank-1.log'$", launcher="ssh",
    ),
    "a rank that aborts": Case(
        gloo((1, 134)), [running(0), running(1, "init")], {"log": "rank-1.log"},
        r"killed by SIGABRT; it printed last: what\(\):  Unable to find address for: n1.invalid$",
        logs={"rank-1.log": "terminate called\n  what():  Unable to find address for: n1.invalid\n\n"},
    ),
    "a rank that Gloo's port refused, as a stranger came first": Case(
        gloo((1, 134)), [running(0, "init"), running(1, "init")], {"rank": 1, "phase": "init", "exit_code": 134},
        rf"^{failure.STRAY}.*\(Gloo: connect \[127.0.0.1\]:36753: Connection refused\)",
        logs={
            "rank-1.log": "terminate called after throwing an instance of 'gloo::IoException'\n  what():  [/tmp/src/"
            "compatible17_gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.0.1]:36753: Connection refused\n"
        },
    ),
    "a launcher that fails itself": Case(
        TRACEBACK, [], {},
        r"exit status 1 \(socket.gaierror: \[Errno -2\] Name or service not known\); ranks that did not",
    ),
    "a rank that stood still": Case(
        STOPPED, [failed(0, "an exchange failed", consequence=True), running(1)], RANK_1 | {"phase": "timed"},
        r"rank 1 \(host-of-1\) stopped answering: (?!.*memory)", logs={"rank-0.log": TIMEOUT},
    ),
    "killed, although the launcher saw the rank that lost it end first, and then a third that it killed itself": Case(
        gloo((0, 1), (1, 137), (2, 137)), [LOST_0, running(1), running(2)],
        RANK_1 | {"exit_code": 137}, "killed by SIGKILL", ranks=3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_failure_of_a_job(tmp_path, case):
    for name, text in (case.logs or {}).items():
        (tmp_path / name).write_text(text)
    failed_job = job(tmp_path, case.controller, case.ranks)
    result = find(failed_job, case.parts, case.output, case.exit_code, case.ended_by, case.launcher)
    fields = case.fields | ({"log": str(tmp_path / str(case.fields["log"]))} if "log" in case.fields else {})
    assert {name: getattr(result, name) for name in fields} == fields
    assert re.search(case.reason, result.reason)


@pytest.mark.parametrize(
    ("launcher", "output", "expected"),
    [
        ("local", MPI_SIGNAL, (3, 137)),
        ("slurm", MPI_EXIT, (1, 1)),
        ("slurm", SRUN, (1, 3)),
        ("slurm", SRUN_SIGNAL, (1, 137)),
        ("local", SRUN, None),  # its own words
    ],
)
def test_each_launcher_reports_the_rank_that_ended_first(launcher, output, expected):
    assert LAUNCHERS[launcher].first_to_end(output) == expected


@pytest.mark.parametrize(
    ("exit_code", "output", "parts", "expected"),
    [
        (137, in_group(0, "", 137), [running(0), done(1), done(2)], (0, 137)),
        (  # rank 1 of the group that begins at rank 1; the group that ended sooner only followed
            1,
            in_group(0, "", 1) + in_group(1, KILLED, 1),
            [failed(0, "an exchange failed", consequence=True), running(1), running(2)],
            (2, 137),
        ),
    ],
)
def test_ranks_of_several_rank_groups_are_counted_over_all(tmp_path, exit_code, output, parts, expected):
    result = find(side_by_side(tmp_path), parts, output, exit_code)
    assert (result.rank, result.exit_code, result.host) == (*expected, f"host-of-{expected[0]}")


def test_all_ranks_done_is_no_failure_whatever_follows(tmp_path):
    for ended_by in (None, "SIGTERM"):
        assert find(job(tmp_path), [done(0), done(1)], ended_by=ended_by) is None
    assert find(side_by_side(tmp_path), [done(0), done(1), done(2)]) is None
    assert "ranks that did not finish: [2]" in find(side_by_side(tmp_path), [done(0), done(1)]).reason
