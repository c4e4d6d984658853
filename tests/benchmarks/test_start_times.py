import sys

import pytest

from benchmarks import common, start_times
from benchmarks.common import Times


def test_a_row_has_the_median_ratio_with_its_interval():
    starts = [(Times(0.4 + n / 100, 0.2), Times(0.8 + n / 50, 0.4)) for n in range(8)]
    result = start_times.row("audit", starts)
    assert result["ratio"] == "0.50 (0.50 to 0.50)"
    assert (result["here [s]"], result["other [s]"]) == ("0.44", "0.87")
    assert start_times.row("audit", starts[:1])["ratio of CPU time"] == "0.50"


@pytest.mark.slow
def test_a_command_has_its_times():
    result = common.timed([sys.executable, "-S", "-c", "sum(range(10**6))"])
    assert result.cpu_s > 0
    assert result.wall_s > 0
