from dataclasses import replace
from pathlib import Path

import pytest

from train.launch.plan.job import Job, Outcome
from train.launch.supervise import failure
from train.record import parts
from train.record.record import Failure, Rank

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
    return Job(ranks, 1, controller, (), {}, tmp_path, ("n1", "n2", "n3", "n4")[:ranks])


def part(rank: int, reason: str | None = None) -> parts.Part:
    told = Failure(reason, rank=rank, host="n", phase="timed") if reason else None
    return parts.Part(Rank(rank, rank, 0, "n", [rank], None, {}, [], [], 0), failure=told)


def outcome(exit_code: int = 1, output: str = "", ended_by: str | None = None) -> Outcome:
    return Outcome(0.0, 1.0, exit_code, ended_by, output)


def test_all_ranks_done_is_no_failure(tmp_path):
    assert failure.find(job(tmp_path), outcome(0), [part(0), part(1)], 60) is None


def test_an_interruption_that_came_when_all_ranks_were_done_is_no_failure(tmp_path):
    assert failure.find(job(tmp_path), outcome(0, ended_by="SIGTERM"), [part(0), part(1)], 60) is None
    found = failure.find(job(tmp_path), outcome(ended_by="SIGTERM"), [part(0)], 60)
    assert found.reason == "interrupted by SIGTERM"


def test_a_killed_rank_is_named_with_host_and_phase_although_its_peer_complains(tmp_path):
    (tmp_path / "rank-1.log").write_text("[rank 1] phase import\n[rank 1] phase timed\n")
    found = failure.find(job(tmp_path), outcome(output=GLOO), [part(0, "HorovodInternalError: peer closed")], 60)
    assert (found.rank, found.host, found.exit_code, found.phase) == (1, "n2", 137, "timed")
    assert "killed by SIGKILL" in found.reason
    assert found.log == str(tmp_path / "rank-1.log")


def test_a_crash_is_told_with_what_is_known_to_cause_it(tmp_path):
    found = failure.find(job(tmp_path), outcome(output=GLOO.replace("137", "139")), [], 60)
    assert found.reason.startswith("killed by SIGSEGV; Horovod's Gloo ends so where a host cannot resolve its own name")


def test_a_rank_that_could_say_why_is_quoted(tmp_path):
    found = failure.find(job(tmp_path, "mpi"), outcome(output=MPI_EXIT), [part(1, "NotFinite: step 3")], 60)
    assert (found.rank, found.reason, found.exit_code) == (1, "NotFinite: step 3", 1)


def test_what_mpirun_says_of_a_signal_is_understood():
    assert failure.first_to_end(MPI_SIGNAL) == (3, 137)


def test_without_a_word_from_the_launcher_the_own_failure_counts_before_a_lost_peer(tmp_path):
    left = [part(0, "HorovodInternalError: peer closed"), part(1, "ValueError: broken")]
    assert failure.find(job(tmp_path), outcome(), left, 60).reason == "ValueError: broken"


def test_ranks_that_left_nothing_are_listed_although_the_launcher_returned_zero(tmp_path):
    assert "ranks without a result: [1]" in failure.find(job(tmp_path), outcome(0), [part(0)], 60).reason


def test_timeouts_and_interrupts_are_called_so(tmp_path):
    assert "launcher.timeout_s=60" in failure.find(job(tmp_path), outcome(ended_by="timeout"), [], 60).reason
    assert failure.find(job(tmp_path), outcome(ended_by="SIGINT"), [], 60).reason == "interrupted by SIGINT"


def test_a_single_process_killed_by_a_signal(tmp_path):
    found = failure.find(job(tmp_path, "none", 1), outcome(-9), [], 60)
    assert (found.rank, found.exit_code) == (0, 137)


@pytest.mark.parametrize(
    ("output", "found"),
    [(MPI_SIGNAL, (3, 137)), (MPI_EXIT, (1, 1)), (SRUN, (1, 3)), (SRUN_SIGNAL, (1, 137)), ("nothing", None)],
)
def test_what_each_launcher_says_of_the_rank_that_ended_first(output, found):
    assert failure.first_to_end(output) == found


def test_sshs_own_exit_status_is_no_exit_of_the_rank(tmp_path):
    over_ssh = replace(job(tmp_path), launcher="ssh")
    found = failure.find(over_ssh, outcome(output=GLOO.replace("137", "255")), [], 60)
    assert (found.rank, found.host) == (1, "n2")
    assert "its host or the link to it is gone" in found.reason
