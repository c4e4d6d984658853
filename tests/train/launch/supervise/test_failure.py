from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers import launches
from train.launch.job import Exchange, Group, Job, Nodes, Outcome
from train.launch.launchers import LAUNCHERS
from train.launch.supervise import failure
from train.record.parts import Part
from train.record.record import Failure, Resize

GLOO = (
    "Process 1 exit with status code 137.\nTerminating remaining workers after failure of Process 1.\n"
    "RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to be "
    "terminated. The first process to do so was:\nProcess name: 1\nExit code: 137\n"
)
MPI_SIGNAL = "mpirun noticed that process rank 3 with PID 0 on node vm exited on signal 9 (Killed).\n"
MPI_EXIT = "job to be terminated. The first process to do so was:\n\n  Process name: [[57417,1],1]\n  Exit code:    1\n"
SRUN = "srun: error: n2: task 1: Exited with exit code 3\n"
SRUN_SIGNAL = "srun: error: n2: task 1: Killed\nsrun: error: n1: task 0: Terminated\n"


def job(tmp_path: Path, controller: str = "gloo", ranks: int = 2) -> Job:
    return replace(launches.job(controller, folder=tmp_path), nodes=Nodes(("n1", "n2", "n3", "n4")[:ranks]))


def running(rank: int, phase: str = "timed") -> Part:
    """A rank that was in a phase when it ended."""
    return Part(rank=rank, host=f"host-of-{rank}", phase=phase)


def done(rank: int) -> Part:
    return Part(rank=rank, host=f"host-of-{rank}", phase="exit", finished=True)


def failed(rank: int, reason: str, consequence: bool = False, step: int | None = None) -> Part:
    result = Failure(reason, rank, f"host-of-{rank}", "timed", step, consequence=consequence)
    return Part(rank=rank, host=f"host-of-{rank}", phase="timed", failure=result)


def side_by_side(tmp_path: Path) -> Job:
    """A rank without Horovod, and a rank group of two."""
    one, two = Nodes(("localhost",)), Nodes(("localhost",) * 2)
    return replace(
        job(tmp_path, "none", ranks=1), groups=(Group(one, Exchange("none"), 0), Group(two, Exchange("gloo"), 1))
    )


def in_group(number: int, output: str, code: int) -> str:
    lines = [f"[group {number}] {line}" for line in output.splitlines()]
    return "\n".join([*lines, f"group {number} failed with exit status {code}\n"])


def outcome(exit_code: int = 1, output: str = "", ended_by: str | None = None) -> Outcome:
    return Outcome(0.0, 1.0, exit_code, ended_by, output)


def find(job: Job, outcome: Outcome, parts: list[Part], launcher: str = "local") -> Failure | None:
    return failure.find(job, LAUNCHERS[launcher], outcome, parts, 60)


def test_all_ranks_done_is_no_failure(tmp_path):
    assert find(job(tmp_path), outcome(0), [done(0), done(1)]) is None


def test_an_interruption_that_came_when_all_ranks_were_done_is_no_failure(tmp_path):
    assert find(job(tmp_path), outcome(0, ended_by="SIGTERM"), [done(0), done(1)]) is None
    result = find(job(tmp_path), outcome(ended_by="SIGTERM"), [running(0, "warm_up")])
    assert result.reason == "interrupted by SIGTERM; rank 0 on host-of-0 in phase warm_up"
    assert (result.rank, result.phase) == (None, "warm_up")


def test_a_killed_rank_is_named_with_host_and_phase_although_its_peer_complains(tmp_path):
    (tmp_path / "rank-1.log").touch()
    parts = [failed(0, "HorovodInternalError: peer closed", consequence=True), running(1, "timed")]
    result = find(job(tmp_path), outcome(output=GLOO), parts)
    assert (result.rank, result.host, result.exit_code, result.phase) == (1, "host-of-1", 137, "timed")
    assert "killed by SIGKILL" in result.reason
    assert result.log == str(tmp_path / "rank-1.log")


def test_a_rank_that_ended_before_it_wrote_anything_is_on_the_host_of_its_node(tmp_path):
    result = find(job(tmp_path), outcome(output=GLOO), [])
    assert (result.rank, result.host, result.phase) == (1, "n2", None)


