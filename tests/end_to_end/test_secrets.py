"""What other users of the machine, and readers of a record, could see of a user's keys."""

import os
from pathlib import Path

import psutil
import pytest

from tests.helpers.kit import END_S, launch_command, ranks, records, start, wait_for
from tests.helpers.patched import Hold

pytestmark = pytest.mark.end_to_end

SECRETS = {"WANDB_API_KEY": "of-wandb-4711", "SLURM_JWT": "of-slurm-4712", "OWN_PASSPHRASE": "own-4713"}


def seen_by_all() -> list[str]:
    """The command lines of all processes."""
    lines = []
    for process in psutil.process_iter():
        try:
            lines.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return lines


def test_keys_are_in_no_command_line_no_rank_and_no_file_of_a_run(tmp_path: Path):
    results, temporary = tmp_path / "results", tmp_path / "temporary"
    temporary.mkdir()
    hold = Hold(
        tmp_path / "patch", "train.loop.step.synchronize_devices", after=3, ranks=[1]
    )  # in whose step rank 0 waits
    launcher = start(
        *launch_command(results, "nodes=2"), variables=hold.variables | SECRETS | {"TMPDIR": str(temporary)}
    )
    wait_for(hold.holds)
    lines, environments = seen_by_all(), [process.environ() for process in ranks(results)]
    (private,) = results.rglob(".private")
    modes = [path.stat().st_mode & 0o777 for path in (private, private / "secret")]
    secret = (private / "secret").read_text()
    hold.off()
    output, _ = launcher.communicate(timeout=END_S)
    assert launcher.returncode == 0, output

    assert any("HOROVOD_RANK=1" in line and str(results) in line for line in lines)  # Horovod's shell was looked at
    assert len(environments) == 2
    written = "\n".join(path.read_text(errors="replace") for path in results.rglob("*") if path.is_file())
    for value in SECRETS.values():
        assert not [line for line in lines if value in line]
        assert not any(value in environment.values() for environment in environments)
        assert value not in written
    assert secret not in "\n".join([*lines, written])
    assert modes == [0o700, 0o600]
    assert not private.exists()
    assert not list(temporary.iterdir())
    assert {record.status for record in records(results)} == {"complete"}
    assert os.environ["PATH"] in environments[0]["PATH"]
