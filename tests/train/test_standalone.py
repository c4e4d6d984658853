import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from record import schema as record
from record.parts import PartWriter
from record.schema import Failure
from tests.helpers import ROOT
from train.config.compose import load
from train.distribution import Single
from train.rank.phases import PhaseClock
from train.standalone import Standalone

OVERRIDES = ["experiment=weak_scaling", "model=tiny", "nodes=2", "batch_per_rank=4"]
SWEEP = ["model", "nodes"]


class Ranks(Single):
    """One of two ranks, which gather one after the other: rank 1 gets the value of rank 0."""

    size = 2

    def __init__(self, rank, values):
        self.rank, self._values = rank, values

    def gather(self, value, kind):
        self._values.append(value)
        return self._values


@pytest.fixture
def config(tmp_path):
    return load([*OVERRIDES, f"results={tmp_path}"])


@pytest.fixture(autouse=True)
def no_handlers(monkeypatch):
    """Keep the signal handlers of pytest."""
    monkeypatch.setattr("train.standalone.when_ended", lambda handle: None)


def standalone(rank):
    part = PartWriter(rank=rank, host=f"n{rank + 1}", cores=[0], began_at=1000.0)
    clock = PhaseClock(1000.0, lambda phase, seconds: part.add(phase=phase, phases_s=dict(seconds)))
    return Standalone(part, clock, OVERRIDES), part


def two_ranks(config):
    """The standalone runs of two ranks that agreed on a folder, and their parts."""
    values = []
    ranks = [standalone(rank) for rank in range(2)]
    for rank, (run, _) in enumerate(ranks):
        run.agree_on_folder(config, SWEEP, Ranks(rank, values))
    return ranks


def test_the_rank_that_fails_writes_the_record_with_all_parts_and_a_later_one_is_left_out(config):
    (first, part), (second, second_part) = two_ranks(config)
    part.add(warm_up_step_times_s=[0.5])
    cause = Failure("out of memory", rank=1, host="n2", phase="timed")
    second_part.add(failure=cause)
    second.failed()
    part.add(failure=Failure("an exchange failed", rank=0, host="n1", phase="timed", consequence=True))
    first.failed()
    run = record.load(first.folder / record.RECORD_NAME)
    assert (run.status, run.failure) == ("failed", cause)
    assert [(rank.rank, rank.warm_up_step_times_s) for rank in run.ranks] == [(0, [0.5]), (1, [])]
    assert run.ranks[0].phases_s.get("exit") is None


@pytest.mark.parametrize(
    ("failure", "reason"), [(None, "ended by SIGTERM"), (Failure("out of memory", rank=1), "out of memory")]
)
def test_a_signal_is_the_reason_unless_a_rank_reports_another(config, failure, reason):
    (first, _), (_, second_part) = two_ranks(config)
    second_part.add(failure=failure)
    first.failed(Failure("ended by SIGTERM", rank=0))
    assert record.load(first.folder / record.RECORD_NAME).failure.reason == reason


def test_ranks_that_did_not_agree_on_a_folder_leave_nothing(tmp_path):
    alone, part = standalone(0)
    part.add(failure=Failure("no GPU", rank=0))
    alone.failed()
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_is_followed_by_another_generation_and_a_complete_one_by_a_repeat(config):
    single = replace(config, nodes=1, global_batch=None).completed()
    result = []
    for status in ("failed", "complete", "complete"):
        alone, part = standalone(0)
        alone.agree_on_folder(single, SWEEP, Single())
        part.add(failure=Failure("x") if status == "failed" else None, phases_s={"timed": 2.0}, step_times_s=[1.0, 1.0])
        alone.failed() if status == "failed" else alone.complete(Single())
        run = record.load(alone.folder / record.RECORD_NAME)
        result.append((run.status, run.repeat, run.generation))
    assert result == [("failed", 0, 1), ("complete", 0, 2), ("complete", 1, 1)]
    # 4 images a step, 2 steps, in 2 s
    assert run.summary["images_per_s"] == pytest.approx(4.0)


BUSY = """
import hashlib, os, sys
from train.standalone import when_ended

def handle(number):
    print("handled", number.name, flush=True)
    os._exit(7)

when_ended(handle)
print("busy", flush=True)
hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)  # for minutes, without running Python's signal handlers
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_handled_while_the_main_thread_is_in_native_code(number):
    process = subprocess.Popen([sys.executable, "-c", BUSY], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "busy\n"
        os.kill(process.pid, number)
        output, _ = process.communicate(timeout=240)
    finally:
        process.kill()
    assert (process.returncode, output) == (7, f"handled {number.name}\n")
