"""What a power cut may leave: each name is on the disk only after its file, and each folder's name at last."""

import re
import subprocess
import sys

import pytest

from tests.helpers.needs import needs

LAUNCH = """
import sys
from pathlib import Path
from record import ledger, run_files as files
run, generation = files.new_run(Path(sys.argv[1]) / "results/experiment/point/0123abcd", 0)
files.write_once(run / "run.json", b"{}")
files.append(run / "rank-0.host.7.jsonl", b"{}")
ledger.append(run.parent, ledger.Line("begin", 0, generation))
files.write_once(run / "record.json", b"{}")
files.write_whole(run / "record.json", b"[]")
"""


@pytest.mark.slow
@needs("strace")
def test_what_a_launch_names_is_on_the_disk_before_its_name_and_the_name_before_it_goes_on(tmp_path):
    calls = "trace=openat,mkdir,mkdirat,link,linkat,rename,renameat,renameat2,fsync,fdatasync"
    command = ["strace", "-y", "-s", "400", "-e", calls, "-o", tmp_path / "calls"]
    subprocess.run([*command, sys.executable, "-c", LAUNCH, tmp_path], check=True)
    here, synchronized, waiting, names = str(tmp_path), set(), [], []
    for line in (tmp_path / "calls").read_text().splitlines():
        if here not in line or line.endswith(")") or "= -1" in line:
            continue
        call, paths = line.partition("(")[0], re.findall(rf"{re.escape(here)}[^\">]*", line)
        if call in ("fsync", "fdatasync"):
            synchronized.add(paths[0])
            waiting = [path for path in waiting if path.rpartition("/")[0] != paths[0]]
        elif call.startswith(("link", "rename")):
            assert paths[0] in synchronized, line
            waiting.append(paths[1])
        elif call.startswith("mkdir") or (call == "openat" and "O_CREAT" in line and ".writing" not in line):
            waiting.append(paths[0])
        names += waiting[-1:]
    assert not waiting
    expected = ["results", "0123abcd", "r0", "run.json", "rank-0.host.7.jsonl", "ledger.jsonl", "record.json"]
    assert [name for name in expected if not any(path.endswith(f"/{name}") for path in names)] == []
