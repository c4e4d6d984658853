"""The result of a check: passed, failed or skipped. The checks themselves run with `make test-images`."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from unittest.mock import create_autospec

import pytest

from containers import build, verify
from tests.helpers import simcluster

BEGAN = datetime(2026, 11, 22, 22, 1, 7, tzinfo=UTC)


def _raises(error):
    def check(*_):
        raise error

    return check


@pytest.mark.parametrize(
    ("check", "state", "result"),
    [
        (lambda variant: f"{variant} works", "passed", "cpu works"),
        (_raises(verify.Skipped("no GPU")), "skipped", "no GPU"),
        (_raises(AssertionError("first\nsecond")), "FAILED", "first"),
        (_raises(OSError("gone")), "FAILED", "gone"),
    ],
)
def test_a_check_passes_fails_or_is_skipped(check, state, result):
    row = verify.verify("cpu", "something", check)
    assert (row.image, row.check, row.state, row.result) == ("cpu", "something", state, result)


def test_the_table_has_columns():
    rows = [
        verify.Row("cpu", "build", "passed", "1710 MB", 61.2, BEGAN),
        verify.Row("cuda", "on a GPU", "skipped", "none", 0, BEGAN),
    ]
    assert verify.table(rows).splitlines() == [
        "image  what               began (UTC)          s   result",
        "cpu    build     passed   2026-11-22 22:01:07  61  1710 MB",
        "cuda   on a GPU  skipped  2026-11-22 22:01:07  0   none",
    ]


@pytest.mark.parametrize(
    ("error", "status"), [(verify.Skipped("no GPU"), 0), (AssertionError("no"), 1), (KeyboardInterrupt(), 130)]
)
def test_the_status_shows_a_failure_or_an_interruption(monkeypatch, capsys, error, status):
    monkeypatch.setattr(verify, "build_image", lambda variant: "built")
    monkeypatch.setattr(verify, "tested_versions", lambda: "engine 1.0")
    monkeypatch.setattr(build, "chosen_engine", lambda *_: "podman")
    monkeypatch.setitem(verify.CHECKS, "cpu", [("first", lambda variant: "works"), ("second", _raises(error))])
    monkeypatch.setattr(sys, "argv", ["verify.py", "cpu"])
    assert verify.main() == status
    first, *table = capsys.readouterr().out.splitlines()
    assert first == "engine 1.0"
    assert [line.split()[1] for line in table[:3]] == ["what", "build", "first"]  # also where the second never ended
    assert len(table) == (3 if status == 130 else 4)


def test_an_image_that_cannot_be_built_is_not_tested(monkeypatch):
    monkeypatch.setattr(verify, "build_image", _raises(AssertionError("exit status 1")))
    monkeypatch.setitem(verify.CHECKS, "cpu", [("anything", _raises(RuntimeError("was called")))])
    assert [row.state for row in verify.rows_of("cpu")] == ["FAILED"]


def test_why_no_engine_works_fits_into_one_cell(monkeypatch):
    reasons = "error: this check needs docker or podman; on this machine\n  docker: no\n  podman: gone"
    monkeypatch.setattr(build, "chosen_engine", _raises(SystemExit(reasons)))
    verify.engine.cache_clear()
    with pytest.raises(verify.Skipped, match=r"^this check needs docker or podman; on this machine docker: no, podman"):
        verify.engine()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "status"), [("Ctrl-C", 3), ("kill -9", -signal.SIGKILL), ("kill -9 of the engine's command", 0)]
)
def test_each_way_to_end_a_run_sends_its_signal(monkeypatch, name, status):
    monkeypatch.setattr(verify, "engine", lambda: "sleep")
    traps = ["sh", "-c", "trap 'exit 3' INT; sleep 600 & wait"]
    launcher = subprocess.Popen(traps, start_new_session=True)
    try:
        verify.wait_for(functools.partial(verify.clients, launcher), "the command", 240)
        verify.INTERRUPTIONS[name](launcher)
        assert launcher.wait(240) == status
    finally:
        with contextlib.suppress(ProcessLookupError):  # nothing of it is left
            os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()


@pytest.mark.slow
def test_a_command_with_another_exit_status_is_an_error_with_its_output():
    fails = [sys.executable, "-S", "-c", "import os, sys; print(os.environ['WORD']); sys.exit(3)"]
    with pytest.raises(AssertionError, match="exit status 3\nspoken"):
        verify.output(fails, WORD="spoken")
    assert verify.output(fails, status=3, WORD="spoken") == "spoken\n"


def test_a_command_that_fails_on_the_cluster_is_an_error_with_its_output():
    cluster = create_autospec(simcluster.Cluster, instance=True)
    cluster.on.return_value = subprocess.CompletedProcess([], 0, "")
    verify.on_cluster(cluster, "srun", "true")
    cluster.on.return_value = subprocess.CompletedProcess([], 3, "spoken")
    with pytest.raises(AssertionError, match="srun false: exit status 3\nspoken"):
        verify.on_cluster(cluster, "srun", "false")


@pytest.mark.slow
def test_the_checks_start_without_the_packages_of_tests():
    without = "import sys; sys.modules['pytest'] = None; from containers import verify; verify.main()"
    verify.output([sys.executable, "-c", without, "--help"])


@pytest.mark.parametrize(
    ("history", "substitute"), [("imported from tarball", " (a substitute, imported here)"), ("", "")]
)
def test_only_a_base_imported_on_this_machine_is_marked_as_a_substitute(monkeypatch, history, substitute):
    monkeypatch.setattr(verify, "output", lambda command: f"{history}\n")
    assert verify.origin("podman", "debian") == f"debian{substitute}"


@pytest.mark.parametrize(
    ("names_by_run", "good"),
    [
        ([["n1"], ["n1", "n2"], ["n1", "n2"]], True),
        ([["n1"]], False),  # the run on two nodes left no record
        ([["n1"], ["n1", "n1"]], False),  # both ranks on one host
        ([["n2"], ["n1", "n2"]], False),
    ],
)
def test_the_ranks_of_each_record_ran_on_its_hosts(names_by_run, good):
    hosts = [[{"host": name} for name in names] for names in names_by_run]
    records = [{"config": {"nodes": len(entries)}, "environment": {"hosts": entries}} for entries in hosts]
    with contextlib.nullcontext() if good else pytest.raises(AssertionError):
        assert verify.check_hosts(records, {1, 2}) == records
