"""The result of a check: passed, failed or skipped. The checks themselves run with `make test-images`."""

import sys

import pytest

from containers import verify


def _raises(error):
    def check(variant):
        raise error

    return check


@pytest.mark.parametrize(
    ("check", "state", "seen"),
    [
        (lambda variant: f"{variant} works", "passed", "cpu works"),
        (_raises(verify.Skipped("no GPU")), "skipped", "no GPU"),
        (_raises(AssertionError("first\nsecond")), "FAILED", "first"),
        (_raises(OSError("gone")), "FAILED", "gone"),
    ],
)
def test_a_check_passes_fails_or_is_skipped(check, state, seen):
    row = verify.verify("cpu", "something", check)
    assert (row.image, row.what, row.state, row.seen) == ("cpu", "something", state, seen)


def test_the_table_has_columns():
    rows = [
        verify.Row("cpu", "build", "passed", "1710 MB", 61.2),
        verify.Row("cuda", "on a GPU", "skipped", "none", 0),
    ]
    assert verify.table(rows).splitlines() == [
        "image  what               s   seen",
        "cpu    build     passed   61  1710 MB",
        "cuda   on a GPU  skipped  0   none",
    ]


def test_a_command_with_another_exit_status_is_an_error_with_its_output():
    fails = [sys.executable, "-S", "-c", "import os, sys; print(os.environ['WORD']); sys.exit(3)"]
    with pytest.raises(AssertionError, match="exit status 3\nspoken"):
        verify.output(fails, WORD="spoken")
    assert verify.output(fails, status=3, WORD="spoken") == "spoken\n"


def test_only_a_base_imported_on_this_machine_is_marked_as_a_substitute(monkeypatch):
    monkeypatch.setattr(verify, "output", lambda command: "imported from tarball\n")
    assert verify.origin("podman", "debian") == "debian (a substitute, imported here)"
    monkeypatch.setattr(verify, "output", lambda command: "\n")
    assert verify.origin("podman", "debian") == "debian"
