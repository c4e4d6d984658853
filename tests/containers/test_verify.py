"""The result of a check: passed, failed or skipped. The checks themselves run with `make test-images`."""

import contextlib
import sys

import pytest

from containers import build, verify


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
def test_the_checks_start_without_the_packages_of_tests():
    without = "import sys; sys.modules['pytest'] = None; from containers import verify; verify.main()"
    verify.output([sys.executable, "-c", without, "--help"])


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