def test_a_crash_is_reported_with_what_is_known_to_cause_it(tmp_path):
    result = find(job(tmp_path), outcome(output=GLOO.replace("137", "139")), [])
    assert result.reason.startswith("killed by SIGSEGV; Horovod's Gloo crashes so where a host cannot resolve its own")


def test_a_rank_that_could_say_why_is_quoted(tmp_path):
    parts = [running(0), failed(1, "NotFinite: the loss is not finite", step=3)]
    result = find(job(tmp_path, "mpi"), outcome(output=MPI_EXIT), parts)
    assert (result.rank, result.reason, result.step, result.exit_code) == (1, "NotFinite: the loss is not finite", 3, 1)


def test_the_cause_counts_although_a_rank_that_only_lost_it_ended_first(tmp_path):
    parts = [failed(0, "ValueError: broken"), failed(1, "HorovodInternalError: peer closed", consequence=True)]
    result = find(job(tmp_path, "mpi"), outcome(output=MPI_EXIT), parts)
    assert (result.rank, result.reason, result.exit_code) == (0, "ValueError: broken", None)
    assert result.log == str(tmp_path / "rank-0.log")


def test_where_every_failure_is_a_consequence_the_first_counts(tmp_path):
    parts = [running(0), failed(1, "HorovodInternalError: peer closed", consequence=True)]
    result = find(job(tmp_path, "mpi"), outcome(output=MPI_EXIT), parts)
    assert (result.rank, result.consequence) == (1, True)


def test_a_rank_that_was_killed_is_named_although_its_ssh_ended_after_the_rank_that_lost_it(tmp_path):
    output = (
        "Process 0 exit with status code 1.\nTerminating remaining workers after failure of Process 0.\n"
        "Process 2 exit with status code 143.\nProcess 1 exit with status code 255.\n"
        "The first process to do so was:\nProcess name: 0\nExit code: 1\n"
    )
    lost = failed(0, "HorovodInternalError: peer closed", consequence=True)
    result = find(job(tmp_path, ranks=3), outcome(output=output), [lost, running(1), running(2)], "ssh")
    assert (result.rank, result.host, result.exit_code, result.phase) == (1, "host-of-1", 255, "timed")
    assert "killed by a signal" in result.reason
    all_told = [lost, failed(1, "HorovodInternalError: peer closed", consequence=True), running(2)]
    assert find(job(tmp_path, ranks=3), outcome(output=output), all_told, "ssh").rank == 0


def test_without_a_word_from_the_launcher_the_cause_counts_before_its_consequence(tmp_path):
    left = [failed(0, "HorovodInternalError: peer closed", consequence=True), failed(1, "ValueError: broken")]
    assert find(job(tmp_path), outcome(), left).reason == "ValueError: broken"


def test_ranks_that_did_not_finish_are_listed_although_the_launcher_returned_zero(tmp_path):
    assert "ranks that did not finish: [1]" in find(job(tmp_path), outcome(0), [done(0)]).reason
    assert "ranks that did not finish: [1]" in find(job(tmp_path), outcome(0), [done(0), running(1)]).reason


def test_elastic_training_is_done_when_the_ranks_at_its_end_are(tmp_path):
    resized = replace(done(0), resizes=[Resize(3.0, 1, 10, 2, 1, "lost n2")])
    assert find(job(tmp_path, "elastic"), outcome(0), [resized, running(1)], "ssh") is None


def test_timeouts_and_interrupts_are_called_so(tmp_path):
    result = find(job(tmp_path), outcome(ended_by="timeout"), [running(0, "init")])
    assert "launcher.timeout_s=60" in result.reason
    assert result.phase == "init"
    assert find(job(tmp_path), outcome(ended_by="SIGINT"), []).reason == "interrupted by SIGINT"


CANCELLED = (
    "0: slurmstepd-n1: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-11-25T15:26:42 ***\n"
    "srun: error: n2: task 1: Terminated\n"
)


