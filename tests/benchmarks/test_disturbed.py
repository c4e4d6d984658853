import psutil
import pytest

from benchmarks import disturbed
from tests.helpers.run_records import make_rounds, save

QUIET = [1.58, 1.59, 1.60, 1.61, 1.62, 1.63, 1.64, 1.65]


def test_the_rounds_beside_the_loop_are_distinguished_from_the_others(tmp_path):
    ratios = [*QUIET[:4], 0.80, 0.81, 0.82, 0.83, *QUIET[4:]]
    save(make_rounds([(1.0, 2 / ratio, 2 / 1.9) for ratio in ratios]), tmp_path)
    count, speedup, control = disturbed.compare(tmp_path, {4, 5, 6, 7, 12})
    assert count == "4 of 12 rounds beside a busy loop"
    assert speedup.startswith("nodes2-: speedup over all rounds 1.595 (0.8")
    assert speedup.endswith("without the loop 1.615 (1.580 to 1.650)")
    assert "1.900 (1.900 to 1.900)" in control


@pytest.mark.slow
def test_the_loop_runs_on_its_core_until_it_is_ended():
    loop = disturbed.busy_loop(0)
    process = psutil.Process(loop.pid)
    try:
        while process.cpu_affinity() != [0]:
            assert loop.poll() is None
    finally:
        disturbed.end(loop)
    assert not process.is_running()


def test_without_a_round_there_is_no_number(tmp_path):
    assert disturbed.finished(tmp_path) is None
