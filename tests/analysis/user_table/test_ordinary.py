"""Tables as people keep them (tests/golden/ordinary): each is read as TRUTH.md there says, or asked about."""

import pytest

from analysis import TableError
from analysis.user_table import table
from tests.helpers import GOLDEN

FOLDER = GOLDEN / "ordinary"
READ = {
    "01-hms": {"ranks": [24, 48, 96], "wall_s": [3723, 1990, 1080]},
    "02-nodes-tasks-elapsed": {"nodes": [1, 2, 4], "ranks": [48, 96, 192], "wall_s": [1200, 640, 350]},
    "04-problem-size-n": {"setting": ["N 1024"] * 2 + ["N 2048"] * 2, "ranks": [1, 2] * 2, "wall_s": [10, 6, 80, 45]},
    "05-weak-time-flat": {"ranks": [1, 2, 4], "epoch_s": [100, 103, 108], "scaling": [""] * 3},
    "06-step-ms-batch": {"ranks": [1, 2, 4], "step_s": [0.1, 0.105, 0.12], "scaling": [""] * 3},
    "07-batch-global-col": {"global_batch": [64, 128, 256], "images_per_s": [400, 780, 1500]},
    "09-loss-rate": {"ranks": [1, 2, 4], "images_per_s": [100, 190, 360]},
    "11-speedup-only": {"nodes": [1, 2, 4, 8], "speedup": [1, 1.9, 3.5, 6]},
    "12-efficiency-pct": {"nodes": [1, 2, 4], "efficiency": [1, 0.95, 0.88]},
    "13-total-time-comm": {"ranks": [1, 2, 4], "wall_s": [100, 56, 33]},
    "15-date-col": {"ranks": [8, 16, 32], "images_per_s": [800, 1500, 2800], "work": ["samples"] * 3},
    "17-nodes-and-ppn": {"ranks": [4, 8, 16], "images_per_s": [100, 190, 370], "work": ["GFLOP"] * 3},
    "18-threads": {"ranks": [1, 2, 4, 8], "wall_s": [60, 31, 17, 10]},
    "19-tokens-per-sec-per-gpu": {"images_per_s_per_rank": [3500, 3400, 3100], "work": ["tokens"] * 3},
    "20-walltime-min": {"ranks": [1, 2, 4], "wall_s": [3600, 1860, 1020]},
}
# The answers that are proposed, and a column with each.
ASKED = {
    "03-per-gpu-flat": {
        "images/sec=images_per_s_per_rank": {"images_per_s": [400, 790, 1560, 3040]},
        "images/sec=images_per_s": {"images_per_s": [400, 395, 390, 380]},
    },
    "08-steps-s": {
        "steps/s=steps_per_s_per_rank": {"images_per_s": [10, 19, 36], "work": ["steps"] * 3},
        "steps/s=steps_per_s": {"images_per_s": [10, 9.5, 9]},
    },
    "10-comma-thousands": {
        "decimal=,": {"images_per_s": [1234, 2345, 4456]},
        "decimal=.": {"images_per_s": [1.234, 2.345, 4.456]},
    },
    "14-gpu-id": {"GPU=ranks": None, "GPU=unused": None},
    "16-two-curves-no-label": {"rows=repeats": {"ranks": [1, 2, 4, 1, 2, 4]}},
}  # fmt: skip


def check(name, columns, expected):
    runs = table.read(FOLDER / f"{name}.csv", columns).runs
    for column, values in expected.items():
        assert runs[column].tolist() == (values if isinstance(values[0], str) else pytest.approx(values)), column


@pytest.mark.parametrize("name", READ)
def test_it_is_read(name):
    check(name, "", READ[name])


@pytest.mark.parametrize("name", ASKED)
def test_it_is_asked_about_with_the_answer_for_each_reading(name):
    with pytest.raises(TableError) as error:
        table.read(FOLDER / f"{name}.csv")
    lines = str(error.value).splitlines()
    assert [line.split('COLUMNS="')[1].rstrip('"') for line in lines[1:]] == [*ASKED[name]]
    assert name in lines[0]
    for columns, expected in ASKED[name].items():
        if expected:
            check(name, columns, expected)


def test_all_are_tested():
    assert {*READ, *ASKED} == {path.stem for path in FOLDER.glob("*.csv")}