def test_a_cancelled_job_says_by_whom_and_which_ranks_were_where(tmp_path):
    result = find(
        job(tmp_path, ranks=3),
        outcome(output=CANCELLED, ended_by="SIGTERM"),
        [running(0), running(1), done(2)],
        "slurm",
    )
    assert result.reason == (
        "interrupted by SIGTERM (Slurm: STEP 1.0 ON n1 CANCELLED AT 2026-11-25T15:26:42); ranks 0-1 on host-of-[0-1] "
        "in phase timed; rank 2 on host-of-2 finished"
    )
    assert result.rank is None


# As srun and Slurm say it five minutes after a node has crashed: rank 0 has given its peer up a moment before.
NODE_FAILED = "srun: error: n1: task 0: Exited with exit code 1\nsrun: error: Node failure on n2\n"


def test_a_node_that_slurm_gave_up_is_named_with_its_rank_and_not_the_rank_that_lost_it(tmp_path):
    lost = replace(failed(0, "an exchange failed", consequence=True), host="n1")
    parts = [lost, replace(running(1), host="n2")]
    result = find(job(tmp_path), outcome(output=NODE_FAILED, ended_by="SIGTERM"), parts, "slurm")
    assert result.reason == "node n2 failed: Slurm gave it up and ended the job by SIGTERM"
    assert (result.rank, result.host, result.phase) == (1, "n2", "timed")
    assert result.log == str(tmp_path / "launcher.log")


def test_a_rank_that_others_waited_for_is_named_although_the_job_was_then_ended(tmp_path):
    (tmp_path / "rank-0.log").write_text(WAITED)
    parts = [failed(0, "an exchange failed", consequence=True), running(1)]
    result = find(job(tmp_path), outcome(ended_by="SIGTERM"), parts, "slurm")
    assert result.reason.startswith("rank 1 (host-of-1) stopped answering: ")
    assert result.reason.endswith(", until SIGTERM ended the job")
    assert (result.rank, result.host) == (1, "host-of-1")


def test_a_single_process_killed_by_a_signal(tmp_path):
    result = find(job(tmp_path, "none", 1), outcome(-9), [running(0)])
    assert (result.rank, result.exit_code) == (0, 137)


@pytest.mark.parametrize(
    ("output", "found"),
    [(MPI_SIGNAL, (3, 137)), (MPI_EXIT, (1, 1)), (SRUN, (1, 3)), (SRUN_SIGNAL, (1, 137)), ("nothing", None)],
)
def test_what_each_launcher_says_of_the_rank_that_ended_first(output, found):
    assert failure.first_to_end(output) == found


def test_sshs_own_exit_status_is_no_exit_of_the_rank(tmp_path):
    result = find(job(tmp_path), outcome(output=GLOO.replace("137", "255")), [], "ssh")
    assert (result.rank, result.host) == (1, "n2")
    assert "its host or the link to it is gone" in result.reason


def test_what_ssh_says_of_a_host_is_quoted(tmp_path):
    output = "[1]<stderr>:Offending key in known_hosts:3\n[1]<stderr>:Host key verification failed.\n"
    result = find(job(tmp_path), outcome(output=output + GLOO.replace("137", "255")), [], "ssh")
    assert result.reason.endswith("ssh ended with exit status 255; it printed last: Host key verification failed.")


def test_of_several_rank_groups_the_rank_is_counted_over_all(tmp_path):
    parts = [running(0), failed(1, "peer closed", consequence=True), running(2)]
    result = find(side_by_side(tmp_path), outcome(1, in_group(1, GLOO, 1)), parts)
    assert (result.rank, result.host, result.exit_code) == (2, "host-of-2", 137)  # rank 1 of the group from rank 1 on


def test_a_rank_group_of_one_rank_has_the_exit_status_of_that_rank(tmp_path):
    result = find(side_by_side(tmp_path), outcome(137, in_group(0, "", 137)), [running(0), done(1), done(2)])
    assert (result.rank, result.exit_code) == (0, 137)


def test_all_rank_groups_must_finish(tmp_path):
    assert find(side_by_side(tmp_path), outcome(0), [done(0), done(1), done(2)]) is None
    assert "ranks that did not finish: [2]" in find(side_by_side(tmp_path), outcome(0), [done(0), done(1)]).reason


