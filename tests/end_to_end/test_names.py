"""Results folders with unusual names, from make to a command. Other targets: tests/analysis/commands/test_names.py."""

import os

import pytest

from tests.helpers.kit import make_command, needs_setup, run
from tests.helpers.run_records import make_record, save

pytestmark = [pytest.mark.end_to_end, needs_setup]

NASTY = "it's \"a`touch b`$(touch c)${HOME};[é]: #%|(1), x=2\\"
LATIN = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize("name", [NASTY, LATIN], ids=["nasty", "latin"])
def test_a_name_goes_through_make(tmp_path, name):
    save(make_record(), tmp_path / name)
    status, output = run(*make_command(tmp_path / "kit", "status", f"RESULTS={tmp_path / name}"))
    assert (status, "weak_scaling" in output) == (0, True), output
    assert {path.name for path in tmp_path.iterdir()} == {"kit", name}
