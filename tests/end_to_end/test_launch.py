import os
import subprocess
from pathlib import Path

import psutil
import pytest

from analysis.table.record_checks import faults
from record.parts import read_part
from tests.helpers import ROOT, mpi
from tests.helpers.kit import (
    OTHER_JOB,
    TIMEOUT_S,
    command_lines,
    finish,
    in_phase,
    launch_command,
    ranks,
    records,
    run,
    start,
    succeed,
    wait_for,
)
from tests.helpers.needs import needs
from tests.helpers.patched_ranks import SLEEPING, Hold, patch_ranks

pytestmark = pytest.mark.end_to_end

STEPS = 100
SECRETS = {"WANDB_API_KEY": "of-wandb-4711", "SLURM_JWT": "of-slurm-4712", "OWN_PASSPHRASE": "own-4713"}


def run_again_with_keys(command: list[str], results: Path, hold: Hold, temporary: Path) -> str:
    """Return the output of a launch by a user with keys; assert that no process and no file of the run shows a key."""
    hold.on()
    launcher = start(*command, variables=hold.variables | SECRETS | {"TMPDIR": str(temporary)})
    wait_for(hold.holds)
    lines, environments = command_lines(), [process.environ() for process in ranks(results)]
    (private,) = results.rglob(".private")
    modes = [path.stat().st_mode & 0o777 for path in (private, private / "secret")]
    secret = (private / "secret").read_text()
    hold.off()
    output = finish(launcher)

    assert any("HOROVOD_RANK=1" in line and str(results) in line for line in lines)  # Horovod's shell is among them
    assert len(environments) == 2
    assert os.environ["PATH"] in environments[0]["PATH"]
    written = "\n".join(path.read_text(errors="replace") for path in results.rglob("*") if path.is_file())
    for value in SECRETS.values():
        assert not [line for line in lines if value in line]
        assert not any(value in environment.values() for environment in environments)
        assert value not in written
    assert secret not in "\n".join([*lines, written])
    assert modes == [0o700, 0o600]
    assert not private.exists()
    assert not list(temporary.iterdir())
    return output


def test_a_killed_rank_fails_its_point_alone_and_later_the_same_command_runs_only_that_one_again(tmp_path: Path):
    measured, temporary = tmp_path / "results", tmp_path / "temporary"
    temporary.mkdir()
    command = launch_command(measured, "nodes=2,1", f"measure.timed_steps={STEPS}")
    # Rank 1 stops in a timed step, in which rank 0 waits for it.
    hold = Hold(measured / "patch", "train.loop.devices.synchronize_devices", after=50, ranks=[1], changes=SLEEPING)
    launcher = start(*command, variables=hold.variables | OTHER_JOB)  # as in a shell inside another job
    wait_for(hold.holds)
    status, output = run(*command)
    assert (status, len(list(measured.rglob("run.json")))) == (2, 1), output
    assert f"another launch is in progress there: process {launcher.pid} on {os.uname().nodename}, since " in output
    ranks(measured)[1].kill()
    output = finish(launcher, status=1)
    alone, pair = records(measured)
    assert (pair.status, pair.failure.rank, pair.failure.exit_code) == ("failed", 1, 137)
    assert (pair.failure.phase, pair.failure.host) == ("timed", os.uname().nodename)
    assert "killed by SIGKILL" in pair.failure.reason
    assert pair.failure.log in output
    assert command_lines(measured) == []

    output = run_again_with_keys(command, measured, hold, temporary)
    assert "1 of 2 runs are measured already" in output
    earlier = records(measured)
    assert [(r.point, r.generation, r.status, len(r.ranks)) for r in earlier] == [
        ("tiny-nodes1", 1, "complete", 1),
        ("tiny-nodes2", 1, "failed", 2),
        ("tiny-nodes2", 2, "complete", 2),
    ]
    assert earlier[0].sha256 == alone.sha256
    for record in (earlier[0], earlier[2]):
        assert record.weights_differ is False
        for rank in record.ranks:
            assert len(rank.step_times_s) == STEPS
            assert sum(rank.phases_s.values()) == pytest.approx(record.job_s, abs=0.05)
            assert 0 < sum(rank.step_times_s) <= rank.phases_s["timed"]
        assert [host.host for host in record.environment.hosts] == [os.uname().nodename]

    output = succeed(*command)
    assert "2 of 2 runs are measured already" in output
    assert [r.sha256 for r in records(measured)] == [r.sha256 for r in earlier]