def test_a_rank_group_that_ended_sooner_but_only_followed_is_not_the_cause(tmp_path):
    parts = [failed(0, "the meeting failed", consequence=True), running(1), running(2)]
    output = in_group(0, "", 1) + in_group(1, GLOO, 1)
    result = find(side_by_side(tmp_path), outcome(1, output), parts)
    assert (result.rank, result.exit_code) == (2, 137)


def test_a_rank_that_was_never_started_says_what_kept_it_and_names_a_log_that_is_there(tmp_path):
    full = (  # as with a full /dev/shm
        "Exception happened during safe_shell_exec, exception message: [Errno 28] No space left on device\n"
        "Terminating remaining workers after failure of Process 0.\n"
        "Exception happened during safe_shell_exec, exception message: [Errno 28] No space left on device\n"
        "RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job "
        "to be terminated. The first process to do so was:\nProcess name: 0\nExit code: 1\n"
    )
    result = find(job(tmp_path), outcome(output=full), [])
    assert result.reason == "ended with exit status 1; it printed last: [Errno 28] No space left on device"
    assert result.log == str(tmp_path / "launcher.log")


def test_a_rank_that_fails_before_it_has_a_log_says_what_it_printed(tmp_path):
    printed = (
        '[1]<stderr>:  File "/kit/train/__main__.py", line 47, in redirect_output\n[0]<stderr>:other\n'
        "[1]<stderr>:OSError: [Errno 28] No space left on device: '/r/rank-1.log'\n[1]<stderr>:\n"
        "Process 1 exit with status code 1.\n" + GLOO.replace("137", "1")
    )
    result = find(job(tmp_path), outcome(output=printed), [])
    assert result.reason.endswith("it printed last: OSError: [Errno 28] No space left on device: '/r/rank-1.log'")


def test_a_rank_that_aborts_says_why(tmp_path):
    (tmp_path / "rank-1.log").write_text("terminate called\n  what():  Unable to find address for: n1.invalid\n\n")
    result = find(job(tmp_path), outcome(output=GLOO.replace("137", "134")), [running(0), running(1, "init")])
    assert result.reason == "killed by SIGABRT; it printed last: what():  Unable to find address for: n1.invalid"
    assert result.log == str(tmp_path / "rank-1.log")


def test_a_launcher_that_fails_itself_says_why(tmp_path):
    raised = "Traceback (most recent call last):\n  File x\nsocket.gaierror: [Errno -2] Name or service not known\n"
    result = find(job(tmp_path), outcome(output=raised), [])
    assert "exit status 1 (socket.gaierror: [Errno -2] Name or service not known); ranks that did not" in result.reason


# Rank 1 was stopped: Gloo gave it up after five minutes, then Horovod's launcher killed it.
STOOD_STILL = (
    "Process 0 exit with status code 1.\nTerminating remaining workers after failure of Process 0.\n"
    "Process 1 exit with status code 137.\nThe first process to do so was:\nProcess name: 0\nExit code: 1\n"
)
WAITED = "[0]: Horovod background loop uncaught exception: [unbound_buffer.cc:81] Timed out waiting 300000ms for recv"


def test_a_rank_that_stood_still_is_named_and_not_taken_for_one_that_ran_out_of_memory(tmp_path):
    here = replace(job(tmp_path), nodes=Nodes(("localhost",) * 2))
    (tmp_path / "rank-0.log").write_text(WAITED)
    result = find(here, outcome(output=STOOD_STILL), [failed(0, "an exchange failed", consequence=True), running(1)])
    assert result.reason.startswith("rank 1 (host-of-1) stopped answering: ")
    assert (result.rank, result.host, result.phase) == (1, "host-of-1", "timed")
    assert "memory" not in result.reason


def test_a_rank_that_the_launcher_killed_after_another_was_lost_is_no_cause(tmp_path):
    here = replace(job(tmp_path), nodes=Nodes(("localhost",) * 2))
    closed = failed(0, "an exchange with the other ranks failed: Connection closed by peer", consequence=True)
    result = find(here, outcome(output=STOOD_STILL), [closed, running(1)])
    assert (result.rank, "memory" in result.reason) == (0, False)
