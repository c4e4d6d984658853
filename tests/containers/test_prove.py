"""What a proof comes to: shown, failed or not shown. The proofs themselves are `make test-images`."""

import sys

import pytest

from containers import prove


def _raises(error):
    def proof(variant):
        raise error

    return proof


@pytest.mark.parametrize(
    ("proof", "state", "seen"),
    [
        (lambda variant: f"{variant} works", "shown", "cpu works"),
        (_raises(prove.NotShown("no GPU")), "not shown", "no GPU"),
        (_raises(AssertionError("first\nsecond")), "FAILED", "first"),
        (_raises(OSError("gone")), "FAILED", "gone"),
    ],
)
def test_a_proof_is_shown_failed_or_not_shown(proof, state, seen):
    row = prove.prove("cpu", "something", proof)
    assert (row.image, row.what, row.state, row.seen) == ("cpu", "something", state, seen)


def test_the_table_stands_in_columns():
    rows = [prove.Row("cpu", "build", "shown", "1710 MB", 61.2), prove.Row("cuda", "on a GPU", "not shown", "none", 0)]
    assert prove.table(rows).splitlines() == [
        "image  what                 s   seen",
        "cpu    build     shown      61  1710 MB",
        "cuda   on a GPU  not shown  0   none",
    ]


def test_a_command_that_ends_otherwise_than_expected_is_told_with_its_output():
    fails = [sys.executable, "-S", "-c", "import os, sys; print(os.environ['WORD']); sys.exit(3)"]
    with pytest.raises(AssertionError, match="exit status 3\nspoken"):
        prove.output(fails, WORD="spoken")
    assert prove.output(fails, status=3, WORD="spoken") == "spoken\n"


def test_only_a_base_made_on_this_machine_is_said_to_stand_in(monkeypatch):
    monkeypatch.setattr(prove, "output", lambda command: "imported from tarball\n")
    assert prove.origin("podman", "debian") == "debian (stood in for: imported here)"
    monkeypatch.setattr(prove, "output", lambda command: "\n")
    assert prove.origin("podman", "debian") == "debian"