# Other ends of a launcher: test_epochs.py, test_emulated.py, test_slurm_jobs.py, tests/train/launch/supervise/. When a
# launcher is killed, the standard input of its child ends.
def test_a_killed_launcher_leaves_no_process_also_of_mpirun(tmp_path: Path):
    controller = "gloo" if mpi.missing() else "mpi"
    endless = ("measure.timed_steps=1000000", f"distribution.controller={controller}")
    command = launch_command(tmp_path, "nodes=2", "--only=tiny-nodes2", *endless)
    launcher = start(*command, variables=patch_ranks(tmp_path / "patch", SLEEPING))
    wait_for(lambda: in_phase(tmp_path, "timed") and len(ranks(tmp_path)) == 2)
    launcher.kill()
    launcher.communicate(timeout=TIMEOUT_S)
    wait_for(lambda: command_lines(tmp_path) == [])
    assert records(tmp_path) == []  # the next start of the same command writes one: test_interrupted.py


@pytest.mark.on_change_of("train/launch/", "train/transport/")
@needs("setpriv", root=True)
def test_a_stranger_on_the_port_of_gloo_is_named_and_the_launch_made_once_more(tmp_path: Path):
    results = tmp_path / "results"
    hold = Hold(tmp_path / "patch", "train.rank.process.allow_open_files", after=0, ranks=[1])  # before it joins
    command = launch_command(results, "nodes=2", "--only=tiny-nodes2", "measure.timed_steps=3")
    launcher = start(*command, variables=hold.variables)

    def ports() -> list[str]:
        listening = [c for c in ranks(results)[0].net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        return [str(connection.laddr.port) for connection in listening]

    wait_for(lambda: hold.holds() and ports())
    connect = "import socket, sys\nfor port in sys.argv[1:]: socket.create_connection(('127.0.0.1', int(port)))"
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/env", "python3"]
    subprocess.run([*as_nobody, "-c", connect, *ports()], check=True, cwd="/", env={"PATH": "/usr/bin:/bin"})
    hold.off()
    finish(launcher)
    first, second = records(results)
    assert (first.status, first.generation, first.failure.phase) == ("failed", 1, "init")
    assert "another process connected to Gloo's port before a rank could" in first.failure.reason
    assert (second.status, second.generation) == ("complete", 2)


@needs(root=True)
def test_a_disk_that_fills_up_keeps_what_was_measured(tmp_path: Path):
    """The next start of the same command records it: test_interrupted.py."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if mount.returncode:
        pytest.skip(f"cannot mount a small file system here: {mount.stderr.strip()}")
    hold = Hold(tmp_path / "patch", "train.loop.devices.synchronize_devices", after=3, ranks=[0], changes=SLEEPING)
    command = launch_command(disk, "nodes=1", "distribution=none", "measure.timed_steps=5")
    try:
        launcher = start(*command, variables=hold.variables)
        wait_for(hold.holds)
        free = os.statvfs(disk)
        (disk / "other").write_bytes(bytes((free.f_bavail - 1) * free.f_bsize))  # the part fits, the record does not
        hold.off()
        output = finish(launcher, status=1)
        assert "record.json: No space left on device; it was not written" in output
        (part,) = disk.rglob("rank-0.*.jsonl")
        assert read_part(part).finished
        assert [path.name for path in part.parent.iterdir() if "record" in path.name] == []
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.on_change_of("train/rank/", "train/loop/", "record/parts.py")
def test_a_clock_that_is_set_while_it_measures_changes_no_number(tmp_path: Path):
    """The clock of all processes of a launch is set ahead in the warm-up, and back in the timed steps."""
    results, clock, library = tmp_path / "results", tmp_path / "clock", tmp_path / "set_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, ROOT / "tests/helpers/set_clock.c"], check=True)
    steps = ("measure.warm_up_steps=1000", "measure.timed_steps=1000", "measure.usage_period_s=0.2")
    command = launch_command(results, "nodes=1", "distribution=none", *steps)
    launcher = start(*command, variables={"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(clock)})
    for phase, jump_s in (("warm_up", "3600"), ("timed", "-3600")):
        wait_for(lambda phase=phase: in_phase(results, phase))
        clock.write_text(jump_s)
    finish(launcher)
    (record,) = records(results)
    (rank,) = record.ranks
    assert faults(record) == []
    assert sum(rank.phases_s.values()) == pytest.approx(record.job_s, abs=0.05)
    assert rank.usage.at_s[-1] < record.job_s < 1000
    assert len(rank.usage.at_s) > 3
