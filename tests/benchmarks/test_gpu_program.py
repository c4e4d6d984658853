import subprocess
import sys

import pytest

from benchmarks.gpu_program import compared, parse_log
from record.schema import GpuUsage
from tests.helpers import ROOT
from tests.helpers.kit import succeed
from tests.helpers.needs import needs
from tests.helpers.programs import write_program

LOG = """\
2026/11/27 12:00:00.000, 0, 500, 210, 60.0
2026/11/27 12:00:01.000, 80, 1000, 1200, 200.0
2026/11/27 12:00:02.000, 100, 1024, 1260, 300.0
"""


def test_the_record_is_compared_over_its_own_seconds_by_hand():
    log = parse_log(LOG)
    began = log[1][0] - 0.25  # the first sample is earlier
    usage = GpuUsage("0", [0.0, 2.0], [0.8, 0.9], [2**29, 2**30], [1200.0, 1220.0], [1000.0, 1450.0])
    assert compared(usage, began, log) == [
        ("use (%)", pytest.approx(85), 90, True),
        ("memory (MiB)", 1024, 1024, True),
        ("clock (MHz)", 1210, 1230, True),
        ("energy (J)", 450, 500, True),
    ]
    usage = GpuUsage("0", [0.0, 2.0], [0.1, 0.1], [0, 0], [300.0, 300.0], [1000.0, 1100.0])
    assert [agree for *_, agree in compared(usage, began, log)] == [False] * 4
    with pytest.raises(ValueError, match="0 samples of nvidia-smi in 2 s"):
        compared(usage, began - 60, log)


@pytest.mark.slow
@needs("cc")
def test_an_imitated_gpu_is_measured_and_two_ranks_on_it_are_refused(tmp_path):
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", library, ROOT / "tests/helpers/nvml.c"], check=True)
    line = "$(date '+%Y/%m/%d %H:%M:%S.%3N'), 87, 1024, 1200, 250.0"
    write_program(tmp_path / "bin" / "nvidia-smi", f'[ "$1" = topo ] || while :; do echo "{line}"; sleep 0.2; done')
    python = write_program(tmp_path / "python", "echo on GPU $CUDA_VISIBLE_DEVICES; sleep 3; echo images/s: 50")
    command = [sys.executable, "-m", "benchmarks.gpu_program", f"--python={python}"]
    output = succeed(*command, variables={"LD_LIBRARY_PATH": str(tmp_path), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    assert "Imitated GPU: 50 images/s" in output
    assert output.count("| yes") == 4
    assert "2 ranks on 1 GPU(s): refused" in output
